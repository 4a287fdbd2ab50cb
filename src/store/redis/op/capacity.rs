//! A limit on pushes in flight: beyond it a push is refused at once.

use std::collections::HashMap;
use std::ops::{AddAssign, SubAssign};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::core::op::NewEvent;
use crate::error::{Error, ErrorKind, Result};
use crate::event::BucketKey;

/// The limit of events in flight over all pushes: more than the largest `push_many` has.
const EVENTS_MAX: usize = 131_072;
/// The overhead of an event besides its payload: its envelope, its id and its place.
const EVENT_BYTES: usize = 512;

/// The limit of a store's pushes in flight.
///
/// A bucket may take as much as it leaves free. So one whose server has stopped takes half, two
/// take a third each, and however many stop, there is capacity for pushes to the others.
#[derive(Debug)]
pub(super) struct Capacity {
    used: Mutex<Usage>,
    max: Size,
}

#[derive(Debug, Default)]
struct Usage {
    all: Size,
    /// Only buckets with pushes in flight.
    buckets: HashMap<BucketKey, Size>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    events: usize,
    bytes: usize,
}

/// A part of the capacity, released on drop.
#[derive(Debug)]
pub(super) struct Reservation {
    of: Arc<Capacity>,
    bucket: BucketKey,
    size: Size,
}

impl Capacity {
    pub(super) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            used: Mutex::default(),
            max: Size {
                events: EVENTS_MAX,
                bytes: bytes_max,
            },
        })
    }

    /// Reserves capacity for these events. When nothing else is in flight they always fit.
    ///
    /// # Errors
    ///
    /// [`Full`](ErrorKind::Full).
    pub(super) fn reserve(
        self: &Arc<Self>,
        bucket: &BucketKey,
        events: &[NewEvent],
    ) -> Result<Reservation> {
        let bytes = |event: &NewEvent| event.envelope.payload.len() + EVENT_BYTES;
        let size = Size {
            events: events.len(),
            bytes: events.iter().map(bytes).sum(),
        };
        let mut used = self.used();
        let own = used.buckets.get(bucket).copied().unwrap_or_default();
        let fits =
            |own: usize, new: usize, all: usize, max: usize| own + new <= max.saturating_sub(all);
        let is_first = used.all == Size::default();
        let has_room = fits(own.events, size.events, used.all.events, self.max.events)
            && fits(own.bytes, size.bytes, used.all.bytes, self.max.bytes);
        if !is_first && !has_room {
            return Err(self.full(bucket, own, used.all));
        }
        used.all += size;
        *used.buckets.entry(bucket.clone()).or_default() += size;
        drop(used);
        Ok(Reservation {
            of: Arc::clone(self),
            bucket: bucket.clone(),
            size,
        })
    }

    fn full(&self, bucket: &BucketKey, own: Size, all: Size) -> Error {
        let words = format!(
            "{} events with {} bytes wait to be pushed to {bucket}, and {} with {} in all; at most {} \
             with {} may, and a bucket may take as much as it leaves free: the servers answer more \
             slowly than events are pushed. Nothing was pushed; push again in a moment",
            own.events, own.bytes, all.events, all.bytes, self.max.events, self.max.bytes,
        );
        Error::new(ErrorKind::Full, words)
    }

    fn used(&self) -> MutexGuard<'_, Usage> {
        // Every change under the lock is one step.
        self.used.lock()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut used = self.of.used();
        used.all -= self.size;
        if let Some(own) = used.buckets.get_mut(&self.bucket) {
            *own -= self.size;
            if *own == Size::default() {
                used.buckets.remove(&self.bucket);
            }
        }
    }
}

impl AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        self.events += other.events;
        self.bytes += other.bytes;
    }
}

impl SubAssign for Size {
    fn sub_assign(&mut self, other: Self) {
        self.events -= other.events;
        self.bytes -= other.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::op::Unique;
    use crate::event::{BucketId, Envelope, EventId, Payload};
    use crate::time::{Timestamp, When};

    fn key(bucket: u16) -> BucketKey {
        BucketKey::new("orders".parse().expect("a legal name"), BucketId(bucket))
    }

    fn events(many: usize, bytes: usize) -> Vec<NewEvent> {
        let id = EventId::from_parts(Timestamp::EPOCH, BucketId(0), 0);
        let payload = Payload::from(vec![0; bytes]);
        let envelope = Envelope::new(id, key(0).queue, payload);
        let event = NewEvent {
            envelope: Arc::new(envelope),
            when: When::Now,
            on_taken: Unique::Keep,
        };
        vec![event; many]
    }

    #[test]
    fn stopped_buckets_leave_room_for_others() {
        let capacity = Capacity::new(1 << 20);
        let mut held = Vec::new();
        for bucket in 0..5 {
            let one = events(1, 488);
            while let Ok(reserved) = capacity.reserve(&key(bucket), &one) {
                held.push(reserved);
            }
        }
        let error = capacity.reserve(&key(0), &events(1, 488)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Full);
        assert!(capacity.reserve(&key(9), &events(10, 488)).is_ok());
        held.clear();
        assert_eq!(capacity.used().all, Size::default());
        assert!(capacity.used().buckets.is_empty());
        assert!(capacity.reserve(&key(0), &events(500, 488)).is_ok());
    }

    #[test]
    fn what_is_larger_than_all_fits_alone() {
        let capacity = Capacity::new(1_000);
        let large = capacity.reserve(&key(0), &events(1, 5_000));
        assert!(large.is_ok());
        assert!(capacity.reserve(&key(1), &events(1, 0)).is_err());
        drop(large);
        assert!(capacity.reserve(&key(1), &events(1, 0)).is_ok());
    }
}
