//! What kind of control plane a test asks for.

/// The user that every stand has: group system:masters.
pub const ADMIN: &str = "admin";

/// The gates and groups of 1.37 that the scenario files need.
const ALL_GATES: &str = "GenericWorkload=true,CompositePodGroup=true,\
                         TopologyAwareWorkloadScheduling=true,DRAListTypeAttributes=true,\
                         DRAWorkloadResourceClaims=true";

/// How a stand is started. The default is a server as most clusters run it: default gates and
/// groups, and everybody may do everything.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `A=true,B=false`; empty for the server's defaults.
    pub feature_gates: String,
    /// Such as `api/all=true`; empty for the server's defaults.
    pub runtime_config: String,
    pub authorization: Authorization,
    /// Users beside [`ADMIN`].
    pub users: Vec<User>,
    /// Further flags of kube-apiserver; they come last and so win.
    pub apiserver_flags: Vec<String>,
    /// Keeps every revision in etcd, for a checker. Otherwise the server forgets what is older than
    /// 5 minutes.
    pub keep_history: bool,
    /// Lets etcd's values be read as JSON. Otherwise they are protobuf, as in real clusters.
    pub json_storage: bool,
    /// Makes the server write who sent what when, level Metadata, to [`crate::Stand::audit_log`].
    pub audit_log: bool,
}

impl Options {
    /// A server on which all scenario files can be played: workload API, composite pod groups,
    /// every group version.
    pub fn all_groups() -> Self {
        Self {
            feature_gates: ALL_GATES.to_owned(),
            runtime_config: "api/all=true".to_owned(),
            ..Self::default()
        }
    }
}

/// Who may do what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authorization {
    #[default]
    AlwaysAllow,
    /// Roles count; [`ADMIN`] may do everything.
    Rbac,
}

impl Authorization {
    pub(crate) fn mode(self) -> &'static str {
        match self {
            Self::AlwaysAllow => "AlwaysAllow",
            Self::Rbac => "RBAC",
        }
    }
}

/// A user who comes in with a static token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Also a file name: letters, digits, `-`, `.` and `:`.
    pub name: String,
    pub groups: Vec<String>,
}

impl User {
    /// The token is no secret: the server listens on loopback only and holds nothing.
    pub(crate) fn token(name: &str) -> String {
        format!("token-of-{name}")
    }
}
