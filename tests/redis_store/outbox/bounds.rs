//! What is bounded: a read, and how many records wait.

use std::sync::Arc;
use std::time::Duration;

use duly::ErrorKind;
use duly::event::Payload;
use duly::store::operation::{Reply, StoreOp};
use duly::store::{OutboxLimit, RedisOptions, Store, WhenFull};
use duly::testing::ManualClock;
use duly::time::When;

use super::{entries, numbers};
use crate::redis_store::kit::{Bare, fresh};
use crate::servers::{Redis, shared};

#[tokio::test]
async fn one_read_answers_a_bounded_number_of_bytes() {
    const KEPT: usize = 64 << 10;
    let server = shared();
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let mut expected = Vec::new();
    for number in 0..60_u8 {
        let payload = vec![number; KEPT];
        expected.push(Some(Payload::from(payload.clone())));
        bare.push_with(|event| {
            (event.payload, event.keeps_payload) = (Payload::from(payload), true);
        })
        .await;
    }
    let held = bare.fetch(1, 1_000).await.unwrap();
    bare.ack(1, &held).await.unwrap();
    assert!(
        entries(server, &prefix) >= 10,
        "an entry is read as a whole"
    );
    let page = bare.page(0, 1_000).await;
    assert!(
        (10..30).contains(&page.records.len()),
        "{}",
        page.records.len()
    );
    let read = bare.rest(0, 1_000).await;
    assert!(numbers(&read).into_iter().eq(1..=60));
    let payloads: Vec<_> = read.into_iter().map(|(_, record)| record.payload).collect();
    assert_eq!(payloads, expected);
}

#[tokio::test]
async fn pushes_are_refused_while_too_many_records_wait_and_all_else_goes_on() {
    let (url, _) = fresh(&shared().url());
    let bare = Bare::open(&url).await;
    let limit = |max, when_full| bare.store.limit_outboxes(OutboxLimit { max, when_full });
    limit(Some(5), WhenFull::RefusePushes).unwrap();
    bare.handle(1, 4).await;
    let late = bare.new_id();
    bare.push(late, When::Now).await.expect("four wait");
    let more = bare.new_id();
    bare.push(more, When::Now).await.expect("four wait still");
    assert_eq!(bare.fetch(2, 10).await.unwrap(), [late, more]);
    assert_eq!(bare.ack(2, &[late, more]).await.unwrap(), [true; 2]);

    let refused = bare.new_id();
    let error = bare.push(refused, When::Now).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    let words = error.to_string();
    assert!(
        words.contains("6 records") && words.contains("journal"),
        "{words}"
    );
    let get = bare.apply(StoreOp::Get { id: refused }).await.unwrap();
    assert_eq!(get, Reply::Snapshot(None), "nothing of it happened");
    assert!(
        numbers(&bare.rest(0, 10).await).into_iter().eq(1..=6),
        "and nothing is let go"
    );

    bare.trim(1).await;
    bare.push(refused, When::Now).await.expect_err("five wait");
    bare.trim(2).await;
    bare.push(refused, When::Now).await.expect("four wait");
    assert_eq!(bare.fetch(3, 10).await.unwrap(), [refused]);
    assert_eq!(bare.ack(3, &[refused]).await.unwrap(), [true]);

    // What is let go of elsewhere waits no more.
    limit(Some(2), WhenFull::DropOldest).unwrap();
    bare.handle(4, 2).await;
    limit(Some(3), WhenFull::RefusePushes).unwrap();
    assert_eq!(numbers(&bare.rest(0, 10).await), [8, 9]);
    bare.push(bare.new_id(), When::Now).await.expect("two wait");
    let error = limit(Some(u64::MAX), WhenFull::RefusePushes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn the_oldest_records_are_let_go_of_and_the_gap_is_seen() {
    let (url, _) = fresh(&shared().url());
    let bare = Bare::open(&url).await;
    let (max, when_full) = (Some(5), WhenFull::DropOldest);
    bare.store
        .limit_outboxes(OutboxLimit { max, when_full })
        .unwrap();
    for request in 1..=20 {
        bare.handle(request, 1).await;
        let page = bare.page(0, 100).await;
        let first = request.saturating_sub(4).max(1);
        assert_eq!((page.first, page.next), (first, request + 1));
        assert!(numbers(&page.records).into_iter().eq(first..=request));
    }
    // An entry is kept whole, if it is the last one.
    bare.handle(21, 9).await;
    let page = bare.page(0, 100).await;
    assert!(numbers(&page.records).into_iter().eq(21..30));
}

/// A process without a limit of the outboxes, which keeps a thousand records, and one with a limit.
async fn two(clock: &Arc<ManualClock>, max: u64, when_full: WhenFull) -> (Bare, Bare) {
    let (url, _) = fresh(&shared().url());
    let options = || RedisOptions::new().clock(clock.clone()).records_max(1_000);
    let other = Bare::open_with(&url, options()).await;
    let bare = Bare::open_with(&url, options()).await;
    let max = Some(max);
    let limit = OutboxLimit { max, when_full };
    bare.store.limit_outboxes(limit).expect("a legal limit");
    (other, bare)
}

#[tokio::test]
async fn a_process_without_a_limit_drops_nothing_that_another_one_keeps() {
    for (max, when_full) in [
        (10_000, WhenFull::DropOldest),
        (50_000, WhenFull::RefusePushes),
    ] {
        let clock = Arc::new(ManualClock::new());
        let (other, bare) = two(&clock, max, when_full).await;
        for request in 1..=4 {
            bare.handle(request, 600).await;
        }
        clock.advance(Duration::from_secs(11 * 3_600));
        other.handle(5, 3).await;
        let page = bare.page(0, 0).await;
        assert_eq!((page.first, page.next), (1, 2_404), "{when_full:?}");
        // A day after the last that has a limit.
        clock.advance(Duration::from_secs(24 * 3_600));
        other.handle(6, 1).await;
        let page = bare.page(0, 0).await;
        assert_eq!((page.first, page.next), (1_801, 2_405), "{when_full:?}");
    }
}

/// Nothing is dropped that a process promises to keep, and nothing grows without end for it.
#[tokio::test]
async fn a_process_without_a_limit_is_refused_pushes_where_another_one_is() {
    for (max, trims) in [(5, false), (5, true), (1_800, false)] {
        let clock = Arc::new(ManualClock::new());
        let (other, bare) = two(&clock, max, WhenFull::RefusePushes).await;
        if trims {
            other.handle(1, 1).await;
            bare.trim(1).await;
        } else {
            bare.handle(1, 1).await;
        }
        let push = async |to: &Bare, key: Option<&str>| {
            let mut event = to.plain(to.new_id(), When::Now);
            Arc::make_mut(&mut event.envelope).key = key.map(ToOwned::to_owned);
            let pushed = to.apply(StoreOp::Push(vec![event])).await;
            pushed.map_err(|error| error.kind()).err()
        };
        let fill = async |request: u64, waiting: u64| {
            let left = usize::try_from(max - waiting).expect("a small number");
            for (at, many) in (request..).zip([left / 2, left - left / 2]) {
                other.handle(at, many).await;
            }
            for (who, key) in [(&other, None), (&other, Some("key")), (&bare, None)] {
                let refused = push(who, key).await;
                assert_eq!(refused, Some(ErrorKind::Full), "{max} wait, with {key:?}");
            }
        };
        fill(2, u64::from(!trims)).await;
        let page = bare.page(0, 0).await;
        assert_eq!(page.next - page.first, max, "nothing is dropped");
        bare.trim(u64::MAX).await;
        fill(4, 0).await;
        // A day after the last that has a limit.
        clock.advance(Duration::from_secs(25 * 3_600));
        assert_eq!(push(&other, None).await, None, "it has no limit");
    }
}

#[tokio::test]
async fn who_drops_what_is_in_the_journal_says_how_much_the_others_keep() {
    let clock = Arc::new(ManualClock::new());
    let (other, recorder) = two(&clock, 10_000, WhenFull::DropOldest).await;
    other.handle(1, 1).await;
    recorder.trim(1).await;
    for request in 2..=5 {
        other.handle(request, 600).await;
    }
    let page = recorder.page(0, 0).await;
    assert_eq!((page.first, page.next), (2, 2_402));
    // A lower limit is the limit at once.
    let (max, when_full) = (Some(1_000), WhenFull::DropOldest);
    let lower = OutboxLimit { max, when_full };
    recorder.store.limit_outboxes(lower).expect("a legal limit");
    recorder.handle(6, 1).await;
    assert_eq!(recorder.page(0, 0).await.first, 1_802);
}

/// Many records wait, each in an entry of its own, and then few are kept.
#[tokio::test]
async fn no_call_drops_more_records_than_it_may() {
    const MANY: u64 = 50_000;
    const DROPPED_MAX: u64 = 20_000;
    let server = Redis::plain();
    for is_trimmed in [false, true] {
        let (url, prefix) = fresh(&server.url());
        let bare = Bare::open(&url).await;
        bare.handle(1, 1).await;
        let script = "for number = 2, tonumber(ARGV[1]) do \
            redis.call('XADD', KEYS[1], number .. '-0', 'r', '') end \
            redis.call('HSET', KEYS[2], 'record', ARGV[1] + 1)";
        let [outbox, meta] =
            ["outbox", "meta"].map(|part| format!("{prefix}:{{letters:0}}:{part}"));
        server.cli(&["EVAL", script, "2", &outbox, &meta, &MANY.to_string()]);
        if is_trimmed {
            bare.trim(MANY).await;
            assert_eq!(entries(&server, &prefix), 0);
            let said = server.cli(&["INFO", "commandstats"]);
            let calls = said
                .lines()
                .find_map(|it| it.strip_prefix("cmdstat_xtrim:calls="));
            let calls = calls.and_then(|it| it.split(',').next());
            assert_eq!(calls, Some("3"), "each drops some");
            continue;
        }
        let (max, when_full) = (Some(5), WhenFull::DropOldest);
        let limit = OutboxLimit { max, when_full };
        bare.store.limit_outboxes(limit).expect("a legal limit");
        let mut left = MANY;
        for request in 2..5 {
            bare.handle(request, 1).await;
            left = (left - DROPPED_MAX.min(left)).max(4) + 1;
            assert_eq!(entries(&server, &prefix), left, "{request}");
        }
    }
}
