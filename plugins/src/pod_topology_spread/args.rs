//! PodTopologySpreadArgs, with upstream's defaults and its messages.
//!
//! Source: apis/config/v1/defaults.go, apis/config/validation/validation_pluginargs.go and
//! `systemDefaultConstraints` of podtopologyspread/plugin.go (1.37).

use berth_core::framework::Args;
use berth_core::types::{SpreadConstraint, Text};

use crate::shared::field::{
    duplicate, forbidden, int32, invalid, invalid_text, required, unsupported,
};
use crate::shared::label_key;

use super::PodTopologySpread;
use super::constraints::HOSTNAME;

const ZONE: &str = "topology.kubernetes.io/zone";
const SYSTEM: &str = "System";
const LIST: &str = "List";
const HARD: &str = "DoNotSchedule";
const SOFT: &str = "ScheduleAnyway";
const HONOR: &str = "Honor";

pub(super) fn read(args: &Args) -> PodTopologySpread {
    let kind = match args.text("defaultingType") {
        Some(kind) if !kind.is_empty() => kind,
        _ => SYSTEM.into(),
    };
    let entries = args.objects("defaultConstraints");
    if kind != SYSTEM && kind != LIST {
        args.error("defaultingType", unsupported(&kind, &[SYSTEM, LIST]));
    } else if kind == SYSTEM && !entries.is_empty() {
        let detail = "when .defaultConstraints are not empty";
        args.error("defaultingType", invalid_text(&kind, detail));
    }
    let mut seen: Vec<(Text, Text)> = Vec::new();
    let listed = entries.iter().map(|entry| read_constraint(entry, &mut seen)).collect();
    let system_defaulted = kind == SYSTEM;
    let defaults = if system_defaulted { system_defaults() } else { listed };
    PodTopologySpread { defaults, system_defaulted }
}

fn system_defaults() -> Vec<SpreadConstraint> {
    let soft = |key: &str, max_skew| SpreadConstraint {
        max_skew,
        topology_key: key.into(),
        hard: false,
        selector: None,
        min_domains: None,
        honor_node_affinity: true,
        honor_node_taints: false,
        match_label_keys: Vec::new(),
    };
    vec![soft(HOSTNAME, 3), soft(ZONE, 5)]
}

/// Reads one constraint; `seen` has key and action of those before it.
fn read_constraint(entry: &Args, seen: &mut Vec<(Text, Text)>) -> SpreadConstraint {
    let max_skew = int32(entry, "maxSkew").unwrap_or(0);
    if max_skew <= 0 {
        entry.error("maxSkew", invalid(max_skew, "not in valid range (0, inf)"));
    }
    let topology_key = entry.text("topologyKey").unwrap_or_default();
    if topology_key.is_empty() {
        entry.error("topologyKey", required("can not be empty"));
    } else {
        label_key::check(entry, "topologyKey", &topology_key);
    }
    let action = entry.text("whenUnsatisfiable").unwrap_or_default();
    check_action(entry, &action);
    if entry.has("labelSelector") {
        let detail = "constraint must not define a selector, as they deduced for each pod";
        entry.error("labelSelector", forbidden(detail));
    }
    let pair = (topology_key.clone(), action.clone());
    if seen.contains(&pair) {
        entry.error("", duplicate(&format!("{{{topology_key}, {action}}}")));
    }
    seen.push(pair);
    let constraint = SpreadConstraint {
        max_skew,
        topology_key,
        hard: action == HARD,
        selector: None,
        min_domains: entry.has("minDomains").then(|| int32(entry, "minDomains").unwrap_or(1)),
        // Upstream takes any word but Honor for Ignore here.
        honor_node_affinity: entry.text("nodeAffinityPolicy").is_none_or(|policy| policy == HONOR),
        honor_node_taints: entry.text("nodeTaintsPolicy").is_some_and(|policy| policy == HONOR),
        // The derived selector replaces the one that these would narrow.
        match_label_keys: entry.texts("matchLabelKeys"),
    };
    entry.finish();
    constraint
}

fn check_action(entry: &Args, action: &str) {
    if action.is_empty() {
        entry.error("whenUnsatisfiable", required("can not be empty"));
    } else if action != HARD && action != SOFT {
        entry.error("whenUnsatisfiable", unsupported(action, &[HARD, SOFT]));
    }
}

#[cfg(test)]
mod tests {
    use berth_core::types::Value;

    use super::*;

    fn check(value: &Value, errors: &[&str]) -> PodTopologySpread {
        let args = Args::new("args", value);
        let plugin = read(&args);
        args.finish();
        let found: Vec<String> = args.take_errors().iter().map(ToString::to_string).collect();
        assert_eq!(found, errors);
        plugin
    }

    fn of(kind: &str, constraints: Vec<Value>) -> Value {
        Value::map([
            ("defaultingType", Value::text(kind)),
            ("defaultConstraints", Value::List(constraints)),
        ])
    }

    fn constraint(max_skew: i64, key: &str, action: &str) -> Value {
        Value::map([
            ("maxSkew", Value::Int(max_skew)),
            ("topologyKey", Value::text(key)),
            ("whenUnsatisfiable", Value::text(action)),
        ])
    }

    #[test]
    fn nothing_means_the_system_defaults() {
        let plugin = check(&Value::Null, &[]);
        assert!(plugin.system_defaulted);
        let skews: Vec<(i32, bool)> =
            plugin.defaults.iter().map(|c| (c.max_skew, c.hard)).collect();
        assert_eq!(skews, [(3, false), (5, false)]);
    }

    #[test]
    fn a_list_replaces_them() {
        let plugin = check(&of(LIST, vec![constraint(2, "rack", HARD)]), &[]);
        assert!(!plugin.system_defaulted);
        let found = &plugin.defaults[0];
        assert!(found.hard && found.honor_node_affinity && !found.honor_node_taints);
        assert!(check(&of(LIST, vec![]), &[]).defaults.is_empty());
    }

    #[test]
    fn types_and_lists_must_go_together() {
        check(
            &of("All", vec![]),
            &["args.defaultingType: Unsupported value: \"All\": supported values: \"System\", \
               \"List\""],
        );
        check(
            &of(SYSTEM, vec![constraint(1, "rack", HARD)]),
            &["args.defaultingType: Invalid value: \"System\": when .defaultConstraints are not \
               empty"],
        );
    }

    #[test]
    fn each_constraint_is_checked() {
        let Value::Map(mut third) = constraint(1, "rack", SOFT) else { unreachable!() };
        third.insert("labelSelector".into(), Value::map([]));
        third.insert("odd".into(), Value::Null);
        let list = vec![constraint(0, "", ""), constraint(1, "rack", SOFT), Value::Map(third)];
        check(
            &of(LIST, list),
            &[
                "args.defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
                "args.defaultConstraints[0].topologyKey: Required value: can not be empty",
                "args.defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty",
                "args.defaultConstraints[2].labelSelector: Forbidden: constraint must not define \
                 a selector, as they deduced for each pod",
                "args.defaultConstraints[2]: Duplicate value: \"{rack, ScheduleAnyway}\"",
                "args.defaultConstraints[2].odd: unknown field",
            ],
        );
        check(
            &of(LIST, vec![constraint(1, "rack", "Never")]),
            &["args.defaultConstraints[0].whenUnsatisfiable: Unsupported value: \"Never\": \
               supported values: \"DoNotSchedule\", \"ScheduleAnyway\""],
        );
    }
}
