//! Attributes of devices, of all kinds.

use std::sync::Arc;

use berth_core::types::Text;
use berth_core::types::device::AttributeValue;

use crate::wire::field::{Field, List, Map, Shape};
use crate::wire::k8s::device as k8s;
use crate::wire::problem::Path;
use crate::wire::reading::Reading;
use crate::wire::tables::Tables;

/// Returns the attributes, sorted by name, and those whose kind isn't known.
///
/// Values aren't interned: most of them turn out to be shared by a model, or to be unique.
pub(super) fn read(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    map: &Field<Map<k8s::DeviceAttribute>>,
) -> (Vec<(Text, AttributeValue)>, Vec<Text>) {
    let (mut attributes, mut unknown) = (Vec::new(), Vec::new());
    for (name, attribute) in reading.opt(at, map).into_iter().flatten() {
        let at = at.key(name);
        let attribute = reading.opt(&at, attribute);
        let value = attribute.and_then(|attribute| value(reading, &at, attribute));
        let name = reading.tables.intern(name);
        match value {
            Some(value) => attributes.push((name, value)),
            None => unknown.push(name),
        }
    }
    (attributes, unknown)
}

/// None if it has no value of a known kind.
fn value(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    attribute: &k8s::DeviceAttribute,
) -> Option<AttributeValue> {
    let text = |text: &String| Text::from(text.as_str());
    let k8s::DeviceAttribute { int, bool, string, version, ints, bools, strings, versions } =
        attribute;
    let said = [
        reading.opt(&at.field("int"), int).map(|int| AttributeValue::Int(*int)),
        reading.opt(&at.field("bool"), bool).map(|bool| AttributeValue::Bool(*bool)),
        reading.opt(&at.field("string"), string).map(|s| AttributeValue::String(text(s))),
        reading.opt(&at.field("version"), version).map(|v| AttributeValue::Version(text(v))),
        list(reading, &at.field("ints"), ints, i64::clone).map(AttributeValue::Ints),
        list(reading, &at.field("bools"), bools, bool::clone).map(AttributeValue::Bools),
        list(reading, &at.field("strings"), strings, text).map(AttributeValue::Strings),
        list(reading, &at.field("versions"), versions, text).map(AttributeValue::Versions),
    ];
    let mut said = said.into_iter().flatten();
    let (value, another) = (said.next(), said.next());
    if another.is_some() {
        reading.problem(at, "must have one value");
    }
    value
}

fn list<T: Shape, V>(
    reading: &mut Reading<'_>,
    at: &Path<'_>,
    list: &Field<List<T>>,
    value: impl Fn(&T) -> V,
) -> Option<Arc<[V]>> {
    reading.opt(at, list).filter(|list| !list.is_empty())?;
    let mut values = Vec::new();
    reading.each(at, list, |_, _, item| values.push(value(item)));
    Some(values.into())
}

/// Returns the value with texts that equal ones share.
pub(super) fn interned(tables: &mut Tables, value: AttributeValue) -> AttributeValue {
    let mut all = |texts: Arc<[Text]>| texts.iter().map(|text| tables.intern(text)).collect();
    match value {
        AttributeValue::Strings(texts) => AttributeValue::Strings(all(texts)),
        AttributeValue::Versions(texts) => AttributeValue::Versions(all(texts)),
        AttributeValue::String(text) => AttributeValue::String(tables.intern(&text)),
        AttributeValue::Version(text) => AttributeValue::Version(tables.intern(&text)),
        value @ (AttributeValue::Bool(_)
        | AttributeValue::Int(_)
        | AttributeValue::Bools(_)
        | AttributeValue::Ints(_)) => value,
    }
}
