//! How long a script keeps its server, however many events there are and whatever they weigh.
//!
//! A server does nothing else while a script runs, so none may take much longer than a script that
//! moves as many bytes as one call may carry.
//!
//! `DULY_BUSY_EVENTS` takes more small events than 20,000, and as many large ones as have that many
//! KiB together; 1,000,000 take a GiB of memory.

#![allow(clippy::print_stdout)] // figures that are not printed show nothing

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use duly::Unique;
use duly::event::{Envelope, Payload, TRACE_HEADER};
use duly::prelude::*;
use duly::records::{Cause, NodeId};
use duly::store::operation::{
    AttemptOutcome, BATCH_BYTES, BATCH_MAX, DeadPage, FailureReason, Fetch, FetchReport, Holding,
    NewEvent, PeekBy, PeekPage, Reply, Rewriting, Settlement, StartMark, StoreOp,
};
use duly::store::{Outbox, Store};
use duly::time::When;

use crate::redis_store::busy_more::more_scripts;
use crate::redis_store::kit::{Bare, NODE, fresh};
use crate::redis_store::meter::Meter;
use crate::servers::Redis;

/// How many times longer than the script of known work another may take.
const TIMES_MAX: f64 = 4.0;
/// What every script may take, in µs: the known work is so fast on some machines that the fixed cost
/// of a thousand events is more.
const FREE_US: f64 = 20_000.0;

/// So many pushes with unique keys meet in one call, see `src/store/redis/op/push.rs`.
pub(crate) const MET_MAX: usize = 256;

/// Events with everything that makes work: a unique key, a trace, a payload that records keep.
pub(crate) fn event(bare: &Bare, bytes: usize, number: usize, when: When) -> NewEvent {
    let id = bare.new_id();
    let payload = Payload::from(vec![b'x'; bytes]);
    let trace = "00-0102030405060708090a0b0c0d0e0f10-00f067aa0ba902b7-01";
    let envelope = Envelope {
        attempts: 2,
        key: Some(format!("key {number}")),
        unique: Some(format!("unique {number}")),
        headers: vec![(TRACE_HEADER.to_owned(), trace.to_owned())],
        keeps_payload: true,
        ..Envelope::new(id, bare.bucket.queue.clone(), payload)
    };
    NewEvent {
        envelope: Arc::new(envelope),
        when,
        on_taken: Unique::Keep,
    }
}

fn settlements(fetched: &[(EventId, u64)], verdict: &AttemptOutcome) -> Vec<Settlement> {
    let of = |(id, request): &(EventId, u64)| Settlement {
        id: *id,
        request: *request,
        verdict: verdict.clone(),
        started_us: 1,
        fetched_us: 1,
    };
    fetched.iter().map(of).collect()
}

/// Fetches what is ready.
pub(crate) fn fetch_of(node: NodeId, request: u64) -> StoreOp {
    StoreOp::Fetch(Fetch {
        node,
        request,
        limit: BATCH_MAX,
        ahead: Duration::ZERO,
        ahead_limit: 0,
        hold: None,
        starts: usize::MAX,
    })
}

/// Every operation, with the most that it takes, over so many events of so many bytes.
async fn every_script(meter: &mut Meter<'_>, bare: &Bare, events: usize, bytes: usize) {
    let at_once = (BATCH_BYTES / bytes.max(1)).clamp(1, MET_MAX);
    let mut ids = Vec::new();
    for from in (0..events).step_by(at_once) {
        let many = from..events.min(from + at_once);
        let when = |number: usize| match number % 4 {
            0 => When::After(Duration::from_millis(1)),
            1 => When::After(Duration::from_secs(3_600)),
            _ => When::Now,
        };
        let batch: Vec<_> = many.map(|it| event(bare, bytes, it, when(it))).collect();
        ids.extend(batch.iter().map(|event| event.envelope.id));
        meter.step(bare.apply(StoreOp::Push(batch))).await.unwrap();
    }
    // The same ids again, with small payloads and nothing else, so that a thousand meet in one call.
    for some in ids.chunks(BATCH_MAX).take(3) {
        let again = some.iter().map(|id| bare.plain(*id, When::Now)).collect();
        meter.step(bare.apply(StoreOp::Push(again))).await.unwrap();
    }
    let within: Vec<_> = (0..1_000).map(|at| Duration::from_millis(at * 7)).collect();
    for op in [
        StoreOp::Stats,
        StoreOp::Forecast { within },
        StoreOp::MoveDue {
            limit: BATCH_MAX,
            calls: false,
        },
        StoreOp::Get { id: ids[0] },
        StoreOp::Heartbeat {
            node: NODE,
            holds: Holding::default(),
            started: StartMark::default(),
        },
    ] {
        meter.step(bare.apply(op)).await.unwrap();
    }

    let mut from = None;
    for _ in 0..5 {
        let limit = BATCH_MAX;
        let page = meter
            .step(bare.apply(StoreOp::Peek {
                from,
                limit,
                by: PeekBy::All,
            }))
            .await;
        let Reply::Peeked(PeekPage { events, next }) = page.unwrap() else {
            panic!("a peek answers a page");
        };
        let rewritings = events.iter().take(at_once).filter_map(|event| {
            let body = event.body.as_ref()?;
            Some(Rewriting {
                id: event.id,
                was: body.fingerprint(),
                payload: Payload::from(vec![b'y'; bytes.min(BATCH_BYTES / at_once)]),
            })
        });
        let rewrite = StoreOp::Rewrite(rewritings.collect());
        meter.step(bare.apply(rewrite)).await.unwrap();
        from = next;
        if from.is_none() {
            break;
        }
    }

    // Batches of a thousand, of events that came by several fetches where they are large.
    let mut request = 0;
    let verdicts = [
        AttemptOutcome::Bury(FailureReason {
            cause: Cause::Failed,
            error: Some("e".repeat(2_048)),
        }),
        AttemptOutcome::Ack,
        AttemptOutcome::Retry(
            Duration::ZERO,
            FailureReason {
                cause: Cause::Failed,
                error: Some("e".repeat(2_048)),
            },
        ),
        AttemptOutcome::Release,
        AttemptOutcome::Ack,
    ]
    .into_iter();
    for verdict in verdicts {
        let hold = matches!(verdict, AttemptOutcome::Release).then_some(Duration::from_secs(60));
        let mut held = Vec::new();
        while held.len() < BATCH_MAX {
            request += 1;
            let fetch = Fetch {
                node: NODE,
                request,
                limit: BATCH_MAX - held.len(),
                ahead: Duration::from_millis(5),
                ahead_limit: BATCH_MAX - held.len(),
                hold,
                starts: usize::MAX,
            };
            let fetched = meter.step(bare.apply(StoreOp::Fetch(fetch))).await;
            let Reply::Fetched(FetchReport { deliveries, .. }) = fetched.unwrap() else {
                panic!("a fetch answers what it fetched");
            };
            if deliveries.is_empty() {
                break;
            }
            held.extend(deliveries.iter().map(|it| (it.id, it.request)));
        }
        held.truncate(BATCH_MAX);
        if hold.is_some() {
            let (node, leases, hold) = (NODE, held.clone(), Duration::from_secs(90));
            let extend = StoreOp::Extend { node, leases, hold };
            meter.step(bare.apply(extend)).await.unwrap();
        }
        let settlements = settlements(&held, &verdict);
        let node = NODE;
        let settle = StoreOp::Settle {
            node,
            settlements,
            started: StartMark::default(),
        };
        meter.step(bare.apply(settle)).await.unwrap();
    }

    let mut dead = Vec::new();
    let (after, limit) = (None, BATCH_MAX);
    let read = meter
        .step(bare.apply(StoreOp::ReadDead { after, limit }))
        .await;
    if let Reply::Dead(DeadPage { letters, .. }) = read.unwrap() {
        dead.extend(letters.into_iter().map(|letter| letter.id));
    }
    let (some, others) = dead.split_at(dead.len() / 2);
    let revive = StoreOp::Revive {
        ids: some.to_vec(),
        by: None,
    };
    meter.step(bare.apply(revive)).await.unwrap();
    let drop = StoreOp::Drop {
        ids: others.to_vec(),
        by: None,
    };
    meter.step(bare.apply(drop)).await.unwrap();

    // A node that took what there was, and fell silent.
    let silent = NodeId(99);
    for request in 1..=20 {
        let fetch = fetch_of(silent, request);
        meter.step(bare.apply(fetch)).await.unwrap();
    }
    let mut seen = Vec::new();
    for _ in 0..1_000 {
        let reap = StoreOp::Reap {
            silent: std::mem::take(&mut seen),
            limit: BATCH_MAX,
        };
        match meter.step(bare.apply(reap)).await.unwrap() {
            Reply::Reaped(reaped) if reaped.more || !reaped.holders.is_empty() => {
                seen = reaped.holders;
            }
            _ => break,
        }
    }

    // The same keys again: each takes the place of one that waits.
    let many = (0..events.min(MET_MAX)).map(|it| {
        let mut it = event(bare, 1, it, When::Now);
        Arc::make_mut(&mut it.envelope).keeps_payload = false;
        it.on_taken = Unique::Replace;
        it
    });
    let replace = StoreOp::Push(many.collect());
    meter.step(bare.apply(replace)).await.unwrap();
    let id = ids[1 % ids.len()];
    let when = When::After(Duration::from_secs(9));
    meter
        .step(bare.apply(StoreOp::Reschedule { id, when }))
        .await
        .unwrap();
    meter
        .step(bare.apply(StoreOp::Cancel { id }))
        .await
        .unwrap();

    let outbox = Outbox::Bucket(bare.bucket.clone());
    let mut after = 0;
    loop {
        let page = meter
            .step(bare.store.read_outbox(&outbox, after, 10_000))
            .await
            .unwrap();
        after = page.last;
        if !page.has_more() {
            break;
        }
    }
    meter
        .step(bare.store.trim_outbox(&outbox, after))
        .await
        .unwrap();
}

/// Runs every script over queues of all sizes, and returns those that took too long.
async fn slow_scripts(server: &Redis) -> BTreeSet<String> {
    let small = std::env::var("DULY_BUSY_EVENTS").ok();
    let small: usize = small.and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let large = small.div_ceil(1024);
    let mut meter = Meter::new(server);
    let known_us = meter.known_us();
    for (events, bytes) in [
        (1, 64),
        (1, 1 << 20),
        (small, 64),
        (1_200, 60 << 10),
        (large, 1 << 20),
    ] {
        let (url, _) = fresh(&server.url());
        let bare = Bare::open(&url).await;
        // The first call of a script sends its text, and is not looked at.
        every_script(&mut meter, &bare, events, bytes).await;
        more_scripts(&mut meter, &bare, events, bytes).await;
        server.cli(&["FLUSHALL"]);
    }
    slow_of(&meter, known_us)
}

/// Prints what each script took. Returns those that took too long.
pub(crate) fn slow_of(meter: &Meter<'_>, known_us: f64) -> BTreeSet<String> {
    let most = FREE_US.max(known_us * TIMES_MAX);
    println!(
        "{BATCH_BYTES} bytes read and answered: {:.1} ms; a script may take {:.1} ms",
        known_us / 1e3,
        most / 1e3
    );
    let mut slow = BTreeSet::new();
    for (script, (calls, processor, logged)) in &meter.found {
        println!(
            "{script:12} {calls:6} calls, the longest {:6.1} ms of the processor, {:6.1} ms in all",
            processor / 1e3,
            logged / 1e3
        );
        if *processor > most && script != "other" {
            slow.insert(script.clone());
        }
    }
    slow
}

/// Asserts that no script takes too long. Other programs of the machine make one call or another slow;
/// what is slow by itself is slow each time.
pub(crate) async fn assert_none_is_slow(slow_scripts: impl AsyncFn(&Redis) -> BTreeSet<String>) {
    let server = Redis::plain();
    let mut slow = slow_scripts(&server).await;
    for _ in 0..2 {
        if !slow.is_empty() {
            let again = slow_scripts(&server).await;
            slow.retain(|script| again.contains(script));
        }
    }
    assert!(slow.is_empty(), "{slow:?} took too long each time");
}

#[tokio::test]
async fn no_script_keeps_a_server_for_long() {
    assert_none_is_slow(slow_scripts).await;
}
