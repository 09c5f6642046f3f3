//! What a rule sees of a request, and how it chooses.

use std::sync::Arc;

use http::header;
use http::request::Parts;
use hyper::body::Bytes;
use serde_json::Value;

/// A request as its sender made it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The user of the token; empty if no kubeconfig of the proxy has it.
    pub user: String,
    /// Its sender's User-Agent.
    pub agent: String,
    pub method: String,
    pub path: String,
    /// Without the question mark.
    pub query: String,
    /// Of a write.
    pub body: Bytes,
    /// Such as `pods`; empty for what is no resource.
    pub resource: String,
    pub namespace: String,
    /// Empty for a collection.
    pub name: String,
    /// Such as `binding` or `status`.
    pub subresource: String,
}

impl Asked {
    pub(super) fn new(user: String, head: &Parts, body: Bytes) -> Asked {
        let path = head.uri.path().to_owned();
        let [resource, namespace, name, subresource] = parts(&path);
        let agent = head.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        Asked {
            user,
            agent: agent.unwrap_or_default().to_owned(),
            method: head.method.to_string(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            body,
            path,
            resource,
            namespace,
            name,
            subresource,
        }
    }

    pub fn is_write(&self) -> bool {
        self.method != "GET" && self.method != "HEAD"
    }

    /// Tells whether it is a watch of a collection.
    pub fn is_watch(&self) -> bool {
        self.method == "GET" && self.query.split('&').any(|q| q == "watch=true" || q == "watch=1")
    }

    /// Tells whether it is the first page of a list.
    pub fn is_list(&self) -> bool {
        let further = self.query.split('&').any(|q| q.starts_with("continue="));
        let collection = !self.resource.is_empty() && self.name.is_empty();
        self.method == "GET" && collection && !self.is_watch() && !further
    }

    /// Tells whether it is a list to begin a watch with: none that is compared with what is known, or
    /// only asks for the newest version.
    pub fn begins_watch(&self) -> bool {
        let compares = self.agent.ends_with("/comparison");
        self.is_list() && !compares && self.parameter("limit") != Some("1")
    }

    /// Tells whether it binds a pod.
    pub fn is_bind(&self) -> bool {
        self.names_a_node() && self.parameter("dryRun").is_none()
    }

    /// Tells whether it only asks what the server would say to a bind.
    pub fn is_trial(&self) -> bool {
        self.names_a_node() && self.parameter("dryRun").is_some()
    }

    fn names_a_node(&self) -> bool {
        self.method == "POST" && self.resource == "pods" && self.subresource == "binding"
    }

    /// Tells whether it writes what is allocated to a claim, and who has it.
    pub fn is_claim_status(&self) -> bool {
        self.is_write() && self.resource == "resourceclaims" && self.subresource == "status"
    }

    /// Returns the body; null if it is no JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns the node that a Binding names.
    pub fn target(&self) -> Option<String> {
        let binding = self.is_bind().then(|| self.json())?;
        binding["target"]["name"].as_str().map(str::to_owned)
    }

    /// Returns the value of a parameter of the query, as it stands there.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Returns method, path and query on one line.
    pub fn line(&self) -> String {
        match self.query.is_empty() {
            true => format!("{} {}", self.method, self.path),
            false => format!("{} {}?{}", self.method, self.path, self.query),
        }
    }
}

/// Cuts a path into resource, namespace, name and subresource.
fn parts(path: &str) -> [String; 4] {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let below = match segments.as_slice() {
        ["api", _, below @ ..] | ["apis", _, _, below @ ..] => below,
        _ => &[],
    };
    let (namespace, below) = match below {
        ["namespaces", namespace, below @ ..] if !below.is_empty() => (*namespace, below),
        _ => ("", below),
    };
    let at = |n: usize| below.get(n).copied().unwrap_or_default().to_owned();
    [at(0), namespace.to_owned(), at(1), at(2)]
}

type Test = Arc<dyn Fn(&Asked) -> bool + Send + Sync>;

/// A choice of requests: all of its conditions must hold. Conditions are asked on the proxy's
/// threads and must not block.
#[derive(Clone, Default)]
pub struct Requests {
    tests: Vec<Test>,
    pub(super) turns: Turns,
}

/// Which of those that fulfil the conditions are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Turns {
    #[default]
    All,
    First(u64),
    Nth(u64),
    Every(u64),
}

impl Requests {
    pub fn all() -> Requests {
        Requests::default()
    }

    pub fn writes() -> Requests {
        Requests::all().when(Asked::is_write)
    }

    pub fn binds() -> Requests {
        Requests::all().when(Asked::is_bind)
    }

    /// Those that bind one pod.
    pub fn bind_of(pod: &str) -> Requests {
        Requests::binds().name(pod)
    }

    /// Those that only ask what the server would say to a bind.
    pub fn trials() -> Requests {
        Requests::all().when(Asked::is_trial)
    }

    /// Those that write the status of one claim.
    pub fn claim_status(claim: &str) -> Requests {
        Requests::all().when(Asked::is_claim_status).name(claim)
    }

    /// First pages of lists of a resource.
    pub fn lists(resource: &str) -> Requests {
        Requests::all().when(Asked::is_list).resource(resource)
    }

    pub fn when(mut self, test: impl Fn(&Asked) -> bool + Send + Sync + 'static) -> Requests {
        self.tests.push(Arc::new(test));
        self
    }

    pub fn user(self, user: &str) -> Requests {
        let user = user.to_owned();
        self.when(move |asked| asked.user == user)
    }

    pub fn method(self, method: &'static str) -> Requests {
        self.when(move |asked| asked.method == method)
    }

    pub fn resource(self, resource: &str) -> Requests {
        let resource = resource.to_owned();
        self.when(move |asked| asked.resource == resource)
    }

    pub fn name(self, name: &str) -> Requests {
        let name = name.to_owned();
        self.when(move |asked| asked.name == name)
    }

    pub fn path_contains(self, part: &str) -> Requests {
        let part = part.to_owned();
        self.when(move |asked| asked.path.contains(&part))
    }

    pub fn query_contains(self, part: &str) -> Requests {
        let part = part.to_owned();
        self.when(move |asked| asked.query.contains(&part))
    }

    /// Only the first of them.
    pub fn first(self) -> Requests {
        self.first_n(1)
    }

    pub fn first_n(self, n: u64) -> Requests {
        Requests { turns: Turns::First(n), ..self }
    }

    /// Only the n-th of them, counted from 1.
    pub fn nth(self, n: u64) -> Requests {
        Requests { turns: Turns::Nth(n), ..self }
    }

    /// The n-th of them, the 2n-th and so on.
    pub fn every(self, n: u64) -> Requests {
        Requests { turns: Turns::Every(n), ..self }
    }

    pub(super) fn fulfils(&self, asked: &Asked) -> bool {
        self.tests.iter().all(|test| test(asked))
    }
}

impl Turns {
    /// `n` counts from 1.
    pub(super) fn include(self, n: u64) -> bool {
        match self {
            Turns::All => true,
            Turns::First(first) => n <= first,
            Turns::Nth(nth) => n == nth,
            Turns::Every(every) => every > 0 && n.is_multiple_of(every),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Asked {
        let (method, uri) = line.split_once(' ').expect("a method and a path");
        let (head, ()) = http::Request::builder()
            .method(method)
            .uri(uri)
            .body(())
            .expect("a request")
            .into_parts();
        Asked::new("u".to_owned(), &head, Bytes::new())
    }

    #[test]
    fn paths_are_cut_into_what_they_name() {
        let of = |path: &str| parts(path).join(" ");
        assert_eq!(of("/api/v1/namespaces/ns/pods/a/binding"), "pods ns a binding");
        assert_eq!(of("/api/v1/pods"), "pods   ");
        assert_eq!(of("/api/v1/namespaces/ns"), "namespaces  ns ");
        assert_eq!(of("/apis/apps/v1/namespaces/ns/jobs"), "jobs ns  ");
        assert_eq!(of("/readyz"), "   ");
    }

    #[test]
    fn lists_watches_and_reads_are_told_apart() {
        assert!(asked("GET /api/v1/pods?limit=500").is_list());
        assert!(!asked("GET /api/v1/pods?limit=500&continue=x").is_list());
        assert!(!asked("GET /api/v1/namespaces/ns/pods/a").is_list());
        assert!(!asked("GET /readyz").is_list());
        let watch = asked("GET /api/v1/pods?watch=true&resourceVersion=7");
        assert!(watch.is_watch() && !watch.is_list());
        assert_eq!(watch.parameter("resourceVersion"), Some("7"));
    }

    #[test]
    fn conditions_and_turns_choose() {
        let bind = asked("POST /api/v1/namespaces/ns/pods/a/binding?timeout=5s");
        assert!(Requests::bind_of("a").user("u").query_contains("timeout").fulfils(&bind));
        assert!(!Requests::trials().fulfils(&bind));
        let trial = asked("POST /api/v1/namespaces/ns/pods/a/binding?timeout=5s&dryRun=All");
        assert!(Requests::trials().fulfils(&trial) && !Requests::binds().fulfils(&trial));
        assert!(!Requests::bind_of("b").fulfils(&bind));
        assert!(!Requests::binds().user("v").fulfils(&bind));
        let claims = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims";
        let status = asked(&format!("PATCH {claims}/a/status?timeout=5s"));
        assert!(Requests::claim_status("a").fulfils(&status));
        assert!(!Requests::claim_status("a").fulfils(&asked(&format!("PATCH {claims}/a"))));
        let included = |turns: Turns| (1..=6).filter(|n| turns.include(*n)).collect::<Vec<_>>();
        assert_eq!(included(Turns::First(2)), [1, 2]);
        assert_eq!(included(Turns::Nth(3)), [3]);
        assert_eq!(included(Turns::Every(3)), [3, 6]);
    }
}
