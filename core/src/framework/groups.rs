//! What a profile says of groups: which dialects it honours, and what is done about a group that
//! can't be completed. The rules are data; the engine carries them out.

use std::collections::BTreeSet;

use crate::types::{Span, Text};

/// When the binds of a group are tried before they are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preflight {
    /// Where a member has no controller that would make it anew, and after a refusal.
    #[default]
    WhereNeeded,
    Always,
    Never,
}

/// Rules for the groups of one profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRules {
    /// The plugin that gave them: it is named where a group is held.
    pub plugin: &'static str,
    /// Scheduler names that the profile answers for besides its own.
    pub scheduler_names: BTreeSet<Text>,
    /// Names of the dialects that count.
    pub dialects: BTreeSet<Text>,
    /// How long a plan's reservations may take where the group's object says nothing.
    pub deadline: Span,
    pub preflight: Preflight,
    /// A group that was bound in part and has not started is taken back after so long; `None`: never.
    pub take_back_after: Option<Span>,
    /// Members without a controller are taken back too.
    pub take_back_unowned: bool,
    /// For so long the place of a lost member of a group that has started is kept for its
    /// replacement. Zero: not at all.
    pub hold_for: Span,
}
