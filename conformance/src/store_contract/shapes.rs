//! Shapes of load: what holds for events that are all alike must hold for those that are not, too.
//!
//! A store may keep events together that are pushed together, are due together and have nothing of
//! their own; each shape is another way in which they are not, or in which they part.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::store_contract::harness::StoreHarness;
use crate::store_contract::world::{A, World, ms, retry, secs};
use duly::event::{BucketKey, Envelope, Payload};
use duly::store::operation::{AttemptOutcome, Fetch, NewEvent, PushOutcome, Stats, StoreOp};
use duly::time::{Timestamp, When};
use duly::{CancelOutcome, ChangeOutcome, EventId, Unique};

/// What events have of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Own {
    /// Nothing but their payload.
    Nothing,
    /// A key, which several share.
    Key,
    /// A unique key.
    UniqueKey,
    /// An expiry, in an hour.
    Expiry,
    /// Three of each ten an expiry before [`Dues::Shared`], the others nothing.
    EarlyExpiry,
    /// Another number of attempts than most.
    Attempts,
    /// A payload that is not short.
    Bytes,
    /// One of these after the other.
    Mixed,
}

/// When events are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dues {
    /// At once.
    Now,
    /// All at one time, in 2.5 s.
    Shared,
    /// Each at its own, within 5 s.
    Each,
}

/// How events are alike, and how they are pushed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Shape {
    /// What they have of their own.
    pub own: Own,
    /// When they are due.
    pub dues: Dues,
    /// How many are pushed in one call.
    pub at_once: usize,
    /// Whether their ids follow each other, as those of one process do.
    pub in_runs: bool,
}

impl Shape {
    /// Every shape: what events have of their own with every way to be due, in ones, tens and
    /// thousands, with ids that follow each other and with foreign ones.
    #[must_use]
    pub fn all() -> Vec<Self> {
        use Own::{Attempts, Bytes, EarlyExpiry, Expiry, Key, Mixed, Nothing, UniqueKey};
        let owns = [
            Nothing,
            Key,
            UniqueKey,
            Expiry,
            Attempts,
            Bytes,
            Mixed,
            Nothing,
            EarlyExpiry,
        ];
        let each = owns.into_iter().enumerate().flat_map(|(row, own)| {
            let dues = [Dues::Now, Dues::Shared, Dues::Each];
            dues.into_iter()
                .enumerate()
                .map(move |(column, dues)| Self {
                    own,
                    dues,
                    at_once: [1_000, 10, 1][(row + column) % 3],
                    in_runs: row != 7, // plain events come with foreign ids as well
                })
        });
        each.collect()
    }

    /// Returns so many events of a bucket, the first of which has this number in the order of all.
    #[must_use]
    pub fn events(
        self,
        bucket: &BucketKey,
        created: Timestamp,
        first: u64,
        count: u64,
    ) -> Vec<NewEvent> {
        let event = |number| self.event(bucket, created, number);
        (first..first + count).map(event).collect()
    }

    fn event(self, bucket: &BucketKey, created: Timestamp, number: u64) -> NewEvent {
        let entropy = if self.in_runs {
            ((number / 64) << 8) | (128 + number % 64)
        } else {
            number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
        };
        let id = EventId::from_parts(created, bucket.bucket, entropy);
        let payload = Payload::from(&b"a payload of some thirty bytes"[..]);
        let mut envelope = Envelope::new(id, bucket.queue.clone(), payload);
        envelope.attempts = 16; // as many as need no place in its bytes
        let own = match self.own {
            Own::Mixed => {
                [Own::Nothing, Own::Nothing, Own::Key, Own::Attempts][number as usize % 4]
            }
            own => own,
        };
        match own {
            Own::Key => envelope.key = Some(format!("key {}", number % 5)),
            Own::UniqueKey => envelope.unique = Some(format!("unique {number}")),
            Own::Expiry => envelope.expires = Some(created + Duration::from_hours(1)),
            Own::EarlyExpiry if number % 10 < 3 => envelope.expires = Some(created + ms(2_300)),
            Own::Attempts => envelope.attempts = 5,
            Own::Bytes => envelope.payload = Payload::from(vec![b'x'; 2_000]),
            Own::Nothing | Own::EarlyExpiry | Own::Mixed => {}
        }
        let delay = match self.dues {
            Dues::Now => Duration::ZERO,
            Dues::Shared => ms(2_500),
            Dues::Each => ms(1 + number * 37 % 5_000),
        };
        NewEvent {
            envelope: Arc::new(envelope),
            when: When::from(delay),
            on_taken: Unique::Keep,
        }
    }
}

/// What is expected of the events of a shape.
#[derive(Default)]
struct Expected {
    /// Those that wait, with their due times.
    waiting: BTreeMap<EventId, Timestamp>,
    /// When some of them expire.
    expires: BTreeMap<EventId, Timestamp>,
}

impl Expected {
    fn expire(&mut self, now: Timestamp) {
        let expires = &self.expires;
        self.waiting
            .retain(|id, _| expires.get(id).is_none_or(|at| *at > now));
    }

    fn due_by(&self, time: Timestamp) -> usize {
        self.waiting.values().filter(|due| **due <= time).count()
    }

    /// Asserts that the counts are those, and no estimates.
    async fn is_counted(&self, world: &World, shape: Shape) {
        let now = world.now();
        let Stats {
            scheduled,
            ready,
            leased,
            dead,
            ..
        } = world.stats().await;
        let due = self.due_by(now);
        let counts = [self.waiting.len() - due, due, 0, 0];
        assert_eq!([scheduled, ready, leased, dead], counts, "{shape:?}");
        let spans = [ms(1), ms(700), ms(2_499), ms(2_500), secs(4), secs(60)];
        let later = spans.map(|span| self.due_by(now + span));
        let unmoved = world.forecast(&[ms(0)]).await[0];
        let moved = due - unmoved; // what is on the ready list is not counted
        let expected: Vec<_> = later.iter().map(|count| count - moved).collect();
        assert_eq!(world.forecast(&spans).await, expected, "{shape:?}");
    }
}

/// Of events of each shape some are cancelled, moved, retried and handed back, some expire just before
/// they are fetched, and what is fetched is now much and now little. No more than that happens to the
/// second half, so that what a store keeps together may still be together when it is fetched in part.
pub async fn each_shape_of_load_is_counted_exactly_and_delivered_once(harness: &dyn StoreHarness) {
    const COUNT: u64 = 70;
    for shape in Shape::all() {
        let world = World::new(harness).await;
        let events = shape.events(&world.bucket, world.now(), 0, COUNT);
        let mut expected = Expected::default();
        for some in events.chunks(shape.at_once) {
            let push = StoreOp::push(some.to_vec());
            for (event, pushed) in some.iter().zip(world.op(push).await) {
                assert_eq!(pushed.verdict, PushOutcome::Accepted, "{shape:?}");
                let id = event.envelope.id;
                expected.waiting.insert(id, pushed.due);
                let expires = event.envelope.expires.map(|at| (id, at));
                expected.expires.extend(expires);
            }
        }
        expected.is_counted(&world, shape).await;
        for (event, at) in events.iter().zip(0_usize..) {
            let id = event.envelope.id;
            if at % 7 == 3 && at < 35 {
                assert_eq!(
                    world.cancel(id).await,
                    CancelOutcome::Cancelled,
                    "{shape:?}"
                );
                expected.waiting.remove(&id);
            } else if at % 31 == 5 {
                let changed = world.reschedule(id, When::Now).await;
                assert_eq!(changed, ChangeOutcome::Changed(world.now()), "{shape:?}");
                expected.waiting.insert(id, world.now());
            }
        }
        expected.is_counted(&world, shape).await;
        is_delivered_once(&world, shape, expected).await;
        let left = world.stats().await;
        let counts = [left.scheduled, left.ready, left.leased, left.dead];
        assert_eq!(counts, [0; 4], "{shape:?}");
    }
}

async fn is_delivered_once(world: &World, shape: Shape, mut expected: Expected) {
    let mut limits = [10, 1, 64, 1_000].into_iter().cycle();
    let mut pass = 0;
    while !expected.waiting.is_empty() {
        let limit = limits.next().unwrap_or(1);
        let fetch = Fetch {
            ahead: ms(300),
            ahead_limit: limit.min(20),
            ..world.fetching(A, limit)
        };
        let deliveries = world.fetch_by(&fetch).await;
        let horizon = world.now() + fetch.ahead;
        for delivery in &deliveries {
            let due = expected.waiting.remove(&delivery.id);
            let due = due.unwrap_or_else(|| panic!("{shape:?}: {} is there twice", delivery.id));
            assert!(due == delivery.due && due <= horizon, "{shape:?}: {due:?}");
        }
        let settlements = deliveries.iter().enumerate().map(|(at, delivery)| {
            let is_first = delivery.attempt == 1 && pass < 3;
            let verdict = match at % 8 {
                1 if is_first => retry(ms(0)),
                2 if is_first => AttemptOutcome::Release,
                _ => AttemptOutcome::Ack,
            };
            let back = match verdict {
                AttemptOutcome::Retry(..) => Some(world.now()),
                AttemptOutcome::Release => Some(delivery.due),
                _ => None,
            };
            expected.waiting.extend(back.map(|due| (delivery.id, due)));
            world.ended(delivery, verdict)
        });
        let settlements: Vec<_> = settlements.collect();
        let all = vec![true; settlements.len()];
        assert_eq!(world.settle_all(A, settlements).await, all, "{shape:?}");
        if pass % 4 == 0 {
            expected.is_counted(world, shape).await;
        }
        if deliveries.is_empty() {
            world.advance(ms(400));
            expected.expire(world.now());
            world.move_due().await;
        }
        pass += 1;
    }
}
