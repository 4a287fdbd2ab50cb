//! What ended events leave behind in a bucket: nothing that grows, and nothing in the way of others.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use duly::EventId;
use duly::store::Store;
use duly::store::operation::{AttemptOutcome, Settlement, StartMark, StoreOp};
use duly::time::When;

use futures_util::future::join_all;

use crate::redis_store::kit::{Bare, NODE, fresh, until};
use crate::servers::Redis;

fn len(server: &Redis, command: &str, prefix: &str, part: &str) -> usize {
    let key = format!("{prefix}:{{letters:0}}:{part}");
    server.cli(&[command, &key]).parse().expect("a number")
}

fn now_ms(bare: &Bare) -> u64 {
    bare.store.now_us() / 1_000
}

/// How the events of a test wait.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Alone,
    InPages,
    WithKeys,
    Mixed,
    /// One half alone and the other in pages, which stay.
    AloneThenPages,
    PagesThenAlone,
}

/// In which order they leave, and which of them.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Forwards,
    Backwards,
    Random,
    /// Only the second, the fourth, and so on.
    EverySecond,
    /// All but one of each 500, at random.
    Most,
}

const LAYOUTS: [Layout; 6] = [
    Layout::Alone,
    Layout::InPages,
    Layout::WithKeys,
    Layout::Mixed,
    Layout::AloneThenPages,
    Layout::PagesThenAlone,
];
const ORDERS: [Order; 5] = [
    Order::Forwards,
    Order::Backwards,
    Order::Random,
    Order::EverySecond,
    Order::Most,
];

/// Pushes events that are ready, in this order.
async fn push_ready(bare: &Bare, layout: Layout, count: usize) -> Vec<EventId> {
    let pages = bare.new_run(count);
    let new_id = |at: usize| match layout {
        Layout::InPages => pages[at],
        Layout::AloneThenPages if at >= count / 2 => pages[at],
        Layout::PagesThenAlone if at < count / 2 => pages[at],
        Layout::Mixed if (at / 256).is_multiple_of(2) => pages[at],
        _ => bare.new_id(),
    };
    let ids: Vec<_> = (0..count).map(new_id).collect();
    for (chunk, some) in ids.chunks(512).enumerate() {
        let event = |(at, id): (usize, &EventId)| {
            let mut event = bare.plain(*id, When::Now);
            let has_key = match layout {
                Layout::WithKeys => true,
                Layout::Mixed => at % 3 == 2 && at / 128 % 2 == 1,
                _ => false,
            };
            if has_key {
                let envelope = Arc::make_mut(&mut event.envelope);
                envelope.key = Some(format!("key {}", chunk % 7));
            }
            event
        };
        let events = some.iter().enumerate().map(event).collect();
        bare.apply(StoreOp::Push(events)).await.expect("a push");
    }
    ids
}

/// Returns which of some events leave, in which order.
fn leaving(ids: &[EventId], order: Order) -> Vec<EventId> {
    let mut leaving: Vec<_> = match order {
        Order::EverySecond => ids.iter().copied().skip(1).step_by(2).collect(),
        Order::Most => (0..ids.len())
            .filter(|at| at % 500 != 250)
            .map(|at| ids[at])
            .collect(),
        _ => ids.to_vec(),
    };
    match order {
        Order::Backwards => leaving.reverse(),
        Order::Random | Order::Most => fastrand::shuffle(&mut leaving),
        _ => {}
    }
    leaving
}

/// Cancels events, many at a time.
async fn cancel_all(bare: &Bare, ids: &[EventId]) {
    for some in ids.chunks(64) {
        let cancels = some.iter().map(|id| bare.typed(StoreOp::cancel(*id)));
        for cancelled in join_all(cancels).await {
            assert!(cancelled.is_ok(), "{cancelled:?}");
        }
    }
}

/// Fetches until there is something, and returns how often.
async fn fetches_until_any(bare: &Bare, first: u64, limit: usize) -> (u64, Vec<EventId>) {
    for request in first..first + 1_000 {
        let held = bare.fetch(request, limit).await.expect("a fetch");
        if !held.is_empty() {
            return (request - first + 1, held);
        }
    }
    panic!("nothing is fetched");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_event_waits_for_one_fetch_whatever_was_cancelled_before() {
    const EVENTS: usize = 16_000; // a fetch passes 4,000 entries
    let server = Redis::plain();
    let takes_all = std::env::var("DULY_LEFTOVERS").is_ok_and(|it| it == "all");
    for layout in LAYOUTS {
        let mut orders = ORDERS.to_vec();
        fastrand::shuffle(&mut orders);
        orders.truncate(if takes_all { orders.len() } else { 1 });
        for order in orders {
            let what = format!("{layout:?}, {order:?}");
            let (url, prefix) = fresh(&server.url());
            let bare = Bare::open(&url).await;
            let ids = push_ready(&bare, layout, EVENTS).await;
            let (some, paged) = match layout {
                Layout::AloneThenPages => ids.split_at(EVENTS / 2),
                Layout::PagesThenAlone => (&ids[EVENTS / 2..], &ids[..EVENTS / 2]),
                _ => (&ids[..], &[][..]),
            };
            let cancelled = leaving(some, order);
            cancel_all(&bare, &cancelled).await;
            let gone: HashSet<_> = cancelled.into_iter().collect();
            let live_entries = some.len() - gone.len() + paged.len().div_ceil(64);
            let mut live: Vec<_> = ids
                .iter()
                .copied()
                .filter(|id| !gone.contains(id))
                .collect();
            let entries = len(&server, "LLEN", &prefix, "ready");
            assert!(
                entries <= 4 * live_entries + 600,
                "{what}: {entries} entries"
            );
            live.push(bare.new_id());
            bare.push(live[live.len() - 1], When::Now)
                .await
                .expect("a push");
            let (mut request, mut held) = (1, Vec::new());
            while held.len() < live.len() {
                let (fetches, some) = fetches_until_any(&bare, request, 1_000).await;
                assert_eq!(fetches, 1, "{what}: after {} events", held.len());
                assert!(
                    bare.ack(request, &some)
                        .await
                        .expect("acks")
                        .iter()
                        .all(|it| *it)
                );
                request += fetches;
                held.extend(some);
            }
            assert!(held == live, "{what}: not in their order");
            for (command, part) in [("LLEN", "ready"), ("HLEN", "body"), ("ZCARD", "by_key")] {
                assert_eq!(len(&server, command, &prefix, part), 0, "{what}: {part}");
            }
        }
    }
}

/// One that stays is at the head of a long list, and all that are cancelled are behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_event_waits_for_one_fetch_also_behind_live_ones() {
    let (events, cancelled) = (100_000, 12_000); // a fetch passes 4,000 entries
    let server = Redis::plain();
    for heads in [1, 3] {
        let (url, prefix) = fresh(&server.url());
        let bare = Bare::open(&url).await;
        let ids = push_ready(&bare, Layout::Alone, events).await;
        cancel_all(&bare, &ids[heads..heads + cancelled]).await;
        let entries = len(&server, "LLEN", &prefix, "ready");
        assert!(entries <= events - cancelled + 600, "{heads}: {entries}");
        let live = ids[..heads].iter().chain(&ids[heads + cancelled..]);
        for (request, id) in (1..).zip(live.take(heads + 2)) {
            let held = bare.fetch(request, 1).await.expect("a fetch");
            assert_eq!(held, [*id], "{heads}: request {request}");
        }
    }
}

#[tokio::test]
async fn live_events_among_cancelled_ones_stay_ready_and_in_order() {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let mut ids: Vec<_> = (0..300).map(|_| bare.new_id()).collect();
    ids.extend(bare.new_run(300));
    for some in ids.chunks(100) {
        let events = some.iter().map(|id| bare.plain(*id, When::Now)).collect();
        bare.apply(StoreOp::Push(events)).await.expect("a push");
    }
    let live: Vec<_> = ids.iter().copied().skip(40).step_by(37).collect();
    let mut cancelled: Vec<_> = ids.iter().filter(|id| !live.contains(id)).collect();
    fastrand::shuffle(&mut cancelled);
    for id in cancelled {
        let _ = bare
            .typed(StoreOp::cancel(*id))
            .await
            .expect("a cancellation");
    }
    let stats = bare.typed(StoreOp::stats()).await.expect("counts");
    assert_eq!(stats.ready, live.len());
    assert_eq!(bare.fetch(1, 1_000).await.expect("a fetch"), live);
}

/// The head of the ready list moves while entries are moved in its middle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_events_stay_in_order_while_others_are_cancelled_fetched_and_handed_back() {
    let server = Redis::plain();
    for layout in [Layout::Alone, Layout::Mixed] {
        let (url, _) = fresh(&server.url());
        let bare = Bare::open(&url).await;
        let mut live = push_ready(&bare, layout, 6_000).await;
        let mut leaving = live.clone();
        fastrand::shuffle(&mut leaving);
        leaving.truncate(5_500);
        let mut request = 0;
        for some in leaving.chunks(100) {
            cancel_all(&bare, some).await; // some of them were fetched before
            let gone: HashSet<_> = some.iter().collect();
            live.retain(|id| !gone.contains(id));
            request += 1;
            let held = bare.fetch(request, 4).await.expect("a fetch");
            assert_eq!(held, live[..held.len().max(4)], "{layout:?}, {request}");
            let (acked, back) = held.split_at(3);
            assert_eq!(bare.ack(request, acked).await.expect("acks"), [true; 3]);
            let release = Settlement {
                id: back[0],
                request,
                verdict: AttemptOutcome::Release,
                started_us: 0,
                fetched_us: 1,
            };
            let release = StoreOp::settle(NODE, vec![release], StartMark::default());
            assert_eq!(bare.typed(release).await.expect("a release"), [true]);
            live.drain(..3);
        }
        let rest = bare.fetch(request + 1, 1_000).await.expect("a fetch");
        assert!(
            rest == live,
            "{layout:?}: {} instead of {}",
            rest.len(),
            live.len()
        );
    }
}

#[tokio::test]
async fn unique_keys_that_were_reserved_go_when_their_time_is_over() {
    let server = Redis::plain();
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    for at in 0..50 {
        let id = bare
            .push_with(|envelope| {
                envelope.unique = Some(format!("one a day {at}"));
                envelope
                    .headers
                    .push(("duly-unique-for".to_owned(), "1".to_owned()));
            })
            .await;
        assert_eq!(bare.fetch(at + 1, 1).await.expect("a fetch"), [id]);
        assert_eq!(bare.ack(at + 1, &[id]).await.expect("an ack"), [true]);
    }
    let until = now_ms(&bare) + 2;
    while now_ms(&bare) < until {
        bare.typed(StoreOp::reap(Vec::new(), 10))
            .await
            .expect("a look");
    }
    bare.typed(StoreOp::reap(Vec::new(), 10))
        .await
        .expect("a look");
    assert_eq!(len(&server, "HLEN", &prefix, "unique"), 0);
    assert_eq!(len(&server, "ZCARD", &prefix, "holds"), 0);
}

/// What is due since a moment ago says nothing of what waits behind them.
#[tokio::test]
async fn an_age_is_not_told_where_it_would_have_to_be_searched() {
    let server = Redis::plain();
    for (stale, is_told) in [(10, true), (1_100, false)] {
        let (url, prefix) = fresh(&server.url());
        let bare = Bare::open(&url).await;
        bare.push(bare.new_id(), When::Now).await.unwrap();
        let stats = async || bare.typed(StoreOp::stats()).await.unwrap();
        let pushed = stats().await.oldest_ready;
        assert!(pushed.is_some());
        let fill = "for _ = 1, ARGV[1] do redis.call('LPUSH', KEYS[1], string.rep('s', 24)) end";
        let key = format!("{prefix}:{{letters:0}}:ready");
        server.cli(&["EVAL", fill, "1", &key, &stale.to_string()]);
        let due = Duration::from_millis(2);
        bare.push(bare.new_id(), due).await.unwrap();
        let pushed_us = bare.store.now_us();
        until("it is due", async || {
            bare.store.now_us() > pushed_us + 4_000
        })
        .await;
        let told = stats().await.oldest_ready;
        assert_eq!(told, pushed.filter(|_| is_told), "behind {stale}");
    }
}
