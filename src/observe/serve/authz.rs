//! Whether a user may see a path: a few always, the rest as the API server says.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tracing::warn;

use super::authn::User;
use super::cache::TtlCache;
use super::review::Reviews;
use super::{AuthorizationOptions, ServeError};

const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// The API server asks nobody about them either.
const PRIVILEGED: &str = "system:masters";
/// Source: apiserver/plugin/pkg/authorizer/webhook, maxControlledAttrCacheSize.
const KEY_MAX: usize = 10_000;

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// With the API server's reason, which may be empty.
    Forbidden(String),
    /// The API server can't be asked, or its answer isn't one.
    Unknown(String),
}

/// Paths that everybody may see.
#[derive(Debug, Default)]
struct OpenPaths {
    whole: Vec<String>,
    beginnings: Vec<String>,
}

impl OpenPaths {
    /// Source: apiserver/pkg/authorization/path/path.go.
    fn parse(paths: &[String]) -> Result<OpenPaths, ServeError> {
        let mut open = OpenPaths::default();
        for path in paths {
            let bare = path.strip_prefix('/').unwrap_or(path);
            let (beginning, is_prefix) = match bare.strip_suffix('*') {
                Some(beginning) => (beginning, true),
                None => (bare, false),
            };
            if beginning.contains('*') {
                let problem = format!("only a trailing * is allowed in {path:?}");
                return Err(ServeError::Flag { flag: "authorization-always-allow-paths", problem });
            }
            let list = if is_prefix { &mut open.beginnings } else { &mut open.whole };
            list.push(beginning.to_owned());
        }
        Ok(open)
    }

    fn contain(&self, path: &str) -> bool {
        let bare = path.strip_prefix('/').unwrap_or(path);
        self.whole.iter().any(|whole| whole == bare)
            || self.beginnings.iter().any(|beginning| bare.starts_with(beginning))
    }
}

pub(super) struct Authorizer {
    open: OpenPaths,
    /// None: nobody can be asked, so nothing else is allowed.
    reviews: Option<Reviews>,
    cache: TtlCache<String, Verdict>,
    authorized_ttl: Duration,
    unauthorized_ttl: Duration,
}

impl Authorizer {
    /// # Errors
    /// [`ServeError::Flag`] for a path with a `*` inside.
    pub(super) fn new(
        options: &AuthorizationOptions,
        reviews: Option<Reviews>,
    ) -> Result<Authorizer, ServeError> {
        Ok(Authorizer {
            open: OpenPaths::parse(&options.always_allow_paths)?,
            reviews,
            cache: TtlCache::new(),
            authorized_ttl: options.authorized_ttl,
            unauthorized_ttl: options.unauthorized_ttl,
        })
    }

    /// Decides on a verb in small letters, such as `get`, and a path.
    pub(super) async fn decide(&self, user: &User, verb: &str, path: &str) -> Verdict {
        if user.groups.iter().any(|group| group == PRIVILEGED) || self.open.contain(path) {
            return Verdict::Allowed;
        }
        let Some(reviews) = &self.reviews else { return Verdict::Forbidden(String::new()) };
        let spec = spec(user, verb, path);
        let key = spec.to_string();
        if let Some(verdict) = self.cache.get(&key, Instant::now()) {
            return verdict;
        }
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": spec,
        });
        let verdict = match reviews.ask(ACCESS_REVIEWS, &review).await {
            Ok(status) => verdict_of(&status),
            Err(problem) => {
                warn!(problem, "SubjectAccessReview");
                Verdict::Unknown(problem)
            }
        };
        self.keep(key, &verdict);
        verdict
    }

    fn keep(&self, key: String, verdict: &Verdict) {
        let ttl = match verdict {
            Verdict::Allowed => self.authorized_ttl,
            Verdict::Forbidden(_) => self.unauthorized_ttl,
            Verdict::Unknown(_) => return,
        };
        if key.len() <= KEY_MAX {
            self.cache.insert(key, verdict.clone(), ttl, Instant::now());
        }
    }
}

fn spec(user: &User, verb: &str, path: &str) -> Value {
    json!({
        "user": user.name,
        "uid": user.uid,
        "groups": user.groups,
        "extra": user.extra,
        "nonResourceAttributes": {"verb": verb, "path": path},
    })
}

/// Anything but a plain yes is no.
fn verdict_of(status: &Value) -> Verdict {
    let reason = status["reason"].as_str().unwrap_or_default().to_owned();
    match (&status["allowed"], &status["denied"]) {
        (Value::Bool(true), Value::Bool(true)) => {
            Verdict::Unknown("the review both allows and denies".to_owned())
        }
        (Value::Bool(true), Value::Null | Value::Bool(false)) => Verdict::Allowed,
        (Value::Bool(false), _) => Verdict::Forbidden(reason),
        _ => Verdict::Unknown("the review doesn't say whether it allows".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(paths: &[&str]) -> Result<OpenPaths, ServeError> {
        OpenPaths::parse(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn open_paths_match_whole_or_by_their_beginning() {
        let paths = open(&["/healthz", "livez", "/debug/*"]).unwrap();
        for path in ["/healthz", "/livez", "/debug/", "/debug/x"] {
            assert!(paths.contain(path), "{path}");
        }
        for path in ["/", "/healthz/ping", "/debug", "/metrics", "//healthz", "/HEALTHZ"] {
            assert!(!paths.contain(path), "{path}");
        }
        assert!(open(&["/*"]).unwrap().contain("/anything"));
        assert!(open(&["/"]).unwrap().contain("/"));
        assert!(open(&["/a*b"]).is_err());
    }

    #[test]
    fn only_a_plain_yes_allows() {
        let verdict = |status: Value| verdict_of(&status);
        assert_eq!(verdict(json!({"allowed": true, "reason": "RBAC"})), Verdict::Allowed);
        let no = json!({"allowed": false, "reason": "why"});
        assert_eq!(verdict(no), Verdict::Forbidden("why".to_owned()));
        for unclear in [
            json!({"allowed": true, "denied": true}),
            json!({"allowed": true, "denied": "no"}),
            json!({"allowed": "true"}),
            json!({}),
        ] {
            assert!(matches!(verdict(unclear.clone()), Verdict::Unknown(_)), "{unclear}");
        }
    }

    #[tokio::test]
    async fn without_anybody_to_ask_only_masters_and_open_paths_pass() {
        let options = AuthorizationOptions::default();
        let authorizer = Authorizer::new(&options, None).unwrap();
        let masters = User { groups: vec![PRIVILEGED.to_owned()], ..User::default() };
        let anybody = User::default();
        assert_eq!(authorizer.decide(&masters, "get", "/metrics").await, Verdict::Allowed);
        assert_eq!(authorizer.decide(&anybody, "get", "/livez").await, Verdict::Allowed);
        let verdict = authorizer.decide(&anybody, "get", "/metrics").await;
        assert_eq!(verdict, Verdict::Forbidden(String::new()));
    }
}
