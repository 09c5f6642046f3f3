//! The list that a watch begins with, page by page.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Watch;
use crate::live::client::Call;
use crate::live::kinds::{self, Key};
use crate::wire::Kind;

/// Objects a page. Source: client-go's pager.
const PAGE: usize = 500;
/// A list that takes so many new beginnings never ends.
const RESTARTS_MAX: u32 = 3;

#[derive(Deserialize)]
pub(in crate::live) struct Page<'a> {
    #[serde(default)]
    pub(in crate::live) metadata: PageMeta,
    #[serde(borrow, default)]
    pub(in crate::live) items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::live) struct PageMeta {
    pub(in crate::live) resource_version: String,
    pub(in crate::live) r#continue: Option<String>,
}

impl Watch {
    /// Tells the engine of everything that is there, and of what is there no longer. Returns the
    /// version to watch from.
    ///
    /// # Errors
    /// A text for the log.
    pub(super) async fn list(&mut self) -> Result<String, String> {
        let mut restarts = 0;
        let mut next = String::new();
        let mut listed: BTreeSet<Key> = BTreeSet::new();
        loop {
            let waited = self.source.rate.take().await;
            let call = Call::get(page_path(self.kind, &next));
            self.source.api.rate_limited(&call.method, waited);
            let answer = self.source.api.call(&call, self.source.pace.answer).await;
            let answer = answer.map_err(|e| e.message().to_owned())?;
            if answer.status.as_u16() == 410 && !next.is_empty() && restarts < RESTARTS_MAX {
                // The server has forgotten the version of the first page.
                restarts += 1;
                next.clear();
                listed.clear();
                continue;
            }
            if !answer.status.is_success() {
                let failure = answer.failure();
                return Err(format!("{} ({})", failure.message, failure.code));
            }
            let page: Page<'_> = serde_json::from_slice(&answer.body)
                .map_err(|e| format!("the list can't be read: {e}"))?;
            for item in page.items.iter().flatten() {
                listed.extend(self.apply(item.get()).map(|(key, _)| key));
            }
            match page.metadata.r#continue.filter(|token| !token.is_empty()) {
                Some(token) => next = token,
                None => {
                    self.forget_unlisted(&listed);
                    self.source.api.metrics().listed(&self.resource);
                    return Ok(page.metadata.resource_version);
                }
            }
        }
    }

    /// Tells whether nothing of any kind was written after `version`. Servers send no bookmark that isn't
    /// newer than a watch's beginning, so they rightly say nothing then. Being asked, they also catch
    /// up with their store, and so have a newer bookmark to send where something was written.
    ///
    /// Source: apiserver's `cacher/cache_watcher.go` and `cacher/delegator` (1.37): a limited list
    /// without a version is answered from the cache, once that is up to date.
    pub(super) async fn is_newest(&self, version: &str) -> bool {
        let waited = self.source.rate.take().await;
        let call = Call::get(version_path(self.kind));
        self.source.api.rate_limited(&call.method, waited);
        let Ok(answer) = self.source.api.call(&call, self.source.pace.probe).await else {
            return false;
        };
        let page = serde_json::from_slice(&answer.body);
        page.is_ok_and(|page: Page<'_>| page.metadata.resource_version == version)
    }

    fn forget_unlisted(&mut self, listed: &BTreeSet<Key>) {
        let gone: Vec<Key> =
            self.known.keys().filter(|key| !listed.contains(*key)).cloned().collect();
        for key in gone {
            self.forget(&key);
        }
    }
}

/// Returns the path of the shortest list of now.
fn version_path(kind: Kind) -> String {
    let selector = kinds::selector(kind).map(|selector| format!("&{selector}"));
    format!("{}?limit=1{}", kinds::list_path(kind), selector.unwrap_or_default())
}

/// Returns the path of a page without resourceVersion: what is true now.
pub(in crate::live) fn page_path(kind: Kind, next: &str) -> String {
    let mut path = format!("{}?limit={PAGE}", kinds::list_path(kind));
    if let Some(selector) = kinds::selector(kind) {
        path += &format!("&{selector}");
    }
    if !next.is_empty() {
        path += &format!("&continue={}", escaped(next));
    }
    path
}

/// Escapes what can't stand in a query.
pub(super) fn escaped(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    let escape = |b: u8| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") };
    text.bytes().map(escape).collect()
}
