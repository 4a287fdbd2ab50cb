//! Bytes that were changed, and keys that were deleted, by somebody else.

use std::time::Duration;

use duly::event::Payload;
use duly::prelude::*;
use duly::records::Cause;
use duly::store::Store;

use crate::redis_store::kit::{Bare, ID, Read, fresh, hex, pusher, stop, until};
use crate::seen::Seen;
use crate::servers::{Fault, Proxy, Redis, RedisOptions, shared};

/// Flips bits of one byte of a body, counted from 0.
pub(crate) fn flip(server: &Redis, prefix: &str, id: EventId, at: usize, bits: u8) {
    let script = format!(
        "{ID} local body = redis.call('HGET', KEYS[1], id) \
         local at = tonumber(ARGV[2]) \
         local byte = bit.bxor(body:byte(at + 1), tonumber(ARGV[3])) \
         return redis.call('HSET', KEYS[1], id, \
         body:sub(1, at) .. string.char(byte) .. body:sub(at + 2))"
    );
    let key = format!("{prefix}:{{letters:0}}:body");
    let words = [
        &script,
        "1",
        &key,
        &hex(id),
        &at.to_string(),
        &bits.to_string(),
    ];
    assert_eq!(server.cli(&[&["EVAL"], &words[..]].concat()), "0");
}

/// Deletes an event's member or field of a key.
fn delete(server: &Redis, command: &str, key: &str, id: EventId) {
    let script = format!("{ID} return redis.call('{command}', KEYS[1], id)");
    let deleted = server.cli(&["EVAL", &script, "1", key, &hex(id)]);
    assert_eq!(deleted, "1", "{command} {key}");
}

/// Each bit of the first byte, and one of every other byte of a body.
fn places() -> Vec<(usize, u8)> {
    let body_len = 12 + "\"a letter\"".len();
    let first = (0..8).map(|bit| (0, 1 << bit));
    first
        .chain((1..body_len).map(|at| (at, 1 << (at % 8))))
        .collect()
}

/// Damage is no failed call: the others are delivered. It counts as one, so that somebody looks.
#[tokio::test]
async fn damage_that_a_fetch_meets_is_counted() {
    let (told, _guard) = Seen::recording();
    let server = shared();
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let (damaged, whole) = (bare.new_id(), bare.new_id());
    for id in [damaged, whole] {
        bare.push(id, When::Now).await.unwrap();
    }
    flip(server, &prefix, damaged, 12, 1);
    assert_eq!(bare.fetch(1, 9).await.unwrap(), [whole]);
    let name = "duly_store_errors_total{kind=corrupt,op=fetch}";
    assert_eq!(told.value(name), 1.0);
}

/// Nobody has the others of its batch, so the fetch must be repeated.
#[tokio::test]
async fn a_fetch_that_could_not_bury_what_is_damaged_may_have_leased() {
    let server = Redis::start(RedisOptions {
        tcp: true,
        ..RedisOptions::default()
    });
    let proxy = Proxy::before(server.address());
    let (url, prefix) = fresh(&proxy.url());
    let bare = Bare::open(&url).await;
    let (damaged, whole) = (bare.new_id(), bare.new_id());
    bare.fetch(1, 9).await.expect("a fetch"); // the server knows the script from now on
    for id in [damaged, whole] {
        bare.push(id, When::Now).await.expect("a push");
    }
    flip(&server, &prefix, damaged, 12, 1);
    let mut calls = 0;
    proxy.on_request(move |piece| {
        let is_script = [&b"EVALSHA"[..], b"FCALL"].iter().any(|word| {
            let mut parts = piece.windows(word.len());
            parts.any(|part| part == *word)
        });
        calls += u32::from(is_script);
        let loading = "-LOADING Redis is loading the dataset in memory\r\n";
        (is_script && calls > 1).then_some(Fault::Say(loading))
    });
    let error = bare.fetch(2, 9).await.expect_err("it cannot bury");
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    proxy.heal();
    assert_eq!(bare.fetch(2, 9).await.expect("a fetch"), [whole]);
}

#[tokio::test]
async fn a_damaged_body_is_a_dead_letter_and_the_others_of_its_batch_are_delivered() {
    let server = shared();
    for delay in [Duration::ZERO, Duration::from_millis(1)] {
        let (url, prefix) = fresh(&server.url());
        let (bus, queue) = pusher(&url).await;
        let (mut damaged, mut others) = (Vec::new(), Vec::new());
        for (at, bits) in places() {
            let push = || queue.push("a letter".to_owned(), delay);
            others.push(push().await.unwrap().id());
            let id = push().await.unwrap().id();
            flip(server, &prefix, id, at, bits);
            damaged.push((id, at, bits));
        }
        let (read, worker) = Read::start(&url).await;
        until("all have ended", async || {
            let dead = bus.stats("letters").await.unwrap().dead;
            dead == damaged.len() && read.seen().len() >= others.len()
        })
        .await;
        stop(&worker).await;
        assert!(read.seen().into_keys().eq(others.iter().copied()));
        for (id, at, bits) in damaged {
            let page = bus.records().id(id).page().await.unwrap();
            let [record] = &page.items[..] else {
                panic!("byte {at}, bits {bits}: {:?}", page.items);
            };
            assert_eq!(record.outcome, Outcome::Buried);
            assert_eq!(record.cause, Some(Cause::Undecodable));
            let words = record.error.as_deref().unwrap_or_default();
            assert!(
                ["damaged", "truncated"]
                    .iter()
                    .any(|word| words.contains(word)),
                "{words}"
            );
        }
        stop(&bus).await;
    }
}

/// Pushes five delayed and five that are due, has one thing deleted, and answers what the audit
/// says; all others are handled.
async fn without(command: &str, part: &str, delayed: bool) -> (EventId, Vec<String>) {
    let server = shared();
    let (url, prefix) = fresh(&server.url());
    let (bus, queue) = pusher(&url).await;
    let mut ids = Vec::new();
    for number in 0..10 {
        let delay = Duration::from_millis(if number < 5 { 1_500 } else { 0 });
        ids.push(queue.push("a".to_owned(), delay).await.unwrap().id());
    }
    let gone = ids[if delayed { 2 } else { 7 }];
    let bare = Bare::open(&url).await;
    assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0]);
    delete(
        server,
        command,
        &format!("{prefix}:{{letters:0}}:{part}"),
        gone,
    );
    let wrong = bare.store.audit_whole().await.unwrap();
    let (read, worker) = Read::start(&url).await;
    let others: Vec<_> = ids.into_iter().filter(|id| *id != gone).collect();
    until("the others are handled", async || {
        others.iter().all(|id| read.seen().contains_key(id))
    })
    .await;
    stop(&worker).await;
    let others_once = others.iter().all(|id| read.seen()[id] == 1);
    assert!(others_once && !read.seen().contains_key(&gone));
    stop(&bus).await;
    (gone, wrong)
}

#[tokio::test]
async fn what_was_deleted_by_hand_is_named_by_the_audit_and_harms_nothing_else() {
    let (one, two, three, four) = tokio::join!(
        without("HDEL", "body", true),
        without("HDEL", "body", false),
        without("ZREM", "delay", true),
        without("HDEL", "state", false),
    );
    for ((id, wrong), words) in [
        (one, "has no body"),
        (two, "has no body"),
        (three, "has a body and is nowhere"),
        (four, "has a body and is nowhere"),
    ] {
        let names = |line: &&String| line.contains(&id.to_string()) && line.contains(words);
        assert!(wrong.iter().any(|line| names(&line)), "{words}: {wrong:?}");
    }
}

#[tokio::test]
async fn the_record_of_a_damaged_body_tells_nothing_of_it() {
    let server = shared();
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let extras = 12 + 4..12 + 4 + 3 + 2 + "order".len() + 1 + 2 + 11 + 2 + 55 + 16;
    let mut ids = Vec::new();
    // The flags of what is told, the key's text, the headers, the trace and the payload.
    let told = [(0, 4), (0, 8)].into_iter();
    for (at, bits) in told.chain((extras.start + 5..extras.end + 8).map(|at| (at, 0x80))) {
        let id = bare
            .push_with(|event| {
                let trace = "00-0102030405060708090a0b0c0d0e0f10-00f067aa0ba902b7-01";
                event.headers = vec![("traceparent".to_owned(), trace.to_owned())];
                event.key = Some("order".to_owned());
                event.payload = Payload::from(&b"\"secret\""[..]);
                event.keeps_payload = true;
            })
            .await;
        flip(server, &prefix, id, at, bits);
        ids.push((id, at));
    }
    assert_eq!(bare.fetch(1, 1_000).await.unwrap(), [], "none is delivered");
    let page = bare
        .store
        .read_outbox(&bare.outbox(), 0, 1_000)
        .await
        .unwrap();
    assert_eq!((page.damaged, page.records.len()), (0, ids.len()));
    for ((id, at), (_, record)) in ids.into_iter().zip(&page.records) {
        assert_eq!((record.id, record.outcome), (id, Outcome::Buried), "{at}");
        assert_eq!(record.cause, Some(Cause::Undecodable));
        assert_eq!(
            (&record.key, &record.trace, &record.payload),
            (&None, &None, &None)
        );
    }
}
