//! The ring: a bounded queue from many publishers to one consumer, on `disruptor`'s ring buffer.
//!
//! Only this file names that crate, because its pitfalls are covered here:
//!
//! - a publish closure that unwinds would wedge the ring for ever, so ours only *move* a value
//!   into a slot that the consumer has emptied;
//! - the spinning forms of publishing are never used: a full ring returns the value;
//! - a poll's guard, dropped early, skips what it has not yielded, so
//!   [`RingConsumer::drain_into`] reads to the end and keeps the guard to itself;
//! - taking a few events costs as much as scanning the whole backlog, so everything is taken at
//!   once.
//!
//! Its slots are allocated by the first publication: of a thousand queues, few have work.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use disruptor::{
    BusySpin, EventPoller, MissingFreeSlots, MultiProducer, MultiProducerBarrier, Producer,
    SingleConsumerBarrier, build_multi_producer,
};
use parking_lot::{Mutex, MutexGuard};
use qcell::{QCell, QCellOwnerPinned};

/// A slot of the ring: empty, or a value on its way to the consumer.
///
/// The ring gives a slot to one side at a time. A producer is given it to write; the consumer is
/// given it to read, and may take its content because it alone has the [`QCellOwnerPinned`]. So a slot
/// needs neither a lock nor `unsafe`.
type Slot<T> = QCell<Option<T>>;

/// The fewest slots a ring may have.
pub(crate) const CAPACITY_MIN: usize = 64;

/// The most slots a ring may have.
pub(crate) const CAPACITY_MAX: usize = 1 << 20;

/// Creates a ring of `capacity` slots.
///
/// # Errors
///
/// Returns [`BadCapacity`] unless `capacity` is a power of two from `CAPACITY_MIN` to
/// `CAPACITY_MAX`.
pub fn ring<T>(capacity: usize) -> Result<(RingProducer<T>, RingConsumer<T>), BadCapacity>
where
    T: Send + Sync + 'static,
{
    if !capacity.is_power_of_two() || !(CAPACITY_MIN..=CAPACITY_MAX).contains(&capacity) {
        return Err(BadCapacity(capacity));
    }
    let ring = Arc::new(Ring {
        capacity,
        slots: OnceLock::new(),
    });
    let consumer = RingConsumer {
        ring: Arc::clone(&ring),
        inner: None,
    };
    Ok((RingProducer { ring, inner: None }, consumer))
}

/// A ring whose slots are allocated on demand.
struct Ring<T> {
    capacity: usize,
    slots: OnceLock<Slots<T>>,
}

type SlotProducer<T> = MultiProducer<Slot<T>, SingleConsumerBarrier>;
type SlotPoller<T> = EventPoller<Slot<T>, MultiProducerBarrier>;

/// The ends of the allocated slots.
struct Slots<T> {
    capacity: usize,
    /// The producer that all others are cloned from.
    producer: Mutex<SlotProducer<T>>,
    /// Taken by the consumer.
    taker: Mutex<Option<SlotTaker<T>>>,
}

/// What the consumer has: the poller of the slots, and the right to empty them.
struct SlotTaker<T> {
    poller: SlotPoller<T>,
    owner: Pin<Box<QCellOwnerPinned>>,
}

impl<T: Send + Sync + 'static> Slots<T> {
    fn new(capacity: usize) -> Self {
        let owner = Box::pin(QCellOwnerPinned::new());
        // A wait strategy is for consumer threads, which there are not: nothing ever spins.
        let (poller, builder) =
            build_multi_producer(capacity, || owner.as_ref().cell(None), BusySpin)
                .new_event_poller();
        Self {
            capacity,
            producer: Mutex::new(builder.build()),
            taker: Mutex::new(Some(SlotTaker { poller, owner })),
        }
    }

    fn producer(&self) -> Attached<T> {
        Attached {
            producer: lock(&self.producer).clone(),
            capacity: self.capacity,
        }
    }
}

/// The publishing side of the ring. Cloning costs a lock, so a publisher keeps its clone.
pub struct RingProducer<T> {
    ring: Arc<Ring<T>>,
    /// `None` until its first publication.
    inner: Option<Attached<T>>,
}

/// A producer of allocated slots.
struct Attached<T> {
    producer: SlotProducer<T>,
    capacity: usize,
}

impl<T: Send + Sync + 'static> RingProducer<T> {
    /// Returns the producer of the slots, which it allocates if no publisher has.
    #[inline]
    fn attached(&mut self) -> &mut Attached<T> {
        let ring = &self.ring;
        self.inner.get_or_insert_with(|| {
            let slots = ring.slots.get_or_init(|| Slots::new(ring.capacity));
            slots.producer()
        })
    }

    /// Publishes `value`, or returns it when the ring is full.
    #[inline]
    pub(crate) fn try_publish(&mut self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        let producer = &mut self.attached().producer;
        let published = producer.try_publish(|slot| mem::swap(slot.get_mut(), &mut value));
        match (published, value) {
            (Err(_full), Some(value)) => Err(value),
            // Published: the swap has left us the slot's `None`.
            _ => Ok(()),
        }
    }

    /// Publishes as many of `values` as there is room for, from the front and in order, each as
    /// `wrap` makes it, and returns their number. They are claimed together, at the price of about
    /// one publication. `wrap` must only move: a panic in it would wedge the ring.
    pub fn try_publish_many<U>(
        &mut self,
        values: &mut VecDeque<U>,
        wrap: impl Fn(U) -> T,
    ) -> usize {
        let Attached { producer, capacity } = self.attached();
        let mut count = values.len().min(*capacity);
        while count > 0 {
            let published = producer.try_batch_publish(count, |slots| {
                for slot in slots {
                    *slot.get_mut() = values.pop_front().map(&wrap);
                }
            });
            match published {
                Ok(_sequence) => return count,
                Err(MissingFreeSlots(missing)) => {
                    count = count.saturating_sub(usize::try_from(missing).unwrap_or(usize::MAX));
                }
            }
        }
        0
    }

    /// Fills every slot with an empty value, if and only if the ring is empty and no publisher is
    /// half-way. Until the consumer drains it, the ring is full from then on.
    pub(crate) fn try_fill(&mut self) -> bool {
        // Without slots, the fewest will do: nothing is ever published there.
        self.ring.slots.get_or_init(|| Slots::new(CAPACITY_MIN));
        let Attached { producer, capacity } = self.attached();
        producer.try_batch_publish(*capacity, drop).is_ok()
    }

    /// Returns how many slots are taken, including those being published now.
    pub(crate) fn len(&mut self) -> usize {
        if self.ring.slots.get().is_none() {
            return 0;
        }
        let Attached { producer, capacity } = self.attached();
        // The ring does not report its length, but how many slots a batch that can never fit would
        // lack.
        match producer.try_batch_publish(*capacity + 1, drop) {
            Err(MissingFreeSlots(missing)) => usize::try_from(missing)
                .unwrap_or(usize::MAX)
                .saturating_sub(1),
            Ok(_sequence) => *capacity,
        }
    }
}

impl<T> Clone for RingProducer<T> {
    fn clone(&self) -> Self {
        Self {
            ring: Arc::clone(&self.ring),
            inner: None, // attached by its own first publication
        }
    }
}

/// The single consuming side of the ring.
pub struct RingConsumer<T> {
    ring: Arc<Ring<T>>,
    /// `None` until there are slots.
    inner: Option<SlotTaker<T>>,
}

impl<T> RingConsumer<T> {
    #[inline]
    fn taker(&mut self) -> Option<&mut SlotTaker<T>> {
        if self.inner.is_none() {
            self.inner = lock(&self.ring.slots.get()?.taker).take();
        }
        self.inner.as_mut()
    }

    /// Moves everything that is published to the back of `stash`, which frees its slots; returns
    /// whether there was anything.
    #[inline]
    pub(crate) fn drain_into(&mut self, stash: &mut VecDeque<T>) -> bool {
        let Some(SlotTaker { poller, owner }) = self.taker() else {
            return false;
        };
        let Ok(mut published) = poller.poll() else {
            return false;
        };
        stash.extend((&mut published).filter_map(|slot| owner.as_mut().rw(slot).take()));
        true
    }

    /// Returns whether [`drain_into`](Self::drain_into) would find something.
    #[inline]
    pub(crate) fn has_available(&mut self) -> bool {
        self.taker()
            .is_some_and(|taker| taker.poller.has_available())
    }
}

/// An invalid ring capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadCapacity(pub usize);

impl fmt::Display for BadCapacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(capacity) = self;
        write!(
            f,
            "a ring's capacity must be a power of two from {CAPACITY_MIN} to {CAPACITY_MAX}, not {capacity}"
        )
    }
}

impl std::error::Error for BadCapacity {}

#[inline]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn a_capacity_is_checked_before_the_ring_is_made() {
        for capacity in [0, 1, 63, 65, 100, CAPACITY_MAX * 2] {
            let error = ring::<u32>(capacity)
                .err()
                .expect("a bad capacity is refused");
            assert_eq!(error, BadCapacity(capacity));
            assert!(error.to_string().ends_with(&format!("not {capacity}")));
        }
        assert!(ring::<u32>(64).is_ok());
    }

    #[test]
    fn what_goes_in_comes_out_once_and_in_order() {
        let (mut producer, mut consumer) = ring(64).unwrap();
        let mut out = VecDeque::new();
        for round in 0..10 {
            let values = round * 40..round * 40 + 40;
            values
                .clone()
                .for_each(|value| producer.try_publish(value).unwrap());
            assert!(consumer.has_available());
            assert!(consumer.drain_into(&mut out));
            assert!(out.drain(..).eq(values));
            assert!(!consumer.has_available());
            assert!(!consumer.drain_into(&mut out));
        }
    }

    #[test]
    fn a_full_ring_gives_the_value_back() {
        let (mut producer, mut consumer) = ring(64).unwrap();
        for value in 0..64 {
            assert_eq!(producer.len(), value);
            producer.try_publish(value).unwrap();
        }
        assert_eq!(producer.try_publish(64), Err(64));
        assert_eq!(producer.len(), 64);

        consumer.drain_into(&mut VecDeque::new());
        assert_eq!(producer.len(), 0);
        assert_eq!(producer.try_publish(64), Ok(()));
    }

    #[test]
    fn a_batch_fills_the_room_there_is_and_keeps_the_rest() {
        let (mut producer, mut consumer) = ring(64).unwrap();
        producer.try_publish(0).unwrap();
        let mut batch: VecDeque<_> = (1..100).collect();
        assert_eq!(producer.try_publish_many(&mut batch, |job| job), 63);
        assert_eq!(batch.front(), Some(&64));
        assert_eq!(producer.try_publish_many(&mut batch, |job| job), 0);

        let mut out = VecDeque::new();
        consumer.drain_into(&mut out);
        assert!(out.iter().copied().eq(0..64));
        assert_eq!(producer.try_publish_many(&mut batch, |job| job), 36);
        assert_eq!(
            producer.try_publish_many(&mut batch, |job| job),
            0,
            "nothing is left to publish"
        );
    }

    #[test]
    fn a_filled_ring_takes_nothing_more() {
        let (mut producer, mut consumer) = ring(64).unwrap();
        producer.try_publish("queued").unwrap();
        assert!(!producer.try_fill(), "the ring was not empty");

        let mut out = VecDeque::new();
        consumer.drain_into(&mut out);
        assert!(producer.try_fill());
        assert_eq!(producer.clone().try_publish("late"), Err("late"));
        assert_eq!(out, ["queued"]);
    }

    #[test]
    fn a_value_taken_out_is_not_kept_alive_by_its_slot() {
        let (mut producer, mut consumer) = ring(64).unwrap();
        let value = Arc::new(());
        producer.try_publish(value.clone()).unwrap();
        let mut out = VecDeque::new();
        consumer.drain_into(&mut out);
        out.clear();
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn several_publishers_lose_nothing_and_keep_their_own_order() {
        let (producer, mut consumer) = ring(64).unwrap();
        let publishers: Vec<_> = (0..3_u64)
            .map(|who| {
                let mut producer = producer.clone();
                thread::spawn(move || {
                    for number in 0..2_000 {
                        while producer.try_publish((who, number)).is_err() {
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();

        let (mut out, mut next) = (VecDeque::new(), [0; 3]);
        while next.iter().sum::<u64>() < 6_000 {
            if !consumer.drain_into(&mut out) {
                thread::yield_now();
            }
            for (who, number) in out.drain(..) {
                let expected = &mut next[usize::try_from(who).unwrap()];
                assert_eq!(number, *expected);
                *expected += 1;
            }
        }
        publishers
            .into_iter()
            .for_each(|publisher| publisher.join().unwrap());
        assert!(!consumer.has_available());
    }
}
