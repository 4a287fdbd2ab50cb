//! Keys of events that end: which are free again, and which stay taken for a while.

use std::sync::Arc;
use std::time::Duration;

use crate::core::engine::bucket::Bucket;
use crate::core::engine::entry::Entry;
use crate::core::op::ChangeSink;
use crate::event::EventId;

impl<B: Clone> Bucket<B> {
    /// Removes an event from the key index.
    pub(super) fn free_key(&mut self, id: EventId, entry: &Entry<B>) {
        if let Some(key) = entry.key() {
            self.keys.remove(&(Arc::clone(key), id));
        }
    }

    /// Frees a unique key, unless another event has taken it over.
    pub(super) fn free_unique(&mut self, id: EventId, unique: Option<&Arc<str>>) {
        if let Some(unique) = unique {
            self.uniques.free(unique, id);
        }
    }

    /// Keeps the unique key of an event that is done, unless another event has taken it over.
    pub(super) fn hold_unique<L: ChangeSink<Body = B>>(
        &mut self,
        id: EventId,
        unique: Option<&Arc<str>>,
        period: Duration,
        sink: &mut L,
    ) {
        let (Some(unique), now) = (unique, self.now()) else {
            return;
        };
        let until = now + period;
        let (is_held, let_go) = self.uniques.hold(unique, id, (now, until));
        for key in let_go {
            sink.unique_held(&self.key, &key, None);
        }
        if is_held {
            sink.unique_held(&self.key, unique, Some((id, until)));
        }
    }

    /// Frees unique keys whose time is over.
    pub(super) fn free_expired<L: ChangeSink<Body = B>>(&mut self, sink: &mut L) {
        let now = self.now();
        for key in self.uniques.expire(now) {
            sink.unique_held(&self.key, &key, None);
        }
    }
}
