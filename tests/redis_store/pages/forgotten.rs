//! Events of a page that have ended and are forgotten.

use std::time::Duration;

use duly::EventId;
use duly::event::BucketId;
use duly::store::operation::{PushOutcome, StoreOp};
use duly::store::{DedupWindow, RedisOptions, Store};
use duly::time::{Timestamp, When};

use super::Paged;
use crate::redis_store::kit::{Bare, fresh};
use crate::servers::shared;

const CAP: usize = 6;

impl Paged {
    /// A store that remembers six events that have ended.
    async fn forgetful(count: usize) -> Self {
        let day = Duration::from_hours(24);
        let window = DedupWindow {
            keep_for: day,
            max: CAP,
            cap: CAP,
            max_age: day,
        };
        Self::open(RedisOptions::new().window(window), count, When::Now).await
    }

    /// Asserts that these events have ended, and that those before the last six are forgotten.
    async fn remembers_the_last_of(&self, over: &[usize]) {
        self.is_sound().await;
        let forgotten = over.len() - CAP;
        for (nth, at) in over.iter().enumerate() {
            let again = vec![self.bare.plain(self.ids[*at], When::Now)];
            let pushed = self.bare.typed(StoreOp::push(again)).await.expect("a push");
            let expected = if nth < forgotten {
                PushOutcome::TooOld
            } else {
                PushOutcome::Duplicate(self.ids[*at])
            };
            assert_eq!(
                pushed[0].verdict, expected,
                "number {nth} of those that ended"
            );
        }
    }

    async fn acks(&self, places: &[usize]) {
        let ids: Vec<_> = places.iter().map(|at| self.ids[*at]).collect();
        let stood = self.bare.ack(1, &ids).await.expect("acks");
        assert_eq!(stood, vec![true; ids.len()]);
    }
}

/// Events that end together share an entry of tombstones, and the bound still holds for each of them.
#[tokio::test]
async fn events_that_were_acked_together_are_forgotten_one_by_one() {
    let paged = Paged::forgetful(40).await;
    paged.bare.fetch(1, 100).await.expect("a fetch");
    let mut over: Vec<_> = (0..20).collect();
    paged.acks(&over).await;
    paged.remembers_the_last_of(&over).await;

    // With gaps, of which each ends a tombstone.
    let apart = [20, 21, 22, 25, 27, 28, 29, 30, 39];
    paged.acks(&apart).await;
    over.extend(apart);
    paged.remembers_the_last_of(&over).await;

    let rest = [23, 24, 26, 31, 32, 33, 34, 35, 36, 37, 38];
    paged.acks(&rest).await;
    over.extend(rest);
    paged.remembers_the_last_of(&over).await;
}

/// A store shares its cap among its buckets, so that of one shrinks as others come: here a second store
/// has a smaller one.
#[tokio::test]
async fn a_bucket_that_forgot_nothing_refuses_no_id_that_was_made_ahead() {
    let (url, _) = fresh(&shared().url());
    let few = DedupWindow {
        cap: 2,
        ..DedupWindow::default()
    };
    let first = Bare::open(&url).await;
    let second = Bare::open_with(&url, RedisOptions::new().window(few)).await;
    let ahead = Timestamp::from_micros_up(first.store.now_us()) + Duration::from_secs(50);
    let id = |entropy, later_ms| {
        let created = ahead + Duration::from_millis(later_ms);
        EventId::from_parts(created, BucketId(0), entropy)
    };
    let push = async |id| {
        let event = second.plain(id, When::Now);
        let pushed = second.typed(StoreOp::push(vec![event])).await;
        pushed.expect("a push")[0].verdict
    };
    for entropy in 1..=5 {
        first.push(id(entropy, 0), When::Now).await.expect("a push");
        let cancel = StoreOp::Cancel { id: id(entropy, 0) };
        first.apply(cancel).await.expect("a cancellation");
    }
    assert_eq!(push(id(6, 0)).await, PushOutcome::Accepted);
    let cancel = StoreOp::Cancel { id: id(6, 0) }; // for which others are forgotten
    second.apply(cancel).await.expect("a cancellation");
    assert_eq!(push(id(7, 0)).await, PushOutcome::TooOld, "nobody can know");
    assert_eq!(push(id(7, 1)).await, PushOutcome::Accepted);
}
