//! What the harness sees: when each pod was bound, and how many events there are.
//!
//! The same for all contenders, and cheap beside them: one watch that only brings pods once they
//! are bound, from which two fields are cut out.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use http::Method;
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::Outcome;
use crate::client::{Connection, Server};
use crate::load::NAMESPACE;

/// Without a bind for so long, a contender has got stuck.
const STALL: Duration = Duration::from_secs(60);

/// When pods were seen to be bound, by name.
pub(crate) struct Binds {
    seen: BTreeMap<String, Instant>,
    news: mpsc::UnboundedReceiver<(String, Instant)>,
}

impl Binds {
    /// Begins to look: what is bound already doesn't count.
    pub(crate) async fn watch(server: &Server) -> Outcome<Binds> {
        let mut connection = server.connect().await?;
        let list = connection.get("/api/v1/nodes?limit=1").await?;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let (tell, news) = mpsc::unbounded_channel();
        tokio::spawn(follow(server.clone(), version, tell));
        Ok(Binds { seen: BTreeMap::new(), news })
    }

    pub(crate) fn at(&self, pod: &str) -> Option<Instant> {
        self.seen.get(pod).copied()
    }

    /// Returns the first and the last time.
    pub(crate) fn span(&self) -> Option<(Instant, Instant)> {
        Some((*self.seen.values().min()?, *self.seen.values().max()?))
    }

    /// Waits until so many pods are bound; `alive` says why the contender has ended, if it has.
    pub(crate) async fn wait_for(
        &mut self,
        pods: usize,
        mut alive: impl FnMut() -> Outcome<()>,
    ) -> Outcome<()> {
        let mut last = Instant::now();
        while self.seen.len() < pods {
            match timeout(Duration::from_millis(200), self.news.recv()).await {
                Ok(Some((pod, at))) => {
                    self.seen.entry(pod).or_insert(at);
                    last = at;
                }
                Ok(None) => return Err("the harness's watch has ended".into()),
                Err(_) => alive()?,
            }
            if last.elapsed() > STALL {
                let bound = self.seen.len();
                return Err(format!("stuck: {bound} of {pods} pods are bound").into());
            }
        }
        Ok(())
    }
}

/// Watches on from where it was, until nobody listens.
async fn follow(
    server: Server,
    mut version: String,
    tell: mpsc::UnboundedSender<(String, Instant)>,
) -> Outcome<()> {
    let mut connection = server.connect().await?;
    loop {
        let path = format!(
            "/api/v1/namespaces/{NAMESPACE}/pods?watch=true&fieldSelector=spec.nodeName%21%3D\
             &resourceVersion={version}"
        );
        let (status, mut body) = connection.send(Method::GET, &path, None).await?;
        if !status.is_success() {
            return Err(format!("watch: {status}").into());
        }
        let mut rest: Vec<u8> = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            let at = Instant::now();
            let Ok(data) = frame.into_data() else { continue };
            rest.extend_from_slice(&data);
            let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let text = String::from_utf8_lossy(&rest[..whole]).into_owned();
            rest.drain(..whole);
            for line in text.lines() {
                if let Some(seen) = field(line, "resourceVersion") {
                    version = seen.to_owned();
                }
                let added = line.starts_with("{\"type\":\"ADDED\"");
                if let Some(name) = field(line, "name").filter(|_| added) {
                    tell.send((name.to_owned(), at))?;
                }
            }
        }
        // A server short of CPU ends watches that it thinks slow.
        connection = server.connect().await?;
    }
}

/// Cuts out the first field of that name: of a pod, that in its metadata.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let mark = format!("\"{name}\":\"");
    let start = line.find(&mark)? + mark.len();
    let length = line[start..].find('"')?;
    Some(&line[start..start + length])
}

/// Returns how many events there are in the pods' namespace, without reading them.
pub(crate) async fn count_events(connection: &mut Connection) -> Outcome<usize> {
    let path = format!("/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events?limit=1");
    let list = connection.get(&path).await?;
    let here = list["items"].as_array().map_or(0, Vec::len);
    let more = list["metadata"]["remainingItemCount"].as_u64().unwrap_or_default();
    Ok(here + usize::try_from(more)?)
}

/// Returns how many different pods an event says are scheduled.
pub(crate) async fn count_told(connection: &mut Connection) -> Outcome<usize> {
    let path = format!("/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events");
    let list = connection.get(&path).await?;
    let events = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    let scheduled = events.iter().filter(|event| event["reason"] == "Scheduled");
    let mut pods: Vec<&str> =
        scheduled.filter_map(|event: &Value| event["regarding"]["name"].as_str()).collect();
    pods.sort_unstable();
    pods.dedup();
    Ok(pods.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_field_of_a_name_is_cut_out() {
        let line = r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7"},"spec":{"containers":[{"name":"main"}]}}}"#;
        assert_eq!((field(line, "name"), field(line, "resourceVersion")), (Some("a"), Some("7")));
        assert_eq!(field(line, "nodeName"), None);
    }
}
