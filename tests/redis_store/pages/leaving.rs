//! What becomes of a page that some of its events leave: the others stay in it.

use std::time::Duration;

use duly::prelude::*;
use duly::store::operation::{
    AttemptOutcome, Delivery, Fetch, PushOutcome, Pushed, Settlement, StartMark, StoreOp,
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
async fn scheduled_events_leave_their_page_one_by_one() {
    let paged = Paged::due(60, LATER).await;
    let (bare, ids) = (&paged.bare, &paged.ids);
    for (at, parts) in [(0, 1), (30, 2), (59, 2), (29, 2)] {
        let id = ids[at];
        bare.apply(StoreOp::Cancel { id }).await.expect("a cancel");
        paged.is_sound().await;
        assert_eq!(paged.scheduled_entries(), parts, "{at}");
    }
    assert_eq!(paged.stats().await.scheduled, 56);
    assert_eq!((paged.states(), paged.bodies()), (1 + 4, 1));
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
async fn events_that_fail_leave_the_others_in_their_page() {
    let paged = Paged::with(60).await;
    let (bare, ids) = (&paged.bare, &paged.ids);
    bare.fetch(1, 100).await.expect("a fetch");
    let fails = |at: usize| at == 3 || at == 17;
    let verdicts = ids.iter().enumerate().map(|(at, id)| match fails(at) {
        true => (*id, retry()),
        false => (*id, AttemptOutcome::Ack),
    });
    paged.settle(verdicts).await;
    assert_eq!((paged.states(), paged.bodies()), (1 + 2, 2));
    let failed = [ids[3], ids[17]];
    assert_eq!(bare.fetch(2, 100).await.unwrap(), failed);
    assert_eq!(bare.ack(2, &failed).await.unwrap(), [true; 2]);
    paged.is_sound().await;
    assert_eq!((paged.states(), paged.bodies()), (1 + 2, 0));
    let events = ids.iter().map(|id| bare.plain(*id, When::Now)).collect();
    let pushed = bare.typed(StoreOp::push(events)).await.expect("a push");
    let is_new = |it: &Pushed| it.verdict == PushOutcome::Accepted;
    assert!(!pushed.iter().any(is_new), "all are known");
}

#[tokio::test]
async fn the_body_of_a_part_goes_with_its_last_event() {
    for last_fails in [false, true] {
        let paged = Paged::with(20).await;
        paged.bare.fetch(1, 100).await.expect("a fetch");
        let (one, others) = paged.ids.split_last().expect("some");
        let acks = others.iter().map(|id| (*id, AttemptOutcome::Ack));
        let failure = std::iter::once((*one, retry()));
        if last_fails {
            paged.settle(acks).await;
            assert_eq!(paged.bodies(), 1);
            paged.settle(failure).await;
        } else {
            paged.settle(failure).await;
            assert_eq!(paged.bodies(), 2);
            paged.settle(acks).await;
        }
        assert_eq!((paged.states(), paged.bodies()), (2, 1), "{last_fails}");
    }
}

#[tokio::test]
async fn a_part_of_which_many_fail_is_left_by_all() {
    let paged = Paged::with(60).await;
    let ids = &paged.ids;
    paged.bare.fetch(1, 100).await.expect("a fetch");
    let some = ids.iter().step_by(2).map(|id| (*id, retry()));
    paged.settle(some).await;
    assert_eq!((paged.states(), paged.bodies()), (1 + 60, 60));
    let others = ids.iter().skip(1).step_by(2);
    paged
        .settle(others.map(|id| (*id, AttemptOutcome::Ack)))
        .await;
    assert_eq!(paged.stats().await.ready, 30);
}

#[tokio::test]
async fn a_limit_divides_a_part() {
    let paged = Paged::due(60, LATER).await;
    assert_eq!(ids_of(paged.prefetch(1, 20).await), paged.ids[..20]);
    assert_eq!((paged.scheduled_entries(), paged.states()), (1, 1));
    assert_eq!(ids_of(paged.prefetch(2, 30).await), paged.ids[20..50]);
    assert_eq!(ids_of(paged.prefetch(3, 30).await), paged.ids[50..]);
    assert_eq!((paged.scheduled_entries(), paged.states()), (0, 1));

    let due = When::After(Duration::from_millis(1));
    let paged = Paged::due(60, due).await;
    let (limit, calls) = (20, true);
    until("all are moved", async || {
        let moved = paged.bare.apply(StoreOp::MoveDue { limit, calls }).await;
        moved.expect("a move");
        paged.is_sound().await;
        paged.entries() == 3
    })
    .await;
    assert_eq!(paged.states(), 1, "they are in their page");
    assert_eq!(paged.bare.fetch(1, 100).await.unwrap(), paged.ids);
}
