//! How a picture of the ledger leaves the engine's thread: asked for beside the inputs, taken
//! between two polls.

use std::sync::mpsc::{self, Receiver, Sender};

use berth_core::engine::{Engine, Input};
use tokio::sync::oneshot;

use super::picture::{Negative, Picture};
use crate::live::driver::wake;

/// Asks for pictures.
pub struct Camera {
    asks: Sender<oneshot::Sender<Negative>>,
    sink: Sender<Input>,
}

/// The engine's end of a [`Camera`].
pub struct Asked(Receiver<oneshot::Sender<Negative>>);

impl Camera {
    /// `sink` is where the engine's inputs go.
    pub fn new(sink: Sender<Input>) -> (Camera, Asked) {
        let (asks, asked) = mpsc::channel();
        (Camera { asks, sink }, Asked(asked))
    }

    /// Returns the ledger as it is once everything told so far is folded; none if the engine has
    /// ended.
    pub async fn picture(&self) -> Option<Picture> {
        let (take, taken) = oneshot::channel();
        self.asks.send(take).ok()?;
        wake(&self.sink);
        let negative = taken.await.ok()?;
        tokio::task::spawn_blocking(move || negative.develop()).await.ok()
    }
}

impl Asked {
    /// Takes the pictures that are asked for. Cost: O(objects) each.
    pub fn answer(&self, engine: &Engine) {
        while let Ok(take) = self.0.try_recv() {
            // Whoever asked may have given up.
            let _ = take.send(Negative::of(engine));
        }
    }
}
