//! Questions to the API server: TokenReview and SubjectAccessReview.

use std::time::Duration;

use http::Method;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::live::client::{Answer, Api, Call};

/// Source: apiserver/pkg/server/options, TokenRequestTimeout and ClientTimeout.
const LIMIT: Duration = Duration::from_secs(10);
/// A question may be repeated: it changes nothing. A server that restarts has closed our connection.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);
/// Whoever asks for ever new paths must not have the API server asked as fast.
const AT_ONCE_MAX: usize = 32;

/// Asks one API server, without a rate limit but few questions at a time.
pub(super) struct Reviews {
    api: Api,
    slots: Semaphore,
}

impl Reviews {
    pub(super) fn new(api: Api) -> Reviews {
        Reviews { api, slots: Semaphore::new(AT_ONCE_MAX) }
    }

    /// Creates the review and returns its status.
    ///
    /// # Errors
    /// The text of why there is no answer within 10 s, or of the refusal.
    pub(super) async fn ask(&self, path: &str, review: &Value) -> Result<Value, String> {
        let asked = async {
            let _slot = self.slots.acquire().await.map_err(|closed| closed.to_string())?;
            self.tried(path, review).await
        };
        let late = |_| format!("no answer within {} s", LIMIT.as_secs());
        tokio::time::timeout(LIMIT, asked).await.map_err(late)?
    }

    async fn tried(&self, path: &str, review: &Value) -> Result<Value, String> {
        let body = Some(("application/json", review.to_string().into_bytes()));
        let call = Call { method: Method::POST, path: path.to_owned(), body };
        let mut tries = 0;
        loop {
            tries += 1;
            let problem = match self.api.call(&call, LIMIT).await {
                Ok(answer) if answer.status.is_success() => return status(&answer),
                Ok(answer) => {
                    let text = format!("{}: {}", answer.status, answer.failure().message);
                    let again = answer.status.is_server_error() || answer.status.as_u16() == 429;
                    if !again {
                        return Err(text);
                    }
                    text
                }
                Err(problem) => problem.message().to_owned(),
            };
            if tries == TRIES {
                return Err(problem);
            }
            tokio::time::sleep(PAUSE * tries).await;
        }
    }
}

fn status(answer: &Answer) -> Result<Value, String> {
    let mut review: Value =
        serde_json::from_slice(&answer.body).map_err(|problem| problem.to_string())?;
    match review.get_mut("status") {
        Some(status) if status.is_object() => Ok(status.take()),
        _ => Err("the review has no status".to_owned()),
    }
}
