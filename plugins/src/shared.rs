//! Rules that several plugins apply: node affinity, taints, claims, weighed resources, argument
//! errors.

pub(crate) mod affinity;
pub(crate) mod amount;
pub(crate) mod claims;
pub(crate) mod field;
pub(crate) mod label_key;
pub(crate) mod open;
pub(crate) mod scored;
pub(crate) mod taints;

pub(crate) use affinity::node_matches;
pub(crate) use open::is_open;
pub(crate) use taints::first_untolerated;
