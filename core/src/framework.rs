//! What a plugin is: extension points, the answers that are legal at each, profiles.
//!
//! Reading order: [`verdict`], [`cycle`], [`work`], [`points`], [`placement`], [`groups`], [`hints`],
//! [`plan`], [`args`], [`profile_spec`], [`profile`].

pub mod args;
pub mod cycle;
pub mod groups;
pub mod hints;
pub mod placement;
pub mod plan;
pub mod points;
pub mod profile;
pub mod profile_spec;
pub mod rng;
pub mod verdict;
pub mod work;

pub use args::{ArgError, Args, parse_duration_ms};
pub use cycle::{Cycle, CycleState, DeviceOrder, DeviceSets, SetRating};
pub use groups::{GroupRules, Preflight};
pub use hints::{Hint, HintContext, Interest};
pub use placement::{
    Placement, PlacementAsk, PlacementGenerate, PlacementScore, Proposal, Room, Shared,
};
pub use plan::{ClaimWrite, Op, ReadBack, StageDraft, WriteDraft};
pub use points::{
    Bind, ClassPart, Classify, Explain, Filter, Normalize, Permit, PlacementFeasible, PluginDef,
    PodGroupPostFilter, Points, PostBind, PostFilter, PreBind, PreEnqueue, PreFilter, PreScore,
    QueueOrdering, QueueSort, Ranked, Reads, Reserve, Score,
};
pub use profile::{Profile, ProfileError, Registry};
pub use profile_spec::{Point, ProfileSpec};
pub use verdict::{
    Gate, PermitAnswer, PostFilterAnswer, PreFilterAnswer, PreScoreAnswer, Reason, Verdict,
};
pub use work::Work;

pub use crate::snapshot::NodeSet;
