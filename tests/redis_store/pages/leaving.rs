//! What becomes of a page that some of its events leave: the others stay in it.

use std::time::Duration;

use duly::prelude::*;
use duly::store::operation::{
    AttemptOutcome, Delivery, Fetch, PushOutcome, PushReport, Settlement, StartMark, StoreOp,
};
use duly::time::When;

use super::{Paged, failed};
use crate::redis_store::kit::{NODE, until};

const LATER: When = When::After(Duration::from_secs(60));

impl Paged {
    /// Settles events in one call.
    pub(super) async fn settle(&self, verdicts: impl Iterator<Item = (EventId, AttemptOutcome)>) {
        let settlements = verdicts.map(|(id, verdict)| Settlement {
            id,
            request: 1,
            verdict,
            started_us: 1,
            fetched_us: 1,
        });
        let settlements: Vec<_> = settlements.collect();
        let all = vec![true; settlements.len()];
        let settle = StoreOp::settle(NODE, settlements, StartMark::default());
        assert_eq!(self.bare.typed(settle).await.expect("a settle"), all);
        self.is_sound().await;
    }

    fn states(&self) -> usize {
        self.len("HLEN", "state")
    }

    fn bodies(&self) -> usize {
        self.len("HLEN", "body")
    }

    /// Fetches what is due within ninety seconds.
    pub(super) async fn prefetch(&self, request: u64, ahead_limit: usize) -> Vec<Delivery> {
        let fetch = Fetch {
            node: NODE,
            request,
            limit: 0,
            ahead: Duration::from_secs(90),
            ahead_limit,
            hold: None,
            starts: usize::MAX,
        };
        let fetched = self.bare.typed(StoreOp::fetch(fetch)).await;
        self.is_sound().await;
        fetched.expect("a fetch").deliveries
    }
}

fn ids_of(deliveries: Vec<Delivery>) -> Vec<EventId> {
    deliveries.into_iter().map(|it| it.id).collect()
}

fn retry() -> AttemptOutcome {
    AttemptOutcome::Retry(Duration::ZERO, failed())
}

#[tokio::test]
async fn scheduled_events_are_alone_from_the_first_that_is_changed() {
    let paged = Paged::due(60, LATER).await;
    let (bare, ids) = (&paged.bare, &paged.ids);
    for (at, left) in [(0, 59), (30, 58), (59, 57), (29, 56)] {
        let id = ids[at];
        bare.apply(StoreOp::Cancel { id }).await.expect("a cancel");
        paged.is_sound().await;
        assert_eq!(paged.scheduled_entries(), left, "{at}");
    }
    assert_eq!(paged.stats().await.scheduled, 56);
    assert_eq!((paged.states(), paged.bodies()), (4, 56));
    let id = ids[20];
    let when = When::After(Duration::from_secs(30));
    let reschedule = StoreOp::Reschedule { id, when };
    bare.apply(reschedule).await.expect("a change");
    paged.is_sound().await;
    let rest = [&ids[20..21], &ids[1..20], &ids[21..29], &ids[31..59]].concat();
    assert_eq!(ids_of(paged.prefetch(1, 100).await), rest);
    assert_eq!(bare.ack(1, &rest).await.unwrap(), vec![true; rest.len()]);
    paged.is_sound().await;
    assert_eq!(paged.bodies(), 0);
}

#[tokio::test]
async fn events_are_alone_from_their_lease_on() {
    let paged = Paged::with(60).await;
    let (bare, ids) = (&paged.bare, &paged.ids);
    bare.fetch(1, 100).await.expect("a fetch");
    assert_eq!((paged.states(), paged.bodies()), (60, 60));
    let fails = |at: usize| at == 3 || at == 17;
    let verdicts = ids.iter().enumerate().map(|(at, id)| {
        if fails(at) {
            (*id, retry())
        } else {
            (*id, AttemptOutcome::Ack)
        }
    });
    paged.settle(verdicts).await;
    assert_eq!((paged.states(), paged.bodies()), (60, 2));
    let failed = [ids[3], ids[17]];
    assert_eq!(bare.fetch(2, 100).await.unwrap(), failed);
    assert_eq!(bare.ack(2, &failed).await.unwrap(), [true; 2]);
    paged.is_sound().await;
    assert_eq!((paged.states(), paged.bodies()), (60, 0));
    let events = ids.iter().map(|id| bare.plain(*id, When::Now)).collect();
    let pushed = bare.typed(StoreOp::push(events)).await.expect("a push");
    let is_new = |it: &PushReport| it.verdict == PushOutcome::Accepted;
    assert!(!pushed.iter().any(is_new), "all are known");
}

/// What is leased of a page is a batch like any other, however many of its events fail.
#[tokio::test]
async fn a_settle_of_a_few_of_each_of_many_pages_settles_all_of_them() {
    let paged = Paged::with(62 * 16).await;
    let (bare, ids) = (&paged.bare, &paged.ids);
    assert_eq!(&bare.fetch(1, 1_000).await.unwrap(), ids);
    let some = ids.iter().enumerate().filter(|(at, _)| at % 2 == 0);
    let some: Vec<_> = some.map(|(_, id)| *id).collect();
    paged.settle(some.iter().map(|id| (*id, retry()))).await;
    assert_eq!(bare.fetch(2, 1_000).await.unwrap(), some);
    let stats = paged.stats().await;
    assert_eq!((stats.ready, stats.leased), (0, ids.len()));
}

#[tokio::test]
async fn events_of_a_page_for_which_there_is_no_room_stay_in_it() {
    let paged = Paged::due(60, LATER).await;
    assert_eq!(ids_of(paged.prefetch(1, 20).await), paged.ids[..20]);
    assert_eq!((paged.scheduled_entries(), paged.states()), (1, 21));
    assert_eq!(paged.stats().await.scheduled, 40);
    assert_eq!(ids_of(paged.prefetch(2, 30).await), paged.ids[20..50]);
    assert_eq!(ids_of(paged.prefetch(3, 30).await), paged.ids[50..]);
    assert_eq!((paged.scheduled_entries(), paged.states()), (0, 60));

    let due = When::After(Duration::from_millis(1));
    let paged = Paged::due(60, due).await;
    let (limit, calls) = (20, true);
    until("all are moved", async || {
        let moved = paged.bare.apply(StoreOp::MoveDue { limit, calls }).await;
        moved.expect("a move");
        paged.is_sound().await;
        paged.entries() == 60
    })
    .await;
    assert_eq!(paged.bare.fetch(1, 100).await.unwrap(), paged.ids);
}

/// Those that are left keep their place in the list, also when others were there before them.
#[tokio::test]
async fn a_page_that_is_leased_bit_by_bit_keeps_its_order() {
    let paged = Paged::with(200).await;
    let (bare, ids) = (&paged.bare, &paged.ids);
    let mut seen = Vec::new();
    for (request, limit) in (1..).zip([70, 1, 1, 100, 7, 21]) {
        let id = ids[seen.len() + limit - 1];
        bare.apply(StoreOp::Cancel { id }).await.expect("a cancel");
        paged.is_sound().await;
        seen.extend(bare.fetch(request, limit - 1).await.expect("a fetch"));
        paged.is_sound().await;
        seen.push(id); // the place of the one that was cancelled
    }
    seen.truncate(ids.len());
    assert!(ids.starts_with(&seen), "{seen:?}");
}
