//! Notes of starts and of releases, which say after a crash whether an attempt counts.

use std::io;

use crate::core::engine::Bucket;
use crate::core::op::Delivery;
use crate::error::Result;
use crate::event::{EventId, State};
use crate::sqlite::files;
use crate::sqlite::shortage::Shortage;
use crate::store::embedded::shared::Shared;
use crate::store::embedded::starts::Start;
use crate::store::embedded::stop::StopReason;

impl Shared {
    /// Notes that the handlers of these start.
    pub(super) fn note_starts(&self, deliveries: &[&Delivery]) -> Result<()> {
        if self.stop.get().is_some() || self.pending.is_closed() {
            return Err(self.why_closed());
        }
        let starts = deliveries.iter().copied().map(Start::of_delivery);
        let shortage = |noted: &io::Result<()>| noted.as_ref().err().and_then(Shortage::of_io);
        let mut notes = self.starts();
        let mut noted = notes.note(starts.clone());
        if shortage(&noted) == Some(Shortage::Space) {
            // Handling what is stored is what the reserve is for.
            self.space.release();
            noted = notes.note(starts);
        }
        drop(notes);
        let is_short = shortage(&noted).is_some();
        noted.map_err(|error| {
            if is_short {
                return files::unusable(&self.paths.starts, "cannot be written", error);
            }
            let stop = StopReason::new("a start could not be noted", error);
            self.stop(stop);
            self.why_closed()
        })
    }

    /// Notes that these events were released, before anyone can lease one of them again. Where that
    /// fails, their attempts count if the process ends now; [`handed_back`](Self::handed_back) says so.
    pub(super) fn hand_back(&self, bucket: &Bucket<i64>, ids: &[EventId]) -> io::Result<()> {
        let starts = ids.iter().filter_map(|id| {
            let found = bucket.get(*id)?;
            matches!(found.state, State::Scheduled | State::Ready).then(|| Start {
                id: *id,
                attempt: found.tries.saturating_add(1),
                due: found.due,
            })
        });
        let starts: Vec<_> = starts.collect();
        self.starts().hand_back(&starts)
    }

    /// Says how that went; without the lock of the bucket, as a subscriber may call the store.
    pub(super) fn handed_back(&self, noted: io::Result<()>) {
        match noted {
            Ok(()) => self.log.succeeded(&()),
            Err(error) if Shortage::of_io(&error).is_some() => {
                let what = files::unusable(&self.paths.starts, "cannot be written", error);
                self.log.failed((), &what);
            }
            Err(error) => self.stop(StopReason::new("a release could not be noted", error)),
        }
    }
}
