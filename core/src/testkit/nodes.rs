//! `node` statements.

use crate::types::{ImageId, Labels, Node};

use super::selectors;
use super::words::{self, Key, Line};

const KEYS: &[Key<Node>] = &[
    ("labels", "k=v,k=v", |node, value| {
        node.labels = Labels::new(words::pairs(value));
        Ok(())
    }),
    ("taints", "k=v:Effect,k:Effect", |node, value| {
        node.taints = words::list(value).map(selectors::taint).collect::<Result<_, _>>()?;
        Ok(())
    }),
    ("unschedulable", "spec.unschedulable (kubectl cordon)", |node, _| {
        node.unschedulable = true;
        Ok(())
    }),
    ("pods", "how many pods it takes; 110 unless given", |node, value| {
        node.pods_max = words::number(value)?;
        Ok(())
    }),
    ("images", "name=size,name:tag=size", |node, value| {
        node.images = words::list(value).map(image).collect::<Result<_, _>>()?;
        node.images.sort();
        Ok(())
    }),
    ("features", "status.declaredFeatures: A,B", |node, value| {
        node.declared_features = words::texts(value);
        node.declared_features.sort();
        Ok(())
    }),
    ("uid", "another UID: another node of the same name", |node, value| {
        node.uid = value.into();
        Ok(())
    }),
];

/// Reads a node. Keys that the table lacks are allocatable amounts.
pub fn read(line: &Line) -> Result<Node, String> {
    let mut node = Node {
        name: line.name.clone(),
        uid: format!("node-{}", line.name).into(),
        pods_max: 110,
        ..Node::default()
    };
    words::apply(line, KEYS, &mut node, |node, key, value| {
        words::set_amount(&mut node.allocatable, key, value)
    })?;
    Ok(node)
}

fn image(text: &str) -> Result<(ImageId, i64), String> {
    let (name, size) = text.rsplit_once('=').ok_or("an image needs a size")?;
    Ok((ImageId::of(name), words::quantity(size)?))
}
