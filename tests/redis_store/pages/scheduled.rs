//! Events of a page that wait for their due time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use duly::event::State;
use duly::store::RedisOptions;
use duly::store::operation::{AttemptOutcome, Fetch, Reply, StoreOp};
use duly::testing::ManualClock;
use duly::time::{Clock, When};

use super::Paged;
use crate::redis_store::kit::{NODE, until};

#[tokio::test]
async fn scheduled_events_of_a_page_are_moved_when_they_are_due_and_changed_one_by_one() {
    let later = When::After(Duration::from_secs(3_600));
    let paged = Paged::due(150, later).await;
    let (bare, ids) = (&paged.bare, &paged.ids);
    assert_eq!(paged.scheduled_entries(), 3);
    assert_eq!(paged.stats().await.scheduled, 150);
    let hours = [Duration::from_secs(3_000), Duration::from_secs(4_000)];
    let coming = bare.typed(StoreOp::forecast(hours.to_vec())).await;
    assert_eq!(coming.expect("a forecast"), [0, 150]);

    let id = ids[70];
    bare.apply(StoreOp::Cancel { id }).await.expect("a cancel");
    paged.is_sound().await;
    assert_eq!(bare.state(id).await, State::Cancelled);
    let id = ids[140];
    let when = When::Now;
    let reschedule = StoreOp::Reschedule { id, when };
    bare.apply(reschedule).await.expect("a change");
    paged.is_sound().await;
    let stats = paged.stats().await;
    assert_eq!((stats.scheduled, stats.ready), (148, 1));
    assert_eq!(bare.fetch(1, 100).await.unwrap(), [id]);

    let early = Paged::due(150, When::After(Duration::from_millis(1))).await;
    let (bare, ids) = (&early.bare, &early.ids);
    until("all are moved", async || {
        let moved = bare
            .apply(StoreOp::MoveDue {
                limit: 100,
                calls: true,
            })
            .await;
        early.is_sound().await;
        let moved = moved.expect("a move");
        matches!(moved, Reply::Moved(moved) if moved.ready == 150)
    })
    .await;
    assert_eq!(&bare.fetch(1, 1_000).await.unwrap(), ids);
    early.is_sound().await;
}

#[tokio::test]
async fn scheduled_events_are_prefetched_and_go_back_alone() {
    let paged = Paged::due(64, When::After(Duration::from_secs(60))).await;
    let (bare, ids) = (&paged.bare, &paged.ids);
    let deliveries = paged.prefetch(1, 64).await;
    let leased: Vec<_> = deliveries.iter().map(|it| it.id).collect();
    assert_eq!(&leased, ids);
    assert!(deliveries.iter().all(|it| it.attempt == 1));
    assert!(paged.end(ids[9], 1, AttemptOutcome::Release).await);
    assert_eq!(bare.state(ids[9]).await, State::Scheduled);
    assert_eq!(bare.state(ids[10]).await, State::Leased);
    assert_eq!(paged.stats().await.scheduled, 1);
    assert!(paged.end(ids[10], 1, AttemptOutcome::Ack).await);
}

/// What has expired takes room for which a page is given in part, and gives it back.
#[tokio::test]
async fn a_page_that_is_fetched_in_part_behind_what_has_expired_stays_whole() {
    let after = |secs| When::After(Duration::from_secs(secs));
    for (limit, behind) in [(10, 64), (10, 1), (66, 64), (66, 1)] {
        let clock = Arc::new(ManualClock::new());
        let options = RedisOptions::new().clock(clock.clone());
        let paged = Paged::open(options, 64, after(61)).await;
        let bare = &paged.bare;
        let mut expiring = Vec::new();
        for id in bare.new_run(5) {
            let mut event = bare.plain(id, after(60));
            let expires = clock.now() + Duration::from_secs(1);
            Arc::make_mut(&mut event.envelope).expires = Some(expires);
            expiring.push(event);
        }
        let expired = expiring[0].envelope.id;
        let rest = bare.new_run(behind);
        let events = rest.iter().map(|id| bare.plain(*id, after(62))).collect();
        for events in [expiring, events] {
            bare.apply(StoreOp::Push(events)).await.expect("a push");
        }
        clock.advance(Duration::from_secs(2));

        let mut seen = Vec::new();
        for request in 1.. {
            let deliveries = paged.prefetch(request, limit).await;
            if deliveries.is_empty() {
                break;
            }
            let left = 64 + behind - seen.len();
            assert_eq!(deliveries.len(), limit.min(left), "{request}");
            seen.extend(deliveries.iter().map(|it| it.id));
        }
        assert_eq!(seen, [&paged.ids[..], &rest].concat());
        assert_eq!(bare.state(expired).await, State::Expired);
        assert_eq!(paged.stats().await.scheduled, 0);
    }
}

/// A call that failed while it took a damaged page apart has left its first event in the delay set, and
/// the page behind it: the next one takes it apart, and passes over none.
#[tokio::test]
async fn a_page_that_was_half_taken_apart_is_fetched_ahead_as_a_whole() {
    const AT_ONCE: usize = 256; // members that a fetch reads together
    let after = |seconds| When::After(Duration::from_secs(seconds));
    for alone in [AT_ONCE - 2, AT_ONCE - 1, AT_ONCE] {
        let paged = Paged::due(64, after(61)).await;
        let bare = &paged.bare;
        let before: Vec<_> = (0..alone).map(|_| bare.new_id()).collect();
        let events = before.iter().map(|id| bare.plain(*id, after(60))).collect();
        bare.apply(StoreOp::Push(events)).await.expect("a push");
        let script = "for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do \
            if #member == 17 then local id = member:sub(1, 16) \
            local body = redis.call('HGET', KEYS[2], id .. 'p') \
            redis.call('HSET', KEYS[2], id .. 'p', body:sub(1, -2)) \
            redis.call('ZADD', KEYS[1], redis.call('ZSCORE', KEYS[1], member), id) end end";
        let [delay, body] = ["delay", "body"].map(|part| format!("{}{part}", paged.base));
        paged.server.cli(&["EVAL", script, "2", &delay, &body]);
        let fetch = Fetch {
            node: NODE,
            request: 1,
            limit: 0,
            ahead: Duration::from_secs(90),
            ahead_limit: 1_000,
            hold: None,
            starts: usize::MAX,
        };
        let fetched = bare.typed(StoreOp::fetch(fetch)).await.expect("a fetch");
        let ids: BTreeSet<_> = fetched.deliveries.iter().map(|it| it.id).collect();
        let sound = before.iter().chain(&paged.ids[..63]); // the last one was cut
        assert_eq!(ids, sound.copied().collect(), "behind {alone} others");
        assert_eq!(fetched.deliveries.len(), ids.len());
    }
}
