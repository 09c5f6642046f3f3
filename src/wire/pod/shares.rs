//! What a pod's annotations say of parts of GPUs, in KAI's words or Alibaba's, and which GPUs it was
//! given.

use std::fmt::Display;

use berth_core::types::gpu_share::{GPU_INDEX, GPUS_MAX, WHOLE_MILLI};
use berth_core::types::{GpuNumbers, GpuShare, Pod, PodSpec, ShareSize, Text};

use crate::wire::meta::Meta;
use crate::wire::problem::shown;

const FRACTION: &str = "gpu-fraction";
const MEMORY: &str = "gpu-memory";
const N_GPUS: &str = "gpu-fraction-num-devices";
const ALIBABA_MILLI: &str = "alibabacloud.com/gpu-milli";
const ALIBABA_N_GPUS: &str = "alibabacloud.com/gpu-count";
const ALIBABA_INDEX: &str = "alibabacloud.com/gpu-index";

/// The annotations that are read.
pub(in crate::wire) const ANNOTATIONS: [&str; 7] =
    [FRACTION, MEMORY, N_GPUS, ALIBABA_MILLI, ALIBABA_N_GPUS, ALIBABA_INDEX, GPU_INDEX];

/// Fills in the share, and of a pod that has a node the GPUs. Call it after `spec.nodeName` is known.
pub(super) fn read(meta: &Meta, spec: &mut PodSpec, pod: &mut Pod) {
    spec.gpu_share = share(meta).transpose().map(|read| read.map_err(Text::from));
    // Before it has a node nobody can have given it any.
    if pod.node_name.is_some() && spec.gpu_share.is_some() {
        let numbers = |key, between| GpuNumbers::parse(meta.annotation(key)?, between);
        pod.gpu_numbers = numbers(GPU_INDEX, ',').or_else(|| numbers(ALIBABA_INDEX, '-'));
    }
}

/// # Errors
/// What is wrong, and how to mend it. It is the plugin's to tell: without it annotations say nothing.
fn share(meta: &Meta) -> Result<Option<GpuShare>, String> {
    let sizes = [FRACTION, MEMORY, ALIBABA_MILLI];
    let mut said = sizes.iter().filter_map(|key| Some((*key, meta.annotation(key)?)));
    let (first, second) = (said.next(), said.next());
    if let (Some((one, _)), Some((two, _))) = (first, second) {
        return Err(format!("annotations {one} and {two} both say how much of a GPU: keep one"));
    }
    let (count, other, wanted) = match first {
        Some((ALIBABA_MILLI, _)) => (ALIBABA_N_GPUS, N_GPUS, FRACTION),
        Some(_) => (N_GPUS, ALIBABA_N_GPUS, ALIBABA_MILLI),
        None => return of_how_much(meta).map_or(Ok(None), Err),
    };
    let Some((key, text)) = first else { return Ok(None) };
    if meta.annotation(other).is_some() {
        return Err(format!("annotation {other} goes with {wanted}, not with {key}: use {count}"));
    }
    let size = match key {
        FRACTION => fraction(text).map(ShareSize::Milli),
        MEMORY => number(text, 1, i64::from(u32::MAX)).map(|mib| ShareSize::Mib(mib as u32)),
        _ => number(text, 1, WHOLE_MILLI).map(|milli| ShareSize::Milli(milli as u16)),
    };
    let size = size.ok_or_else(|| match key {
        FRACTION => odd(key, text, "above 0 and at most 1, such as \"0.5\""),
        MEMORY => odd(key, text, "a whole number of MiB, such as \"10240\""),
        _ => odd(key, text, "a whole number of thousandths, 1 to 1000"),
    })?;
    let n_gpus = match meta.annotation(count) {
        None => 1,
        Some(text) => number(text, 1, i64::from(GPUS_MAX))
            .ok_or_else(|| odd(count, text, format_args!("a whole number, 1 to {GPUS_MAX}")))?,
    };
    Ok(Some(GpuShare { size, n_gpus: n_gpus as u16 }))
}

/// A number of GPUs without a size.
fn of_how_much(meta: &Meta) -> Option<String> {
    let alone = |key: &str, add: &str| {
        meta.annotation(key).map(|_| {
            format!("annotation {key} says of how many GPUs, but nothing how much: add {add}")
        })
    };
    alone(N_GPUS, FRACTION).or_else(|| alone(ALIBABA_N_GPUS, ALIBABA_MILLI))
}

fn odd(key: &str, text: &str, wanted: impl Display) -> String {
    format!("annotation {key} is \"{}\": it must be {wanted}", shown(text))
}

fn number(text: &str, least: i64, most: i64) -> Option<i64> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse::<i64>().ok().filter(|n| digits && (least..=most).contains(n))
}

/// Reads a decimal above 0 and at most 1 into thousandths, rounded up.
fn fraction(text: &str) -> Option<u16> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if text.len() > 32 || whole.len() + part.len() == 0 || !digits(whole) || !digits(part) {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()? };
    let (milli, rest) = part.split_at(part.len().min(3));
    let milli = format!("{milli:0<3}").parse::<i64>().ok()?;
    let more = i64::from(rest.bytes().any(|digit| digit != b'0'));
    let all = whole.checked_mul(WHOLE_MILLI)?.checked_add(milli + more)?;
    u16::try_from(all).ok().filter(|all| (1..=WHOLE_MILLI).contains(&i64::from(*all)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::Tables;
    use crate::wire::pod::pod;

    fn read(annotations: Value, node: Option<&str>) -> Pod {
        let object = json!({
            "metadata": {"name": "p", "annotations": annotations},
            "spec": {"nodeName": node, "containers": [{"name": "c"}]},
        });
        pod(serde_json::from_value(object).unwrap(), &mut Tables::default())
    }

    fn asked(annotations: Value) -> Option<Result<GpuShare, Text>> {
        let pod = read(annotations, None);
        assert_eq!(pod.problem, None, "without the plugin they say nothing");
        pod.spec.gpu_share.clone()
    }

    #[test]
    fn both_dialects_are_read() {
        let milli = |milli, n_gpus| Some(Ok(GpuShare { size: ShareSize::Milli(milli), n_gpus }));
        assert_eq!(asked(json!({})), None);
        for (text, share) in [
            ("0.5", 500),
            ("1", 1000),
            (".25", 250),
            ("0.3331", 334),
            ("1.000", 1000),
            ("0.0001", 1),
        ] {
            assert_eq!(asked(json!({"gpu-fraction": text})), milli(share, 1), "{text}");
        }
        let of_two = json!({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"});
        assert_eq!(asked(of_two), milli(500, 2));
        let memory = GpuShare { size: ShareSize::Mib(10_240), n_gpus: 1 };
        assert_eq!(asked(json!({"gpu-memory": "10240"})), Some(Ok(memory)));
        let alibaba =
            json!({"alibabacloud.com/gpu-milli": "810", "alibabacloud.com/gpu-count": "4"});
        assert_eq!(asked(alibaba), milli(810, 4));
    }

    #[test]
    fn what_is_wrong_is_told_with_what_to_do() {
        let problem = |annotations: Value| match asked(annotations.clone()) {
            Some(Err(problem)) => problem.to_string(),
            other => panic!("{annotations}: {other:?}"),
        };
        assert_eq!(
            problem(json!({"gpu-fraction": "2"})),
            "annotation gpu-fraction is \"2\": it must be above 0 and at most 1, such as \"0.5\""
        );
        for text in
            ["", ".", "0", "0.0", "1.001", "-0.5", "1e-1", "0,5", "½", "99999999999999999999"]
        {
            problem(json!({"gpu-fraction": text}));
        }
        for text in ["", "0", "10Gi", "+1", "4294967296", "1.5"] {
            problem(json!({"gpu-memory": text}));
        }
        for text in ["0", "1001", "-1"] {
            problem(json!({"alibabacloud.com/gpu-milli": text}));
        }
        for text in ["0", "65", "two"] {
            problem(json!({"gpu-fraction": "1", "gpu-fraction-num-devices": text}));
        }
        assert_eq!(
            problem(json!({"gpu-fraction": "0.5", "alibabacloud.com/gpu-milli": "500"})),
            "annotations gpu-fraction and alibabacloud.com/gpu-milli both say how much of a GPU: keep one"
        );
        problem(json!({"gpu-fraction": "0.5", "gpu-memory": "500"}));
        assert_eq!(
            problem(json!({"gpu-fraction": "0.5", "alibabacloud.com/gpu-count": "2"})),
            "annotation alibabacloud.com/gpu-count goes with alibabacloud.com/gpu-milli, not with \
             gpu-fraction: use gpu-fraction-num-devices"
        );
        assert_eq!(
            problem(json!({"gpu-fraction-num-devices": "2"})),
            "annotation gpu-fraction-num-devices says of how many GPUs, but nothing how much: \
             add gpu-fraction"
        );
        problem(json!({"alibabacloud.com/gpu-count": "2"}));
    }

    #[test]
    fn which_gpus_it_has_counts_once_it_has_a_node() {
        let numbers = |key: &str, value: &str, node| {
            let mut annotations = json!({"gpu-fraction": "0.5"});
            annotations[key] = json!(value);
            read(annotations, node).gpu_numbers.map(|numbers| numbers.to_string())
        };
        let said = |text: &str| Some(text.to_owned());
        assert_eq!(numbers(GPU_INDEX, "0,3", Some("n")), said("0,3"));
        assert_eq!(numbers(GPU_INDEX, "0,3", None), None);
        assert_eq!(numbers(ALIBABA_INDEX, "2-3", Some("n")), said("2,3"));
        assert_eq!(numbers(GPU_INDEX, "none", Some("n")), None);
        assert_eq!(read(json!({"berth.dev/gpu-index": "1"}), Some("n")).gpu_numbers, None);
    }
}
