//! What kube-scheduler 1.37.2 prints, byte by byte.

use std::sync::atomic::{AtomicBool, Ordering};

use http_body_util::BodyExt;

use super::*;

fn health(synced: bool, leader: Option<bool>) -> Health {
    let leader_election = leader.map(|good| -> CheckFn {
        Arc::new(move || if good { Ok(()) } else { Err("lease expired".to_owned()) })
    });
    let missing = move || if synced { Ok(()) } else { Err("not listed yet: pods".to_owned()) };
    let (ending, synced) = (Arc::new(|| false), Arc::new(missing));
    Health::new(Probes { leader_election, ending, synced })
}

async fn page(health: &Health, path: &str) -> (u16, String) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let answer = health.answer(path, query);
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn check(health: &Health, path: &str, status: u16, body: &str) {
    assert_eq!(page(health, path).await, (status, body.to_owned()), "{path}");
}

#[tokio::test]
async fn pages_are_those_of_kube_scheduler() {
    let health = health(false, None);
    check(&health, "/healthz", 200, "ok").await;
    check(&health, "/healthz?verbose", 200, "[+]ping ok\nhealthz check passed\n").await;
    check(&health, "/livez?verbose=1", 200, "[+]ping ok\nlivez check passed\n").await;
    check(&health, "/livez/ping", 200, "ok").await;
    let failed = "[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\n\
                  readyz check failed\n";
    check(&health, "/readyz", 500, failed).await;
    let excluded = "[+]shutdown ok\n[+]sched-handler-sync excluded: ok\n\
                    warn: some health checks cannot be excluded: no matches for \"x\"\n\
                    readyz check passed\n";
    check(&health, "/readyz?verbose&exclude=sched-handler-sync&exclude=x", 200, excluded).await;
    let why = "internal server error: handlers are not fully synchronized: not listed yet: \
               pods\n";
    check(&health, "/readyz/sched-handler-sync", 500, why).await;
    check(&health, "/readyz/ping", 404, "404 page not found\n").await;
}

#[tokio::test]
async fn leader_election_is_checked_if_there_is_one() {
    let health = health(true, Some(false));
    let failed = "[-]leaderElection failed: reason withheld\nhealthz check failed\n";
    check(&health, "/healthz", 500, failed).await;
    check(&health, "/livez", 200, "ok").await;
    let failed = "[-]leaderElection failed: reason withheld\n[+]shutdown ok\n\
                  [+]sched-handler-sync ok\nreadyz check failed\n";
    check(&health, "/readyz", 500, failed).await;
}

#[tokio::test]
async fn an_ending_process_is_not_ready_but_alive() {
    let ends = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&ends);
    let ending = Arc::new(move || seen.load(Ordering::Relaxed));
    let health = Health::new(Probes { leader_election: None, ending, synced: Arc::new(|| Ok(())) });
    check(&health, "/readyz", 200, "ok").await;
    ends.store(true, Ordering::Relaxed);
    assert_eq!(page(&health, "/readyz").await.0, 500);
    check(&health, "/livez", 200, "ok").await;
}

#[tokio::test]
async fn checks_are_counted() {
    let health = health(true, None);
    assert_eq!(health.metrics(), "");
    page(&health, "/livez").await;
    page(&health, "/livez").await;
    page(&health, "/livez/ping").await;
    let expected = "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a \
                    single healthcheck.\n\
                    # TYPE kubernetes_healthcheck gauge\n\
                    kubernetes_healthcheck{name=\"ping\",type=\"livez\"} 1\n\
                    # HELP kubernetes_healthchecks_total [STABLE] This metric records the results \
                    of all healthcheck.\n\
                    # TYPE kubernetes_healthchecks_total counter\n\
                    kubernetes_healthchecks_total{name=\"ping\",status=\"success\",\
                    type=\"livez\"} 2\n";
    assert_eq!(health.metrics(), expected);
    health.reset();
    assert_eq!(health.metrics(), "");
}
