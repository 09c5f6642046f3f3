//! `node` statements.

use std::sync::Arc;

use crate::types::topology::{Nic, pcie};
use crate::types::{ImageId, Labels, Node, NodeTopology};

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
    (
        "gpulinks",
        "how many GPUs, bandwidths, and what NICs have to GPUs: 4,0-1:600,2-3:600,mlx5_0@0:32; the rest has 16",
        |node, value| {
            node.topology = Some(Arc::new(topology(value)?));
            Ok(())
        },
    ),
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

fn topology(text: &str) -> Result<NodeTopology, String> {
    let mut words = words::list(text);
    let len =
        words.next().and_then(|n| n.parse().ok()).ok_or("how many GPUs there are is missing")?;
    let mut links: Vec<(usize, usize, u16)> = Vec::new();
    let mut nics: Vec<Nic> = Vec::new();
    for link in words {
        if let Some((name, near)) = link.split_once('@') {
            let near = near.split_once(':').and_then(|(gpu, gbs)| {
                Some((gpu.parse::<usize>().ok().filter(|gpu| *gpu < len)?, gbs.parse().ok()?))
            });
            let (gpu, gbs) = near.ok_or_else(|| format!("{link:?} is near no GPU"))?;
            let at = nics.iter().position(|nic| nic.name == name).unwrap_or_else(|| {
                nics.push(Nic { name: name.into(), gbs: vec![pcie::SYSTEM; len].into() });
                nics.len() - 1
            });
            nics[at].gbs[gpu] = gbs;
            continue;
        }
        let read = || {
            let (pair, gbs) = link.split_once(':')?;
            let (a, b) = pair.split_once('-')?;
            Some((a.parse().ok()?, b.parse().ok()?, gbs.parse().ok()?))
        };
        links.push(read().ok_or_else(|| format!("{link:?} is no link"))?);
    }
    let bandwidth = |a: usize, b: usize| {
        let link = links.iter().find(|link| (link.0, link.1) == (a, b));
        link.map_or(pcie::SYSTEM, |link| link.2)
    };
    Ok(NodeTopology::new(len, bandwidth, Vec::new(), Vec::new()).with_nics(nics))
}

fn image(text: &str) -> Result<(ImageId, i64), String> {
    let (name, size) = text.rsplit_once('=').ok_or("an image needs a size")?;
    Ok((ImageId::of(name), words::quantity(size)?))
}
