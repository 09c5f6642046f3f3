//! What the API server says: quorum reads, a kind page by page or one object at a time.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use berth_core::types::Text;
use tracing::warn;

use super::picture::{Content, Id};
use crate::live::client::{Answer, Api, Call};
use crate::live::kinds;
use crate::live::rate::TokenBucket;
use crate::live::watch::list::{Page, page_path};
use crate::wire::{Kind, Tables};

const ANSWER: Duration = Duration::from_secs(60);
/// So many new beginnings of a list whose version the server has forgotten.
const RESTARTS_MAX: u32 = 3;

/// Reads objects into what the ledger would hold of them.
pub(super) struct Server<'a> {
    pub(super) api: &'a Api,
    pub(super) rate: &'a TokenBucket,
    /// Of its own: the watches' are not held up.
    pub(super) tables: Mutex<Tables>,
}

impl Server<'_> {
    /// Returns all objects of the kind that the ledger should know of.
    ///
    /// # Errors
    /// A text for the log.
    pub(super) async fn list(&self, kind: Kind) -> Result<BTreeMap<Id, Content>, String> {
        let (mut next, mut restarts) = (String::new(), 0);
        let mut objects = BTreeMap::new();
        loop {
            let answer = self.get(page_path(kind, &next)).await?;
            if answer.status.as_u16() == 410 && !next.is_empty() && restarts < RESTARTS_MAX {
                restarts += 1;
                (next, objects) = (String::new(), BTreeMap::new());
                continue;
            }
            let body = succeeded(&answer)?;
            let page: Page<'_> = serde_json::from_slice(body).map_err(|e| e.to_string())?;
            for item in page.items.iter().flatten() {
                objects.extend(self.read(kind, item.get()).map(|content| (content.id(), content)));
            }
            match page.metadata.r#continue.filter(|token| !token.is_empty()) {
                Some(token) => next = token,
                None => return Ok(objects),
            }
        }
    }

    /// Returns one object; none if it is gone, or is another one of that name.
    ///
    /// # Errors
    /// A text for the log.
    pub(super) async fn object(&self, kind: Kind, id: &Id) -> Result<Option<Content>, String> {
        let collection = kinds::collection_path(kind, &id.key.namespace);
        let answer = self.get(format!("{collection}/{}", id.key.name)).await?;
        if answer.status.as_u16() == 404 {
            return Ok(None);
        }
        let body = std::str::from_utf8(succeeded(&answer)?).map_err(|e| e.to_string())?;
        let content = self.read(kind, body).filter(|content| content.id() == *id);
        // The lists leave out what has ended, and so does the ledger.
        Ok(content.filter(|content| !matches!(content, Content::Pod(pod) if pod.finished())))
    }

    async fn get(&self, path: String) -> Result<Answer, String> {
        let call = Call::get(path);
        let waited = self.rate.take().await;
        self.api.rate_limited(&call.method, waited);
        self.api.call(&call, ANSWER).await.map_err(|error| error.message().to_owned())
    }

    fn read(&self, kind: Kind, json: &str) -> Option<Content> {
        match kinds::read(kind, json, &self.tables) {
            Ok(seen) => Content::of(seen.event),
            Err(problem) => {
                let resource = Text::from(kinds::resource(kind));
                warn!(%resource, %problem, "object left out of the comparison");
                None
            }
        }
    }
}

fn succeeded(answer: &Answer) -> Result<&[u8], String> {
    if answer.status.is_success() {
        return Ok(&answer.body);
    }
    let failure = answer.failure();
    Err(format!("{} ({})", failure.message, failure.code))
}
