//! The last look before a write leaves: its body comes only while we lead.
//!
//! Looking before the request is handed to the HTTP client would not do: a connection may have to
//! be made first, and the process may be stopped at any place. The client asks for the body when it
//! writes to the socket; if the body fails then, nothing of the request goes out.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use http::Request;
use hyper::body::{Bytes, Frame, SizeHint};
use kube::client::Body;
use tower::BoxError;

use super::Leadership;
use super::leadership::UnderWay;

/// Why a write was not sent.
#[derive(Debug, thiserror::Error)]
#[error("not sent: this scheduler does not lead")]
pub struct Closed;

/// Goes with a request as an extension, and says afterwards whether it was held back.
#[derive(Clone)]
pub struct Pass {
    leadership: Leadership,
    held_back: Arc<AtomicBool>,
}

impl Pass {
    /// Asks for one write, which counts as under way until what is returned beside is dropped.
    ///
    /// # Errors
    /// [`Closed`] if it is plain already that it must not be sent.
    pub fn ask(leadership: &Leadership) -> Result<(Pass, UnderWay), Closed> {
        // Counted before it is asked, so that whoever closes the gate and then counts misses none.
        let under_way = leadership.begin();
        if !leadership.may_write() {
            return Err(Closed);
        }
        Ok((Pass { leadership: leadership.clone(), held_back: Arc::default() }, under_way))
    }

    pub fn held_back(&self) -> bool {
        self.held_back.load(Ordering::SeqCst)
    }

    fn is_open(&self) -> bool {
        let open = self.leadership.may_write();
        if !open {
            self.held_back.store(true, Ordering::SeqCst);
        }
        open
    }
}

/// A request's body, behind the gate if the request carries a [`Pass`].
pub struct Gated {
    body: Body,
    pass: Option<Pass>,
}

impl Gated {
    pub fn wrap(request: Request<Body>) -> Request<Gated> {
        let pass = request.extensions().get::<Pass>().cloned();
        request.map(|body| Gated { body, pass })
    }
}

impl hyper::body::Body for Gated {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        // Once the first piece is out the request is on its way.
        if self.pass.take().is_some_and(|pass| !pass.is_open()) {
            return Poll::Ready(Some(Err(Closed.into())));
        }
        Pin::new(&mut self.body).poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hyper_util::rt::TokioIo;
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::live::lease::moment::Moment;

    fn leading() -> Leadership {
        let leadership = Leadership::new("me".to_owned(), Duration::from_secs(3600));
        leadership.set_renewed(Some(Moment::now()));
        leadership.set_writes(true);
        leadership
    }

    /// Sends a write on a connection, having done `meanwhile` after the first look; returns what
    /// went out.
    async fn sent(leadership: &Leadership, meanwhile: impl FnOnce()) -> (String, bool) {
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        let (mut client, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(ours)).await.unwrap();
        let (pass, _under_way) = Pass::ask(leadership).unwrap();
        let mut request = Request::post("/binding").body(Body::from(b"{}".to_vec())).unwrap();
        request.extensions_mut().insert(pass.clone());
        meanwhile();
        let answer = tokio::spawn(client.send_request(Gated::wrap(request)));
        let server = async move {
            let mut read = vec![0; 1 << 16];
            let n = theirs.read(&mut read).await.unwrap();
            String::from_utf8_lossy(&read[..n]).into_owned()
        };
        let (_, text) = tokio::join!(connection, server);
        drop(answer);
        (text, pass.held_back())
    }

    #[tokio::test]
    async fn nothing_goes_out_once_the_gate_is_closed() {
        let leadership = leading();
        let (text, held_back) = sent(&leadership, || {}).await;
        assert!(text.starts_with("POST /binding") && text.ends_with("{}"), "{text}");
        assert!(!held_back);
        let (text, held_back) = sent(&leadership, || leadership.set_writes(false)).await;
        assert_eq!((text.as_str(), held_back), ("", true));
        assert!(Pass::ask(&leadership).is_err());
    }

    #[tokio::test]
    async fn a_write_counts_as_under_way_until_it_has_ended() {
        let leadership = leading();
        let (_, under_way) = Pass::ask(&leadership).unwrap();
        assert!(!leadership.settled(Duration::ZERO).await);
        drop(under_way);
        assert!(leadership.settled(Duration::from_secs(60)).await);
    }

    #[test]
    fn an_old_renewal_opens_nothing() {
        let leadership = Leadership::new("me".to_owned(), Duration::ZERO);
        leadership.set_renewed(Some(Moment::now()));
        leadership.set_writes(true);
        assert!(!leadership.is_leading() && !leadership.may_write());
        assert!(leadership.last_renew_age().is_some());
    }
}
