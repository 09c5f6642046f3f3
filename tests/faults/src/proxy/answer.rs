//! Bodies of answers that are cut or slowed.

use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};

use super::connection::{Body, Error};
use super::rule::Active;

/// What was written is on the wire when a connection is cut so long afterwards.
const FLUSH: Duration = Duration::from_millis(50);

/// Passes on `bytes` bytes, then cuts the connection if there are more.
pub(super) fn truncated(body: Incoming, bytes: usize, rule: Arc<Active>) -> Body {
    let frames = stream::unfold((body, Some(bytes), rule), |(mut body, left, rule)| async move {
        let Some(left) = left else {
            tokio::time::sleep(FLUSH).await;
            return Some((Err(Error::Cut), (body, None, rule)));
        };
        let mut data = match next(&mut body).await? {
            Ok(data) => data,
            Err(problem) => return Some((Err(problem), (body, None, rule))),
        };
        if data.len() <= left {
            let left = left - data.len();
            return Some((Ok(Frame::data(data)), (body, Some(left), rule)));
        }
        rule.took_effect();
        data.truncate(left);
        Some((Ok(Frame::data(data)), (body, None, rule)))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Passes on `bytes` bytes at a time, each but the first after a pause.
pub(super) fn slow(body: Incoming, bytes: usize, pause: Duration, rule: Arc<Active>) -> Body {
    let state = (body, Bytes::new(), 0, rule);
    let frames = stream::unfold(state, move |(mut body, mut rest, pieces, rule)| async move {
        while rest.is_empty() {
            match next(&mut body).await? {
                Ok(data) => rest = data,
                Err(problem) => return Some((Err(problem), (body, rest, pieces, rule))),
            }
        }
        if pieces > 0 {
            tokio::time::sleep(pause).await;
        }
        if pieces == 1 {
            rule.took_effect();
        }
        let piece = rest.split_to(bytes.clamp(1, rest.len()));
        Some((Ok(Frame::data(piece)), (body, rest, pieces + 1, rule)))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Returns the next data of a body; trailers are left out.
pub(super) async fn next(body: &mut Incoming) -> Option<Result<Bytes, Error>> {
    loop {
        match body.frame().await? {
            Ok(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Some(Ok(data));
                }
            }
            Err(problem) => return Some(Err(problem.into())),
        }
    }
}
