//! A pass through everything that waits, page by page.

use std::collections::BTreeSet;
use std::time::Duration;

use duly::prelude::*;
use duly::store::operation::{PeekBy, PeekCursor, PeekPage, Snapshot, StoreOp};

use crate::redis_store::kit::{Bare, fresh, hex, stop, until};
use crate::servers::{Aof, Redis, RedisOptions, shared};

const PAGE: usize = 100;

/// A bucket in which so many events wait for an hour; its ids.
async fn waiting(url: &str, events: usize) -> (Bare, BTreeSet<EventId>) {
    let (bus, queue) = crate::redis_store::kit::pusher(url).await;
    let mut ids = BTreeSet::new();
    for from in (0..events).step_by(1_000) {
        let letters = (from..events.min(from + 1_000)).map(|number| format!("letter {number}"));
        let pushed = queue.push_many(letters, Duration::from_secs(3_600)).await;
        ids.extend(pushed.unwrap().iter().map(duly::Receipt::id));
    }
    stop(&bus).await;
    (Bare::open(url).await, ids)
}

async fn page(bare: &Bare, from: Option<PeekCursor>) -> (Vec<Snapshot>, Option<PeekCursor>) {
    let (by, limit) = (PeekBy::All, PAGE);
    let page = bare.typed(StoreOp::peek(by, from, limit)).await;
    let PeekPage { events, next } = page.expect("a page");
    (events, next)
}

/// How many commands the server has run, those that scripts call included.
fn commands(server: &Redis) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let calls = stats.split("calls=").skip(1);
    let calls = calls.filter_map(|rest| rest.split(',').next()?.parse::<u64>().ok());
    calls.sum()
}

#[tokio::test]
async fn a_pass_goes_on_over_a_restart_of_its_server_and_misses_nothing() {
    let mut server = Redis::start(RedisOptions {
        aof: Aof::Always,
        ..RedisOptions::default()
    });
    let (bare, ids) = waiting(&server.url(), 2_000).await;
    let (mut from, mut seen) = (None, BTreeSet::new());
    for number in 0.. {
        let (events, next) = page(&bare, from).await;
        seen.extend(events.into_iter().map(|event| event.id));
        from = next;
        if from.is_none() {
            break;
        }
        if number == 9 {
            assert!(seen.len() < ids.len(), "it is on its way");
            server.restart();
            until("the store has noticed", async || {
                bare.apply(StoreOp::Stats).await.is_ok()
            })
            .await;
        }
    }
    assert_eq!(ids.difference(&seen).count(), 0);
}

#[tokio::test]
async fn a_page_is_no_more_work_of_many_events_than_of_few() {
    let server = Redis::plain();
    for events in [2_000, 20_000] {
        let (url, _) = fresh(&server.url());
        let (bare, ids) = waiting(&url, events).await;
        assert_eq!(ids.len(), events);
        let before = commands(&server);
        let (first, from) = page(&bare, None).await;
        let (second, _) = page(&bare, from).await;
        let work = commands(&server) - before;
        // Two calls of a script with a bounded number of questions each, and what a store asks by the
        // way; some are of empty places of a table.
        assert!(
            work <= 60,
            "{work} commands for two pages of {events} events"
        );
        for events in [first, second] {
            assert!((PAGE..4 * PAGE).contains(&events.len()), "{}", events.len());
        }
    }
}

#[tokio::test]
async fn a_damaged_body_is_told_and_the_others_are_read() {
    let server = shared();
    let (url, prefix) = fresh(&server.url());
    let (bus, queue) = crate::redis_store::kit::pusher(&url).await;
    let mut ids = BTreeSet::new();
    for number in 0..300 {
        let letter = format!("letter {number}");
        let sent = queue.push(letter, Duration::from_secs(3_600)).await;
        ids.insert(sent.unwrap().id());
    }
    stop(&bus).await;
    let bare = Bare::open(&url).await;
    let damaged = *ids.iter().nth(150).expect("there are more");
    let key = format!("{prefix}:{{letters:0}}:body");
    let script = format!(
        "{} return redis.call('HSET', KEYS[1], id, 'nothing of ours')",
        crate::redis_store::kit::ID
    );
    server.cli(&["EVAL", &script, "1", &key, &hex(damaged)]);
    let (mut from, mut seen) = (None, BTreeSet::new());
    loop {
        let (events, next) = page(&bare, from).await;
        for event in events {
            assert_eq!(event.body.is_none(), event.id == damaged);
            seen.insert(event.id);
        }
        from = next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(seen, ids);
    let (bus, _) = crate::redis_store::kit::pusher(&url).await;
    let counts = bus.reencrypt("letters").count().await.unwrap();
    assert_eq!((counts.plain, counts.malformed), (299, 1));
    stop(&bus).await;
}
