//! Events of a page that have ended and are forgotten.

use std::time::Duration;

use duly::store::operation::{PushOutcome, StoreOp};
use duly::store::{DedupWindow, RedisOptions};
use duly::time::When;

use super::Paged;

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
