//! The same trouble of the same object is one event with a count, not many events.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use berth_core::types::Text;
use k8s_openapi::jiff;

use super::body::Event;
use super::{Happening, What, body};

/// What was not seen again for so long begins anew. Source: client-go's finishTime.
const FINISH: Duration = Duration::from_secs(6 * 60);
/// A count is written at most so often.
const REWRITE: Duration = Duration::from_secs(60);
/// Series that are remembered; beyond, the oldest is forgotten and begins anew.
const SERIES_MAX: usize = 50_000;

/// UID, reason and note.
type Likeness = (Text, What, Text);

/// An event to be created, or its count to be written.
#[derive(Clone, Debug)]
pub(super) struct Post {
    pub(super) namespace: Text,
    pub(super) name: String,
    /// The whole event, for when the server doesn't have it.
    pub(super) body: Event,
    /// What changes of it, if the server has it.
    pub(super) patch: Option<body::Series>,
}

struct Series {
    post: Post,
    count: u32,
    last: jiff::Timestamp,
    seen: Instant,
    /// When the count was written last; None: only the first event was.
    written: Option<Instant>,
    dirty: bool,
}

/// The series that are going on.
#[derive(Default)]
pub(super) struct SeriesBook {
    series: BTreeMap<Likeness, Series>,
}

impl SeriesBook {
    /// Returns what is to be sent at once, if anything.
    pub(super) fn note(
        &mut self,
        happening: &Happening,
        hostname: &str,
        now: Instant,
    ) -> Option<Post> {
        let likeness = (happening.subject.uid.clone(), happening.what, happening.note.clone());
        if let Some(series) = self.series.get_mut(&likeness)
            && now.saturating_duration_since(series.seen) < FINISH
        {
            series.count = series.count.saturating_add(1);
            (series.seen, series.last, series.dirty) = (now, happening.at, true);
            return series.post_if_due(now);
        }
        let name = body::name(happening);
        let body = body::event(happening, &name, hostname);
        let post = Post { namespace: body::namespace(&happening.subject), name, body, patch: None };
        if happening.what == What::FailedScheduling {
            let (last, post) = (happening.at, post.clone());
            let fresh = Series { post, count: 1, last, seen: now, written: None, dirty: false };
            self.series.insert(likeness, fresh);
            self.bound();
        }
        Some(post)
    }

    /// Returns the counts that are to be written, and forgets series that have ended.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Post> {
        let posts = self.series.values_mut().filter_map(|series| series.post_if_due(now)).collect();
        self.series.retain(|_, series| {
            series.dirty || now.saturating_duration_since(series.seen) < FINISH
        });
        posts
    }

    fn bound(&mut self) {
        if self.series.len() <= SERIES_MAX {
            return;
        }
        // A tenth at a time, so that a full book isn't searched for each event.
        let mut seen: Vec<Instant> = self.series.values().map(|series| series.seen).collect();
        seen.sort_unstable();
        let Some(oldest_kept) = seen.get(SERIES_MAX / 10).copied() else { return };
        self.series.retain(|_, series| series.seen > oldest_kept);
    }
}

impl Series {
    fn post_if_due(&mut self, now: Instant) -> Option<Post> {
        let rested = |at: Instant| now.saturating_duration_since(at) >= REWRITE;
        if !self.dirty || !self.written.is_none_or(rested) {
            return None;
        }
        (self.dirty, self.written) = (false, Some(now));
        let series = body::series(self.count, self.last);
        let mut post = self.post.clone();
        post.body.series = Some(series.clone());
        post.patch = Some(series);
        Some(post)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::types::PodRef;

    fn failed(note: &str) -> Happening {
        Happening::failed(PodRef::default(), "s".into(), note.into())
    }

    #[test]
    fn a_trouble_that_stays_is_one_event_with_a_count() {
        let mut book = SeriesBook::default();
        let begun = Instant::now();
        let at = |secs| begun + Duration::from_secs(secs);
        let first = book.note(&failed("a"), "h", at(0)).unwrap();
        assert!(first.patch.is_none());
        let second = book.note(&failed("a"), "h", at(1)).unwrap();
        assert_eq!((second.patch.map(|patch| patch.count), second.name), (Some(2), first.name));
        assert!(book.note(&failed("a"), "h", at(2)).is_none());
        assert!(book.due(at(30)).is_empty());
        let later = book.due(at(61));
        assert_eq!(later[0].patch.as_ref().unwrap().count, 3);
        assert_eq!(later[0].body.series, later[0].patch);
        // Another note is another event, and after a rest so is the same.
        assert!(book.note(&failed("b"), "h", at(62)).unwrap().patch.is_none());
        assert!(book.note(&failed("a"), "h", at(1000)).unwrap().patch.is_none());
        book.due(at(2000));
        assert!(book.series.is_empty());
    }
}
