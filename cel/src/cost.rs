//! What a call costs, in Kubernetes' units.
//!
//! Source: cel-go's runtime costs and those that Kubernetes' library adds to them.

use crate::value::Value;

const LIST_BASE: u64 = 10;
const TEXT_FACTOR: f64 = 0.1;
const PATTERN_FACTOR: f64 = 0.25;

/// How the cost of a call follows from its arguments and result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    One,
    /// One pass over an argument's text, or several.
    Scan {
        argument: usize,
        passes: u8,
    },
    /// The smaller of two sizes.
    Smaller,
    /// As [`Rule::Smaller`], but 1 for Kubernetes' own types on the left.
    Equals,
    Sum,
    /// Both sizes multiplied.
    Product,
    Pattern,
    /// The size of the list.
    InList,
    Traverse,
    /// The text that comes out.
    Join,
    /// The list that comes out.
    NewList,
    Flatten,
    /// Each element with each other.
    SelfCompare {
        argument: usize,
    },
    Sets {
        passes: u8,
    },
    ContainsIp {
        parsed: bool,
    },
    ContainsCidr {
        parsed: bool,
    },
    Validate,
    /// An authorization check, which no selector can make.
    Check,
}

impl Rule {
    /// Returns the rule of a function; `overload` is given if only one may be meant.
    pub(crate) fn of(function: &str, overload: Option<&str>) -> Self {
        overload
            .and_then(Self::of_lists)
            .or_else(|| Self::of_kubernetes(function, overload))
            .or_else(|| overload.and_then(Self::of_standard))
            .unwrap_or(Self::One)
    }

    fn of_lists(overload: &str) -> Option<Self> {
        Some(match overload {
            "list_slice" | "lists_range" | "list_reverse" => Self::NewList,
            "list_flatten" | "list_flatten_int" => Self::Flatten,
            "list_distinct" | "list_sort" => Self::SelfCompare { argument: 0 },
            "list_sort_by" => Self::SelfCompare { argument: 1 },
            "list_sets_contains_list" | "list_sets_intersects_list" => Self::Sets { passes: 1 },
            "list_sets_equivalent_list" => Self::Sets { passes: 2 },
            _ => return None,
        })
    }

    fn of_kubernetes(function: &str, overload: Option<&str>) -> Option<Self> {
        let parsed = overload.is_some_and(|id| id.ends_with("_string"));
        Some(match function {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => {
                Self::Traverse
            }
            "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP"
            | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                Self::Scan { argument: 0, passes: 1 }
            }
            "ip" if overload == Some("cidr_ip") => Self::One,
            "ip" => Self::Scan { argument: 0, passes: 1 },
            "replace" | "split" | "ip.isCanonical" => Self::Scan { argument: 0, passes: 2 },
            "join" => Self::Join,
            "find" | "findAll" => Self::Pattern,
            "containsIP" => Self::ContainsIp { parsed },
            "containsCIDR" => Self::ContainsCidr { parsed },
            "validate" => Self::Validate,
            "_==_" => Self::Equals,
            "check" => Self::Check,
            _ => return None,
        })
    }

    fn of_standard(overload: &str) -> Option<Self> {
        Some(match overload {
            "starts_with_string" | "ends_with_string" => Self::Scan { argument: 1, passes: 1 },
            "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format" => {
                Self::Scan { argument: 0, passes: 1 }
            }
            "in_list" => Self::InList,
            "compare_text" | "not_equals" => Self::Smaller,
            "add_string" | "add_bytes" => Self::Sum,
            "matches" | "matches_string" => Self::Pattern,
            "contains_string" => Self::Product,
            _ => return None,
        })
    }

    /// Whether upstream's evaluation breaks off, unabsorbed, because an argument isn't what its
    /// cost is worked out from.
    pub(crate) fn breaks_on(self, args: &[Option<&Value<'_>>]) -> bool {
        let arg = |n: usize| args.get(n).copied().flatten();
        match self {
            Self::SelfCompare { argument } => !matches!(arg(argument), Some(Value::List(_))),
            Self::Flatten => args.len() == 2 && !matches!(arg(1), Some(Value::Int(_))),
            _ => false,
        }
    }

    /// Returns the cost. What failed is not there, and counts as of size 1.
    pub(crate) fn units(self, args: &[Option<&Value<'_>>], result: Option<&Value<'_>>) -> u64 {
        let arg = |n: usize| args.get(n).copied().flatten();
        let size = |n: usize| arg(n).map_or(1, Value::size);
        match self {
            Self::One => 1,
            Self::Check => 350_000,
            Self::Scan { argument, passes } => scan(size(argument) * u64::from(passes)),
            Self::Smaller => scan(inner_size(arg(0)).min(inner_size(arg(1)))),
            Self::Equals if arg(0).is_some_and(is_kubernetes) => 1,
            Self::Equals => scan(inner_size(arg(0)).min(inner_size(arg(1)))),
            Self::Sum => scan(size(0) + size(1)),
            Self::Product => scan(size(0)) * scan(size(1)),
            Self::Pattern => pattern(size(0), size(1)),
            Self::InList => size(1),
            Self::Traverse => arg(0).map_or(1, traversal),
            Self::Join => scan(result.map_or(1, Value::size) * 2),
            Self::NewList => 1 + LIST_BASE + result.map_or(1, Value::size),
            Self::Flatten => flatten(size(0), arg(1)),
            Self::SelfCompare { argument } => arg(argument).map_or(1 + LIST_BASE, self_compare),
            Self::Sets { passes } => 1 + size(0).saturating_mul(size(1)) * u64::from(passes),
            Self::ContainsIp { parsed } => {
                scan(2 * size(0)) + if parsed { scan(size(1)) } else { 0 }
            }
            Self::ContainsCidr { parsed } => {
                let parsing = if parsed { scan(size(1)) } else { 0 };
                scan(2 * size(0)) + scan(size(0)) + 1 + parsing
            }
            Self::Validate => match arg(0) {
                Some(Value::Format(format)) => pattern(size(1), format.pattern_size),
                _ => 1,
            },
        }
    }
}

fn scaled(size: u64, factor: f64) -> u64 {
    // Sizes are those of values in memory.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let units = (size as f64 * factor).ceil() as u64;
    units
}

fn scan(size: u64) -> u64 {
    scaled(size, TEXT_FACTOR)
}

fn pattern(text: u64, pattern: u64) -> u64 {
    scan(text + 1) * scaled(pattern, PATTERN_FACTOR)
}

/// The size of what an optional holds.
fn inner_size(value: Option<&Value<'_>>) -> u64 {
    match value {
        Some(Value::Optional(Some(inner))) => inner_size(Some(inner)),
        Some(value) => value.size(),
        None => 1,
    }
}

fn is_kubernetes(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Quantity(_)
            | Value::Sum(_)
            | Value::Ip(_)
            | Value::Cidr(_)
            | Value::Format(_)
            | Value::Url(_)
            | Value::Semver(_)
    )
}

fn tenth(bytes: usize) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let units = (bytes as f64 * TEXT_FACTOR) as u64;
    units
}

/// The cost of following a value into its parts.
fn traversal(value: &Value<'_>) -> u64 {
    match value {
        Value::Text(text) => tenth(text.len()),
        Value::Bytes(bytes) => tenth(bytes.len()),
        Value::List(list) => list.iter().map(|element| traversal(&element)).sum(),
        Value::Map(map) => map.iter().map(|(key, value)| traversal(&key) + traversal(&value)).sum(),
        _ => 1,
    }
}

fn flatten(size: u64, depth: Option<&Value<'_>>) -> u64 {
    let depth = match depth {
        Some(Value::Int(depth)) if *depth >= 0 => depth.unsigned_abs(),
        _ => 1,
    };
    size.saturating_mul(depth) + 1 + LIST_BASE
}

fn self_compare(list: &Value<'_>) -> u64 {
    let Value::List(elements) = list else { return 1 + LIST_BASE };
    let factor = match elements.get(0) {
        Some(Value::Text(_) | Value::Bytes(_)) => 2.1,
        _ => 2.0,
    };
    let pairs = list.size().saturating_mul(list.size());
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let units = (pairs as f64 * factor) as u64;
    units + 1 + LIST_BASE
}
