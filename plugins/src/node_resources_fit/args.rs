//! NodeResourcesFitArgs, with upstream's defaults and its messages.
//!
//! Source: apis/config/v1/defaults.go and apis/config/validation/validation_pluginargs.go (1.37).

use berth_core::framework::Args;

use crate::shared::field::{forbidden, int32, invalid, invalid_text, required, unsupported};
use crate::shared::label_key;
use crate::shared::scored::{Weighted, default_resources, read_resources};

use super::Fit;
use super::needs::Ignored;
use super::strategy::{ShapePoint, Strategy};

const LEAST: &str = "LeastAllocated";
const MOST: &str = "MostAllocated";
const RATIO: &str = "RequestedToCapacityRatio";

const WEIGHT_MAX: i64 = 100;
const UTILIZATION_MAX: i32 = 100;
const SCORE_MAX: i32 = 10;
/// Node scores end at 100, the scores of a shape at 10.
const SCORE_SCALE: i64 = 10;

pub(super) fn read(args: &Args) -> Fit {
    let ignored = read_ignored(args);
    let (strategy, resources) = match args.object("scoringStrategy") {
        Some(strategy) => read_strategy(&strategy),
        None => (Strategy::LeastAllocated, default_resources()),
    };
    Fit { ignored, strategy, resources }
}

fn read_ignored(args: &Args) -> Ignored {
    let resources = args.texts("ignoredResources");
    for (at, resource) in resources.iter().enumerate() {
        label_key::check(args, &format!("ignoredResources[{at}]"), resource);
    }
    let groups = args.texts("ignoredResourceGroups");
    for (at, group) in groups.iter().enumerate() {
        let key = format!("ignoredResourceGroups[{at}]");
        if group.contains('/') {
            args.error(&key, invalid_text(group, "resource group name can't contain '/'"));
        }
        label_key::check(args, &key, group);
    }
    Ignored { resources: resources.into_iter().collect(), groups: groups.into_iter().collect() }
}

fn read_strategy(args: &Args) -> (Strategy, Vec<Weighted>) {
    let kind = args.text("type").unwrap_or_default();
    if ![LEAST, MOST, RATIO].contains(&kind.as_str()) {
        args.error("type", unsupported(&kind, &[LEAST, MOST, RATIO]));
    }
    let resources = read_resources(args, check_weight);
    let ratio = args.object("requestedToCapacityRatio");
    let shape = ratio.as_ref().map(|ratio| read_shape(ratio, kind == RATIO));
    let strategy = match (kind.as_str(), shape) {
        (RATIO, Some(shape)) => Strategy::RequestedToCapacityRatio(shape),
        (RATIO, None) => {
            let detail = "must be specified when type is RequestedToCapacityRatio";
            args.error("requestedToCapacityRatio", required(detail));
            Strategy::RequestedToCapacityRatio(Vec::new())
        }
        (other, shape) => {
            if shape.is_some() {
                let detail = "must be nil when type is not RequestedToCapacityRatio";
                args.error("requestedToCapacityRatio", forbidden(detail));
            }
            if other == MOST { Strategy::MostAllocated } else { Strategy::LeastAllocated }
        }
    };
    args.finish();
    (strategy, resources)
}

fn check_weight(entry: &Args, resource: &Weighted) {
    if !(1..=WEIGHT_MAX).contains(&resource.weight) {
        let detail =
            format!("resource weight of {} not in valid range (0, {WEIGHT_MAX}]", resource.name);
        entry.error("weight", invalid(resource.weight, detail));
    }
}

/// Reads a shape; its values are checked only where it is used.
fn read_shape(args: &Args, used: bool) -> Vec<ShapePoint> {
    let mut points: Vec<(i32, i32)> = Vec::new();
    let entries = args.objects("shape");
    for entry in &entries {
        let point = (int32(entry, "utilization").unwrap_or(0), int32(entry, "score").unwrap_or(0));
        entry.finish();
        points.push(point);
    }
    if used {
        check_shape(args, &entries, &points);
    }
    args.finish();
    let scaled = |(utilization, score): &(i32, i32)| ShapePoint {
        utilization: i64::from(*utilization),
        score: i64::from(*score) * SCORE_SCALE,
    };
    points.iter().map(scaled).collect()
}

fn check_shape(args: &Args, entries: &[Args], points: &[(i32, i32)]) {
    if points.is_empty() {
        args.error("shape", required("at least one point must be specified"));
    }
    let falling = points.windows(2).position(|pair| pair[0].0 >= pair[1].0);
    if let Some(at) = falling.map(|before| before + 1) {
        let message = invalid(points[at].0, "values must be sorted in increasing order");
        entries[at].error("utilization", message);
    }
    for (entry, (utilization, score)) in entries.iter().zip(points) {
        for (key, value, max) in
            [("utilization", *utilization, UTILIZATION_MAX), ("score", *score, SCORE_MAX)]
        {
            if !(0..=max).contains(&value) {
                entry.error(key, invalid(value, format!("not in valid range [0, {max}]")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_core::types::{Text, Value};

    use super::*;

    fn check(value: &Value, errors: &[&str]) -> Fit {
        let args = Args::new("args", value);
        let fit = read(&args);
        args.finish();
        let found: Vec<String> = args.take_errors().iter().map(ToString::to_string).collect();
        assert_eq!(found, errors);
        fit
    }

    fn list(items: impl IntoIterator<Item = Value>) -> Value {
        Value::List(items.into_iter().collect())
    }

    fn strategy<const N: usize>(entries: [(&str, Value); N]) -> Value {
        Value::map([("scoringStrategy", Value::map(entries))])
    }

    fn resource(name: &str, weight: i64) -> Value {
        Value::map([("name", Value::text(name)), ("weight", Value::Int(weight))])
    }

    fn point(utilization: i64, score: i64) -> Value {
        Value::map([("utilization", Value::Int(utilization)), ("score", Value::Int(score))])
    }

    fn ratio(points: Vec<Value>) -> Value {
        Value::map([("shape", list(points))])
    }

    #[test]
    fn nothing_means_least_allocated_over_cpu_and_memory() {
        let fit = check(&Value::Null, &[]);
        assert_eq!(fit.strategy, Strategy::LeastAllocated);
        assert_eq!(fit.resources, default_resources());
        let zero = strategy([("type", Value::text(MOST)), ("resources", list([resource("x", 0)]))]);
        assert_eq!(check(&zero, &[]).resources, [Weighted { name: "x".into(), weight: 1 }]);
    }

    #[test]
    fn ignored_names_must_be_label_keys_and_groups_have_no_slash() {
        let texts = |items: &[&str]| list(items.iter().map(|t| Value::text(Text::from(*t))));
        let value = Value::map([
            ("ignoredResources", texts(&["example.com/a", ""])),
            ("ignoredResourceGroups", texts(&["a.com", "b.com/x"])),
        ]);
        let args = Args::new("args", &value);
        let fit = read(&args);
        assert!(fit.ignored.groups.contains("a.com"));
        let found: Vec<String> = args.take_errors().iter().map(ToString::to_string).collect();
        assert_eq!(
            found[0],
            "args.ignoredResources[1]: Invalid value: \"\": name part must be non-empty"
        );
        assert_eq!(
            found[2],
            "args.ignoredResourceGroups[1]: Invalid value: \"b.com/x\": resource group name can't \
             contain '/'"
        );
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_strategy_needs_a_known_type_and_weights_from_1_to_100() {
        let value = strategy([
            ("type", Value::text("Best")),
            ("resources", list([resource("cpu", 101), resource("memory", -1)])),
        ]);
        check(
            &value,
            &[
                "args.scoringStrategy.type: Unsupported value: \"Best\": supported values: \
                 \"LeastAllocated\", \"MostAllocated\", \"RequestedToCapacityRatio\"",
                "args.scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of \
                 cpu not in valid range (0, 100]",
                "args.scoringStrategy.resources[1].weight: Invalid value: -1: resource weight of \
                 memory not in valid range (0, 100]",
            ],
        );
    }

    #[test]
    fn the_ratio_goes_with_its_own_type_only() {
        check(
            &strategy([("type", Value::text(RATIO))]),
            &["args.scoringStrategy.requestedToCapacityRatio: Required value: must be specified \
               when type is RequestedToCapacityRatio"],
        );
        check(
            &strategy([
                ("type", Value::text(LEAST)),
                ("requestedToCapacityRatio", ratio(vec![point(0, 99)])),
            ]),
            &[
                "args.scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is \
               not RequestedToCapacityRatio",
            ],
        );
    }

    #[test]
    fn a_shape_rises_within_its_bounds() {
        let of = |points| {
            strategy([("type", Value::text(RATIO)), ("requestedToCapacityRatio", ratio(points))])
        };
        let fit = check(&of(vec![point(0, 0), point(100, 10)]), &[]);
        let last = ShapePoint { utilization: 100, score: 100 };
        assert!(matches!(fit.strategy, Strategy::RequestedToCapacityRatio(s) if s[1] == last));
        let shape = "args.scoringStrategy.requestedToCapacityRatio.shape";
        check(
            &of(vec![]),
            &[&format!("{shape}: Required value: at least one point must be specified")],
        );
        check(
            &of(vec![point(50, 11), point(50, 0), point(101, 0)]),
            &[
                &format!(
                    "{shape}[1].utilization: Invalid value: 50: values must be sorted in \
                     increasing order"
                ),
                &format!("{shape}[0].score: Invalid value: 11: not in valid range [0, 10]"),
                &format!("{shape}[2].utilization: Invalid value: 101: not in valid range [0, 100]"),
            ],
        );
    }
}
