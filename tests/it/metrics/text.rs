//! Prometheus' text format, read as far as the tests ask.

use std::collections::{BTreeMap, BTreeSet};

/// What was served.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    /// By family.
    pub(crate) types: BTreeMap<String, String>,
    /// By series as it is written, labels and all.
    pub(crate) values: BTreeMap<String, f64>,
}

impl Exposition {
    pub(crate) fn read(text: &[u8]) -> Exposition {
        let mut read = Exposition::default();
        for line in std::str::from_utf8(text).expect("UTF-8").lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a name and a type");
                assert!(read.types.insert(name.into(), kind.into()).is_none(), "{name} twice");
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').expect("a series and a value");
                let value = value.parse().expect("a number");
                assert!(read.values.insert(series.into(), value).is_none(), "{series} twice");
            }
        }
        read
    }

    /// Returns the names of a family's labels but `le`, sorted.
    pub(crate) fn labels(&self, family: &str) -> Vec<String> {
        let labels = self.series(family).flat_map(|labels| labels.into_keys());
        let labels: BTreeSet<String> = labels.filter(|label| label != "le").collect();
        labels.into_iter().collect()
    }

    /// Returns the upper bounds of a histogram's buckets but the last.
    pub(crate) fn bounds(&self, family: &str) -> Vec<f64> {
        let bounds = self.series(family).filter_map(|labels| labels.get("le").cloned());
        let bounds = bounds.filter(|bound| bound != "+Inf");
        let mut bounds: Vec<f64> = bounds.map(|bound| bound.parse().expect("a number")).collect();
        bounds.sort_by(f64::total_cmp);
        bounds.dedup();
        bounds
    }

    fn series(&self, family: &str) -> impl Iterator<Item = BTreeMap<String, String>> {
        self.values.keys().filter_map(move |series| {
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let rest = name.strip_prefix(family)?;
            let own = matches!(rest, "" | "_bucket" | "_sum" | "_count");
            own.then(|| read_labels(labels.trim_end_matches('}')))
        })
    }
}

/// Values in the tests hold no quotes and no commas.
fn read_labels(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.into(), value.trim_matches('"').into())).collect()
}
