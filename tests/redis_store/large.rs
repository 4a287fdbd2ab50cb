//! Events of a mebibyte: a batch of them is as many bytes as keep a server busy for seconds.

use std::sync::Arc;
use std::time::Duration;

use duly::config::QueueChoices;
use duly::event::Payload;
use duly::prelude::*;
use duly::store::operation::{NewEvent, PushOutcome, Reply, StoreOp};
use duly::store::{Durability, Store};
use duly::time::{Timestamp, When};

use crate::redis_store::durable::with_replica;
use crate::redis_store::kit::{Bare, Read, builder, fresh, stop, until};
use crate::servers::Redis;

/// As many as one fetch asks for, and some.
const MANY: usize = 600;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_large_events_are_handled_and_keep_nobody_from_pushing() {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let text = format!("\"{}\"", "x".repeat((1 << 20) - 64));
    let payload = Payload::from(text.into_bytes());
    for _ in 0..MANY {
        bare.push_with(|event| event.payload = payload.clone())
            .await;
    }
    let choices = QueueChoices {
        buckets: Some(1),
        ..QueueChoices::default()
    };
    let other = builder(&url).publish_only().queue("others", choices);
    let other = other.start().await.expect("a start");
    let others: Queue<u64> = other.queue_named("others").expect("a legal name");

    let (read, bus) = Read::start(&url).await;
    let mut pushed = 0;
    until("all are handled", async || {
        let pushes = others.push(pushed, Duration::from_secs(60)).await;
        pushes.expect("a push to another queue goes on meanwhile");
        pushed += 1;
        read.seen().len() == MANY
    })
    .await;
    assert!(read.seen().values().all(|times| *times == 1), "once each");
    for bus in [bus, other] {
        stop(&bus).await;
    }
}

/// Calls of scripts.
fn calls(server: &Redis) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let of = |name| {
        let line = stats.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split(',').next()?.parse::<u64>().ok())
    };
    let names = [
        "cmdstat_evalsha:calls=",
        "cmdstat_eval:calls=",
        "cmdstat_fcall:calls=",
    ];
    names.into_iter().filter_map(of).sum()
}

/// What a push of small events has to read of large ones: those that have their ids, and those that
/// had their unique keys until they expired.
#[tokio::test]
async fn a_push_that_reads_large_events_takes_several_calls_and_decides_each_once() {
    const LARGE: usize = 20;
    let (server, _replica) = with_replica().await;
    let later = When::After(Duration::from_hours(1));
    for (when, by_id) in [
        (When::Now, true),
        (later, true),
        (When::Now, false),
        (later, false),
    ] {
        for wanted in [None, Some(Durability::Replicated(1))] {
            let bare = Bare::open(&fresh(&server.url()).0).await;
            let event = |number: usize, bytes: usize| {
                let mut event = bare.plain(bare.new_id(), when);
                let envelope = Arc::make_mut(&mut event.envelope);
                envelope.payload = Payload::from(vec![b'x'; bytes]);
                envelope.unique = (!by_id).then(|| format!("unique {number}"));
                event
            };
            let mut small: Vec<NewEvent> = Vec::new();
            for number in 0..LARGE {
                let mut large = event(number, 1 << 20);
                let envelope = Arc::make_mut(&mut large.envelope);
                envelope.expires = (!by_id).then(|| Timestamp::from_millis(1));
                let mut again = event(number, 1);
                if by_id {
                    Arc::make_mut(&mut again.envelope).id = envelope.id;
                }
                small.extend([again, event(LARGE + number, 1)]);
                bare.apply(StoreOp::Push(vec![large]))
                    .await
                    .expect("a push");
            }
            let before = calls(&server);
            let pushed = match wanted {
                None => bare.apply(StoreOp::Push(small)).await,
                Some(wanted) => {
                    let pushed = bare.store.push_durably(&bare.bucket, small, wanted).await;
                    pushed.map(|it| it.reply)
                }
            };
            let Ok(Reply::Pushed(pushed)) = pushed else {
                panic!("{pushed:?}");
            };
            let calls = calls(&server) - before;
            let what = format!("{when:?}, by id: {by_id}, {wanted:?}");
            let known = [PushOutcome::Accepted, PushOutcome::Conflict][usize::from(by_id)];
            let verdicts: Vec<_> = pushed.iter().map(|it| it.verdict).collect();
            assert_eq!(
                verdicts,
                [known, PushOutcome::Accepted].repeat(LARGE),
                "{what}"
            );
            let stats = bare.typed(StoreOp::stats()).await.expect("counts");
            assert_eq!(stats.ready + stats.scheduled, 2 * LARGE, "{what}");
            assert!((5..=10).contains(&calls), "{calls} calls, {what}");
        }
    }
}
