//! Bodies that are written on a thread of their own while they are sent.
//!
//! Only a few pieces of a page exist at a time, however long it is: whoever writes waits until the
//! connection has taken the piece before.

use std::io::{self, BufWriter, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, header};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Bytes of a piece.
const PIECE: usize = 64 * 1024;
/// Pieces that wait to be sent.
const WAITING: usize = 2;

type Piece = io::Result<Bytes>;

/// Tells whether the client takes gzip, by Accept-Encoding.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).into_iter();
    let codings = values.filter_map(|value| value.to_str().ok()).flat_map(|list| list.split(','));
    codings.into_iter().any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let gzip =
            parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip") || name == "*");
        let refused = |part: &str| part.strip_prefix("q=").and_then(|q| q.parse::<f32>().ok());
        gzip && !parts.filter_map(refused).any(|quality| quality == 0.0)
    })
}

/// Returns what `write` writes, as a body; `packed`: by gzip.
///
/// # Errors
/// `write` failed before its first piece was full. Later, its error breaks the connection off.
pub(super) async fn body(
    packed: bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
) -> io::Result<Body> {
    let (sender, mut receiver) = channel(WAITING);
    tokio::task::spawn_blocking(move || {
        let pieces = BufWriter::with_capacity(PIECE, Pieces(sender.clone()));
        if let Err(problem) = write_all(packed, pieces, write) {
            // Nobody listens any more if the client has gone.
            let _ = sender.blocking_send(Err(problem));
        }
    });
    let first = receiver.recv().await.transpose()?;
    Ok(Body::new(StreamBody::new(Sent { first, receiver })))
}

fn write_all(
    packed: bool,
    mut pieces: BufWriter<Pieces>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let written = if packed {
        let mut packer = GzEncoder::new(&mut pieces, Compression::fast());
        write(&mut packer).and_then(|()| packer.finish().map(drop))
    } else {
        write(&mut pieces)
    };
    match written {
        Ok(()) => pieces.flush(),
        Err(problem) => {
            // What is left in the buffer would make a broken page look whole.
            drop(pieces.into_parts());
            Err(problem)
        }
    }
}

/// Hands each piece on.
struct Pieces(Sender<Piece>);

impl Write for Pieces {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(piece)));
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Sent {
    first: Option<Bytes>,
    receiver: Receiver<Piece>,
}

impl futures::Stream for Sent {
    type Item = io::Result<Frame<Bytes>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        self.receiver.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(value: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, value.parse().unwrap());
        takes_gzip(&headers)
    }

    #[test]
    fn gzip_is_used_where_it_is_asked_for() {
        assert!(takes("gzip") && takes("deflate, GZIP;q=0.5") && takes("*"));
        assert!(!takes("identity") && !takes("gzip;q=0") && !takes("br, zstd"));
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
