//! Probes, pages and refusals: status, headers that mean something, body.

use berth_stand::Stand;
use http::Method;

use super::Rows;
use super::sides::{Sides, neutral};
use crate::support::https::{Answer, Ask};

const CHECKS: &[&str] = &[
    "/healthz",
    "/healthz?verbose",
    "/healthz/ping",
    "/healthz/leaderElection",
    "/healthz/nothing",
    "/livez",
    "/livez?verbose",
    "/livez?exclude=ping",
    "/livez/ping",
    "/livez/leaderElection",
    "/readyz",
    "/readyz?verbose",
    "/readyz?verbose&exclude=shutdown",
    "/readyz?verbose&exclude=nothing",
    "/readyz/leaderElection",
    "/readyz/shutdown",
    "/readyz/sched-handler-sync",
    "/readyz/nothing",
];
const OTHERS: &[&str] = &[
    "/",
    "/nowhere",
    "/metrics/nothing",
    "/metrics/",
    "/configz/",
    "/debug/pprof/cmdline",
    "/debug/flags/v",
];
const PAGES: &[&str] =
    &["/metrics", "/metrics/slis", "/metrics/resources", "/configz", "/statusz", "/flagz"];

pub(super) fn compare(stand: &Stand, sides: &Sides, rows: &mut Rows) {
    let callers = [
        ("anonymous", Ask::default()),
        ("admin", Ask::token(&stand.admin_token())),
        ("nobody", Ask::token(&stand.token("nobody"))),
        ("unknown token", Ask::token("of-nobody-at-all")),
    ];
    for (who, ask) in &callers {
        for path in CHECKS.iter().chain(OTHERS) {
            let said = sides.ask(ask, path);
            rows.add(format!("GET {path} as {who}"), [0, 1].map(|at| whole(at, &said[at])));
        }
        for path in PAGES {
            let said = sides.ask(ask, path);
            let compared = |at: usize| match said[at].status {
                // Its content is compared elsewhere.
                200 => head(&said[at]),
                _ => whole(at, &said[at]),
            };
            rows.add(format!("GET {path} as {who}"), [0, 1].map(compared));
        }
    }
    let admin = &callers[1].1;
    for method in [Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        for path in ["/healthz", "/readyz"].iter().chain(PAGES) {
            let ask = Ask { method: method.clone(), ..admin.clone() };
            let said = sides.ask(&ask, path);
            rows.add(format!("{method} {path} as admin"), [0, 1].map(|at| head(&said[at])));
        }
    }
    for path in ["/healthz", "/readyz?verbose", "/metrics", "/nowhere"] {
        let ask = Ask { http2: true, ..admin.clone() };
        let said = sides.ask(&ask, path);
        rows.add(format!("GET {path} by HTTP/2"), [0, 1].map(|at| head(&said[at])));
    }
    packed(admin, sides, rows);
    forms(admin, sides, rows);
}

fn packed(admin: &Ask, sides: &Sides, rows: &mut Rows) {
    let ask = admin.clone().with("accept-encoding", "gzip");
    for path in ["/metrics", "/metrics/resources", "/configz"] {
        let said = sides.ask(&ask, path);
        let encoding = |at: usize| format!("{:?}", said[at].header("content-encoding"));
        rows.add(format!("GET {path} packed"), [0, 1].map(encoding));
    }
}

fn forms(admin: &Ask, sides: &Sides, rows: &mut Rows) {
    for (page, kind) in [("/statusz", "Statusz"), ("/flagz", "Flagz")] {
        for accept in [
            "text/plain".to_owned(),
            "application/json".to_owned(),
            format!("application/json;v=v1beta1;g=config.k8s.io;as={kind}"),
            format!("application/json;v=v1alpha1;g=config.k8s.io;as={kind}"),
            "image/png".to_owned(),
        ] {
            let said = sides.ask(&admin.clone().with("accept", &accept), page);
            rows.add(format!("GET {page} as {accept}"), [0, 1].map(|at| head(&said[at])));
        }
    }
}

/// Status and the headers that say what a client may do with the answer.
fn head(answer: &Answer) -> String {
    let names = ["content-type", "x-content-type-options", "cache-control", "allow"];
    let headers = names.map(|name| format!("{name}: {}", answer.header(name)));
    format!("{} {}", answer.status, headers.join(", "))
}

fn whole(at: usize, answer: &Answer) -> String {
    format!("{} {}", head(answer), neutral(at, &answer.text()))
}
