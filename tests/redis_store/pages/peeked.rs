//! Pages of a pass over a bucket in which events share pages of their own.

use std::collections::BTreeSet;
use std::time::Duration;

use duly::EventId;
use duly::store::operation::{PeekBy, PeekCursor, StoreOp};
use duly::time::When;

use super::Paged;
use crate::redis_store::kit::{Bare, fresh};
use crate::servers::shared;

/// Adds the next page of a pass to what it has seen; returns where it goes on.
async fn see(
    bare: &Bare,
    from: Option<PeekCursor>,
    limit: usize,
    seen: &mut BTreeSet<EventId>,
) -> Option<PeekCursor> {
    let peek = StoreOp::peek(PeekBy::All, from, limit);
    let page = bare.typed(peek).await.expect("a page");
    seen.extend(page.events.iter().map(|event| event.id));
    page.next
}

/// What leaves its page lies somewhere else from then on.
#[tokio::test]
async fn a_pass_sees_what_leaves_its_page_meanwhile() {
    const LIMIT: usize = 64;
    const PAGES: usize = 15;
    let later = When::After(Duration::from_secs(3_600));
    for (when, half) in [(later, PAGES / 2), (When::Now, PAGES / 2), (later, 0)] {
        let paged = Paged::due(64 * PAGES, when).await;
        let (bare, ids) = (&paged.bare, &paged.ids);
        let (mut seen, mut ended) = (BTreeSet::new(), BTreeSet::new());
        let mut from = see(bare, None, LIMIT, &mut seen).await;
        while seen.len() < 64 * half {
            from = see(bare, from, LIMIT, &mut seen).await;
        }
        assert!(from.is_some() && seen.len() < ids.len(), "it is on its way");
        for page in ids.chunks(64).filter(|page| !seen.contains(&page[0])) {
            let id = page[7];
            bare.apply(StoreOp::Cancel { id }).await.expect("a cancel");
            ended.insert(id);
        }
        if matches!(when, When::Now) {
            let fetched = bare.fetch(1, 100).await.expect("a fetch");
            assert_eq!(fetched.len(), 100);
        }
        while from.is_some() {
            from = see(bare, from, LIMIT, &mut seen).await;
        }
        let all: BTreeSet<_> = ids.iter().copied().collect();
        let missed: Vec<_> = all
            .difference(&ended)
            .filter(|id| !seen.contains(id))
            .collect();
        assert!(
            missed.is_empty(),
            "{} of {} events",
            missed.len(),
            ids.len()
        );
    }
}

/// Their bodies lie in a small hash, and ids of one push differ in the last byte alone.
#[tokio::test]
async fn a_pass_sees_each_of_a_few_events_that_are_alone_once_and_in_order() {
    let later = When::After(Duration::from_secs(3_600));
    for (count, limit) in [(40, 10), (64, 1), (200, 33)] {
        let bare = Bare::open(&fresh(&shared().url()).0).await;
        let ids = bare.new_run(count);
        for id in ids.iter().rev() {
            bare.push(*id, later).await.expect("a push");
        }
        let (mut from, mut seen) = (None, Vec::new());
        loop {
            let peek = StoreOp::peek(PeekBy::All, from, limit);
            let page = bare.typed(peek).await.expect("a page");
            seen.extend(page.events.iter().map(|event| event.id));
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        assert_eq!(seen, ids, "in pages of {limit}");
    }
}

/// Pages are looked for among the states of all events, a bounded number at a time.
#[tokio::test]
async fn a_pass_sees_a_page_among_many_events_that_are_alone() {
    let paged = Paged::with(64).await;
    let bare = &paged.bare;
    let alone: Vec<_> = (0..12_000).map(|_| bare.new_id()).collect();
    for some in alone.chunks(1_000) {
        let events = some.iter().map(|id| bare.plain(*id, When::Now)).collect();
        bare.apply(StoreOp::Push(events)).await.expect("a push");
    }
    let (mut from, mut seen, mut calls) = (None, BTreeSet::new(), 0);
    loop {
        from = see(bare, from, 1_000, &mut seen).await;
        calls += 1;
        if from.is_none() {
            break;
        }
    }
    let all: BTreeSet<_> = paged.ids.iter().chain(&alone).copied().collect();
    assert_eq!(seen.len(), all.len());
    assert_eq!(seen, all);
    assert!((12..=40).contains(&calls), "{calls} calls");
}

/// As many entries of the ready list stand for no event as there are events beyond one for each.
#[tokio::test]
async fn a_page_of_a_pass_is_small_though_counts_hide_that_events_share_entries() {
    const LIMIT: usize = 10;
    const PAGES: usize = 10;
    let paged = Paged::with(64 * PAGES).await;
    let bare = &paged.bare;
    let stale = "for _ = 1, ARGV[1] do redis.call('RPUSH', KEYS[1], string.rep('\\0', 24)) end \
                 local counts = redis.call('HGET', KEYS[2], 'counts') \
                 local surplus = struct.unpack('>d', counts, 17) + ARGV[1] \
                 counts = counts:sub(1, 16) .. struct.pack('>d', surplus) .. counts:sub(25) \
                 return redis.call('HSET', KEYS[2], 'counts', counts)";
    let keys = ["ready", "meta"].map(|part| format!("{}{part}", paged.base));
    let count = (63 * PAGES).to_string();
    let words = ["EVAL", stale, "2", &keys[0], &keys[1], &count];
    paged.server.cli(&words);
    assert_eq!(paged.entries(), 64 * PAGES);
    paged.is_sound().await;

    let (mut from, mut seen) = (None, Vec::new());
    loop {
        let peek = StoreOp::peek(PeekBy::All, from, LIMIT);
        let page = bare.typed(peek).await.expect("a page");
        let most = 64 * PAGES / 2;
        assert!(page.events.len() <= most, "{} events", page.events.len());
        seen.extend(page.events.iter().map(|event| event.id));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    seen.sort_unstable();
    seen.dedup();
    let mut ids = paged.ids.clone();
    ids.sort_unstable();
    assert_eq!(seen, ids);
}
