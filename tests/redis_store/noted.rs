//! What a call notes in the counts before it changes how many events are ready: whoever comes after one that
//! failed counts right, and builds without such notes read what they know.

use std::sync::Arc;
use std::time::Duration;

use duly::store::RedisOptions;
use duly::store::operation::{AttemptOutcome, Fetch, Holding, Settlement, StartMark, StoreOp};
use duly::time::When;

use crate::redis_store::faulty::{fail_after, has_failed, load};
use crate::redis_store::kit::{Bare, NODE, fresh, until};
use crate::redis_store::newer::{change_form, second_byte};
use crate::servers::Redis;

const AHEAD: Duration = Duration::from_secs(60);

/// A server whose scripts can fail.
pub(crate) async fn loaded() -> Redis {
    let server = Redis::plain();
    drop(Bare::open(&fresh(&server.url()).0).await); // it removes libraries of others
    load(&server);
    server
}

/// Opens a store that repeats no push by itself, with an event that is ready.
pub(crate) async fn unrepeated(url: &str, options: RedisOptions) -> Bare {
    let bare = Bare::open_with(url, options.retry_for(Duration::ZERO)).await;
    let event = bare.plain(bare.new_id(), When::Now);
    until("its bucket is registered", async || {
        let push = StoreOp::Push(vec![event.clone()]);
        bare.apply(push).await.is_ok()
    })
    .await;
    bare
}

async fn ready(bare: &Bare) -> usize {
    let stats = bare.typed(StoreOp::stats()).await;
    stats.expect("counts").ready
}

/// As builds read and write the counts that know of no notes.
const OLDER: &str = "\
    local all, more = redis.call('HGET', KEYS[1], 'counts'), {0, 0, 0, 0} \
    local now, leased, surplus, entry, past = struct.unpack('>ddddd', all) \
    if #all > 40 then more = {struct.unpack('>dddd', all, 41)} end \
    local its = struct.pack('>ddddd', now, leased, surplus, entry + 1, past) \
    if more[2] + more[3] + more[4] > 0 then \
      its = its .. struct.pack('>dddd', more[1], more[2], more[3], more[4]) end \
    redis.call('HSET', KEYS[1], 'counts', its) \
    return surplus .. ' ' .. #all";

#[tokio::test]
async fn a_build_without_notes_reads_and_writes_the_counts_of_a_call_that_failed() {
    let server = loaded().await;
    let mut noted = 0;
    for writes in 0..6 {
        let (url, prefix) = fresh(&server.url());
        let bare = Bare::open(&url).await;
        for _ in 0..3 {
            bare.push_with(|_| {}).await;
        }
        let id = bare.new_id();
        bare.push(id, AHEAD).await.expect("a push");
        let when = When::Now;
        fail_after(&server, writes);
        let _ = bare.apply(StoreOp::Reschedule { id, when }).await; // it may have failed
        has_failed(&server);
        let meta = format!("{prefix}:{{letters:0}}:meta");
        let read = server.cli(&["EVAL", OLDER, "1", &meta]);
        let (surplus, len) = read.trim().split_once(' ').expect(&read);
        assert_eq!(surplus, "0", "after {writes} writes");
        noted += usize::from(len.parse::<usize>().expect("a length") > 72);
        let reaped = bare
            .apply(StoreOp::Reap {
                silent: Vec::new(),
                limit: 9,
            })
            .await;
        assert!(reaped.is_ok(), "after {writes} writes: {reaped:?}");
        let ready = ready(&bare).await;
        let fetched = bare.fetch(1, 10).await.expect("a fetch");
        assert_eq!(ready, fetched.len(), "after {writes} writes");
    }
    assert!(noted > 1, "no call has left a note");
}

/// The second one may fail before it has a note of its own; one that takes the page of the first apart takes
/// away what that one has noted.
#[tokio::test]
async fn what_is_ready_is_counted_after_two_calls_that_failed() {
    let server = loaded().await;
    for (cancels, first, second) in [(false, 0..9, 0..9), (true, 4..8, 0..5)] {
        for (first, second) in first.flat_map(|it| second.clone().map(move |also| (it, also))) {
            let what = format!("cancels: {cancels}, after {first} and {second} writes");
            let bare = unrepeated(&fresh(&server.url()).0, RedisOptions::new()).await;
            let run = bare.new_run(4);
            let events = run.iter().map(|id| bare.plain(*id, When::Now));
            fail_after(&server, first);
            let _ = bare.apply(StoreOp::Push(events.collect())).await; // it may have failed
            fail_after(&server, second);
            if cancels {
                let _ = bare.typed(StoreOp::cancel(run[1])).await; // so may this one
            } else {
                let _ = bare.fetch(1, 3).await;
            }
            has_failed(&server);
            is_exact(&bare, 2, &what).await;
        }
    }
}

/// A reschedule that failed has left it in the delay set; the one that is scheduled comes first there.
#[tokio::test]
async fn a_fetch_notes_an_event_that_was_ready_and_not_one_beside_it() {
    let server = loaded().await;
    for left in 0..5 {
        for writes in 0..9 {
            let bare = Bare::open(&fresh(&server.url()).0).await;
            let id = bare.push_with(|_| {}).await;
            let other = bare.push_with(|_| {}).await;
            let when = When::After(AHEAD / 2);
            fail_after(&server, left);
            let _ = bare.apply(StoreOp::Reschedule { id, when }).await; // it may have failed
            has_failed(&server);
            let next = bare.push_with(|_| {}).await; // its state says that it is scheduled
            let sooner = StoreOp::Reschedule {
                id: next,
                when: When::After(AHEAD / 4),
            };
            bare.apply(sooner).await.expect("a change");
            let fetch = |request, limit, ahead| Fetch {
                node: NODE,
                request,
                limit,
                ahead,
                ahead_limit: 5,
                hold: None,
                starts: usize::MAX,
            };
            fail_after(&server, writes);
            let _ = bare.typed(StoreOp::fetch(fetch(1, 0, AHEAD))).await; // it may have failed
            has_failed(&server);
            let what = format!("{other}: after {left} and {writes} writes");
            let ready = ready(&bare).await;
            let none = Duration::ZERO;
            let fetched = bare.typed(StoreOp::fetch(fetch(2, 9, none))).await;
            assert_eq!(ready, fetched.expect("a fetch").deliveries.len(), "{what}");
        }
    }
}

/// Makes this the number of the next call's entries in the ready list.
fn count_entries(server: &Redis, prefix: &str, next: u64) {
    const SET: &str = "\
        local all = redis.call('HGET', KEYS[1], 'counts') \
        local entry = struct.pack('>d', ARGV[1] - 1) \
        redis.call('HSET', KEYS[1], 'counts', all:sub(1, 24) .. entry .. all:sub(33))";
    let meta = format!("{prefix}:{{letters:0}}:meta");
    server.cli(&["EVAL", SET, "1", &meta, &next.to_string()]);
}

/// Asserts that as many are counted as ready as a fetch brings.
async fn is_exact(bare: &Bare, request: u64, what: &str) {
    let ready = ready(bare).await;
    let fetched = bare.fetch(request, 1_000).await.expect("a fetch");
    assert_eq!(ready, fetched.len(), "{what}");
}

/// The number is elsewhere in the state as well: as the request of the lease.
#[tokio::test]
async fn a_lease_of_a_request_with_the_number_of_a_call_that_failed_is_no_entry_of_it() {
    const REQUEST: u64 = 1_000;
    let server = loaded().await;
    for writes in 0..9 {
        let (url, prefix) = fresh(&server.url());
        let bare = Bare::open(&url).await;
        for _ in 0..3 {
            bare.push_with(|_| {}).await;
        }
        let held = bare.fetch(REQUEST, 1).await.expect("a fetch");
        count_entries(&server, &prefix, REQUEST);
        let release = Settlement {
            id: held[0],
            request: REQUEST,
            verdict: AttemptOutcome::Release,
            started_us: 0,
            fetched_us: 1,
        };
        fail_after(&server, writes);
        let settle = StoreOp::settle(NODE, vec![release], StartMark::default());
        let _ = bare.typed(settle).await; // it may have failed
        has_failed(&server);
        is_exact(&bare, REQUEST + 1, &format!("after {writes} writes")).await;
    }
}

/// A page that begins with a part that is scheduled has the letter of that behind zeros, as a number is.
#[tokio::test]
async fn how_a_page_begins_is_no_number_of_an_entry() {
    let server = loaded().await;
    for writes in 0..9 {
        let (url, prefix) = fresh(&server.url());
        let bare = unrepeated(&url, RedisOptions::new()).await;
        let run = bare.new_run(20);
        let push = |some: &[_], when| {
            let events = some.iter().map(|id| bare.plain(*id, when));
            bare.apply(StoreOp::Push(events.collect()))
        };
        let later = push(&run[..10], When::After(AHEAD)).await;
        later.expect("a push");
        count_entries(&server, &prefix, b'S'.into());
        fail_after(&server, writes);
        let _ = push(&run[10..], When::Now).await; // it may have failed
        has_failed(&server);
        is_exact(&bare, 1, &format!("after {writes} writes")).await;
    }
}

/// The events between those of a page are written before what follows them.
#[tokio::test]
async fn a_page_that_one_push_changes_twice_is_noted_by_what_it_changes() {
    let server = loaded().await;
    for writes in 0..16 {
        let bare = unrepeated(&fresh(&server.url()).0, RedisOptions::new()).await;
        let run = bare.new_run(20);
        let mut events: Vec<_> = run.iter().map(|id| bare.plain(*id, When::Now)).collect();
        let mut between = bare.plain(bare.new_id(), When::Now);
        Arc::make_mut(&mut between.envelope).unique = Some("between".to_owned());
        events.insert(10, between);
        fail_after(&server, writes);
        let _ = bare.apply(StoreOp::Push(events)).await; // it may have failed
        has_failed(&server);
        is_exact(&bare, 1, &format!("after {writes} writes")).await;
    }
}

/// A reschedule that failed has left it in the delay set, where each fetch meets it.
#[tokio::test]
async fn what_only_a_newer_duly_reads_is_counted_once_in_two_places() {
    let server = loaded().await;
    for writes in 0..6 {
        let (url, prefix) = fresh(&server.url());
        let bare = Bare::open(&url).await;
        bare.push_with(|_| {}).await;
        let id = bare.new_id();
        bare.push(id, AHEAD).await.expect("a push");
        let second = second_byte(&server, &prefix, id);
        let when = When::Now;
        fail_after(&server, writes);
        let _ = bare.apply(StoreOp::Reschedule { id, when }).await; // it may have failed
        has_failed(&server);
        change_form(&server, &prefix, id, 15, 2);
        for request in 1..4 {
            let fetch = Fetch {
                node: NODE,
                request,
                limit: 0,
                ahead: 2 * AHEAD,
                ahead_limit: 5,
                hold: None,
                starts: usize::MAX,
            };
            let fetched = bare.typed(StoreOp::fetch(fetch)).await;
            assert_eq!(fetched.expect("a fetch").deliveries.len(), 0);
        }
        change_form(&server, &prefix, id, 1, second);
        is_exact(&bare, 4, &format!("after {writes} writes")).await;
    }
}

/// Somebody has put a text in its place since.
#[tokio::test]
async fn what_needs_no_ready_list_goes_on_where_that_cannot_be_counted_after_a_call_that_failed() {
    let server = loaded().await;
    for writes in 0..6 {
        let (url, prefix) = fresh(&server.url());
        let bare = Bare::open(&url).await;
        bare.push_with(|_| {}).await;
        bare.fetch(1, 1).await.expect("a fetch");
        bare.push_with(|_| {}).await;
        let id = bare.new_id();
        bare.push(id, AHEAD).await.expect("a push");
        let when = When::Now;
        fail_after(&server, writes);
        let _ = bare.apply(StoreOp::Reschedule { id, when }).await; // it may have failed
        has_failed(&server);
        let [ready, aside] = ["ready", "aside"].map(|it| format!("{prefix}:{{letters:0}}:{it}"));
        server.cli(&["RENAME", &ready, &aside]);
        server.cli(&["SET", &ready, "a text"]);
        let holds = Holding { leases: 1, last: 1 };
        let beat = StoreOp::heartbeat(NODE, holds, StartMark::default());
        let beat = bare.typed(beat).await;
        assert!(beat.is_ok_and(|it| it.stands), "after {writes} writes");
        server.cli(&["RENAME", &aside, &ready]);
        let reap = StoreOp::reap(Vec::new(), 9);
        bare.typed(reap).await.expect("a reap");
        is_exact(&bare, 2, &format!("after {writes} writes")).await;
    }
}

#[tokio::test]
async fn a_reap_counts_a_short_ready_list_anew() {
    const WRONG: &str = "\
        local all = redis.call('HGET', KEYS[1], 'counts') \
        redis.call('HSET', KEYS[1], 'counts', all:sub(1, 16) .. struct.pack('>d', 2) .. all:sub(25))";
    let server = Redis::plain();
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    for _ in 0..3 {
        bare.push_with(|_| {}).await;
    }
    let meta = format!("{prefix}:{{letters:0}}:meta");
    server.cli(&["EVAL", WRONG, "1", &meta]);
    assert_eq!(ready(&bare).await, 1);
    let reap = StoreOp::Reap {
        silent: Vec::new(),
        limit: 9,
    };
    bare.apply(reap).await.expect("a reap");
    assert_eq!(ready(&bare).await, 3);
}
