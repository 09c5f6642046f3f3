//! One watch on its way from the server to the client.

use std::sync::{Arc, PoisonError};

use futures::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;

use super::super::answer;
use super::super::connection::{Body, Error, Verdict};
use super::super::rule::Ending;
use super::event::Lines;
use super::{Open, Streams};

/// What is read ahead while a stream is kept back; then the server has to wait.
const AHEAD: usize = 1024;

/// Events of one read, or whatever came of a stream that isn't JSON.
struct Unit {
    bytes: Bytes,
    arrived: Instant,
}

struct Outgoing {
    streams: Arc<Streams>,
    open: Arc<Open>,
    units: Receiver<Result<Unit, Error>>,
    is_json: bool,
    verdict: Verdict,
    ended: bool,
}

/// Reads `body` in a task of its own, so that what is late is late by its arrival.
pub(super) fn outgoing(
    streams: Arc<Streams>,
    open: Arc<Open>,
    body: Incoming,
    is_json: bool,
    verdict: Verdict,
) -> Body {
    let (sender, units) = channel(AHEAD);
    tokio::spawn(read(body, is_json, sender));
    let outgoing = Outgoing { streams, open, units, is_json, verdict, ended: false };
    let frames = stream::unfold(outgoing, |mut outgoing| async {
        let frame = outgoing.next().await?;
        Some((frame.map(Frame::data), outgoing))
    });
    StreamBody::new(frames).boxed_unsync()
}

async fn read(mut body: Incoming, is_json: bool, units: Sender<Result<Unit, Error>>) {
    let mut lines = Lines::default();
    loop {
        let read = tokio::select! {
            read = answer::next(&mut body) => read,
            // The watch was ended: the server's side must not go on with it.
            () = units.closed() => return,
        };
        let Some(read) = read else { return };
        let arrived = Instant::now();
        let cut = match read {
            Ok(data) if is_json => lines.push(&data),
            Ok(data) => vec![data],
            Err(problem) => {
                // Nobody listens only if the client is gone.
                let _ = units.send(Err(problem)).await;
                return;
            }
        };
        for bytes in cut {
            if units.send(Ok(Unit { bytes, arrived })).await.is_err() {
                return;
            }
        }
    }
}

impl Outgoing {
    async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        if self.ended {
            return None;
        }
        let mut end = self.open.end.subscribe();
        let frame = tokio::select! {
            biased;
            // The sender lives in self.open, so this ends by a wish only.
            wish = end.wait_for(Option::is_some) => {
                let how = wish.ok().and_then(|wish| *wish).flatten();
                self.ending(how)
            }
            frame = passed(&self.streams, &self.open, &mut self.units, self.is_json) => frame,
        };
        self.ended = !matches!(frame, Some(Ok(_)));
        frame
    }

    fn ending(&self, how: Option<Ending>) -> Option<Result<Bytes, Error>> {
        let how = how?;
        *self.verdict.lock().unwrap_or_else(PoisonError::into_inner) = how;
        Some(Err(Error::Cut))
    }
}

/// Returns the next bytes that go out.
async fn passed(
    streams: &Streams,
    open: &Open,
    units: &mut Receiver<Result<Unit, Error>>,
    is_json: bool,
) -> Option<Result<Bytes, Error>> {
    loop {
        let unit = match units.recv().await? {
            Ok(unit) => unit,
            Err(problem) => return Some(Err(problem)),
        };
        streams.let_through(open, unit.arrived).await;
        if !is_json {
            return Some(Ok(unit.bytes));
        }
        let copies = streams.copies(open, &unit.bytes);
        streams.note(open, &unit.bytes);
        if copies > 0 {
            return Some(Ok(Bytes::from(unit.bytes.repeat(copies))));
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.streams.close(&self.open);
    }
}
