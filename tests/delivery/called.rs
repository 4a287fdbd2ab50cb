//! `call` of a handler in another bus, while the store does badly: the reply arrives, or an error says
//! why it does not.

use std::sync::Arc;
use std::time::Duration;

use duly::codec::{Key, KeyRing, Raw};
use duly::event::BucketKey;
use duly::prelude::*;
use duly::store::operation::StoreOp;
use duly::store::{MemoryStore, Store};
use duly::testing::{Probe, TestBus, VirtualClock};

use crate::faulty::{Fault, Faulty};
use crate::world::{ORDERS, ms, secs};

/// Longer than anything here takes.
const PATIENCE: Duration = secs(3_600);

/// A bus that calls and one that handles, each on its own way to one store.
struct Pair {
    caller: TestBus,
    to_caller: Arc<Faulty>,
    handler: TestBus,
    to_handler: Arc<Faulty>,
    queue: Queue<u64>,
}

impl Pair {
    /// With a store of so many records. `keys`: those of the handler, if its caller encrypts.
    async fn start(probe: &Probe<u64>, records: usize, keys: Option<KeyRing>) -> Self {
        let clock = Arc::new(VirtualClock::new());
        let store = MemoryStore::with_clock(Arc::clone(&clock) as _).with_memory(1_000, records);
        let store: Arc<dyn Store> = Arc::new(store.shared());
        let (to_caller, to_handler) = (Faulty::to(&store), Faulty::to(&store));
        let builder = |way: &Arc<Faulty>| {
            let builder = Bus::builder().only_registered();
            builder.shared_store(Arc::clone(way) as _)
        };
        let orders = QueueChoices {
            encrypt: Some(keys.is_some()),
            ..QueueChoices::default()
        };
        let calling = builder(&to_caller).publish_only().keys(ring("k1"));
        let calling = calling.queue("orders", orders);
        let handling = builder(&to_handler).keys(keys.unwrap_or_default());
        let handling = handling.register_as(ORDERS.timeout(PATIENCE), probe.clone());
        let caller = TestBus::start_on(Arc::clone(&clock), calling).await;
        let caller = caller.unwrap();
        let handler = TestBus::start_on(clock, handling).await.unwrap();
        let queue = caller.queue_named("orders").unwrap();
        Self {
            caller,
            to_caller,
            handler,
            to_handler,
            queue,
        }
    }

    /// Returns how the only event of it ended.
    async fn outcome(&self) -> Outcome {
        let ended = self.caller.records().queue("orders").page().await.unwrap();
        assert_eq!(ended.items.len(), 1, "{ended:?}");
        ended.items[0].outcome
    }

    /// Removes the replies that are kept no more, as a handler does now and then.
    async fn sweep(&self) {
        let replies = self.handler.queue_named::<Raw>("duly.replies").unwrap();
        let expired = replies.lease(100, secs(1)).send().await.unwrap();
        assert_eq!(expired.len(), 0, "no reply is handed out");
    }
}

fn ring(id: &str) -> KeyRing {
    let keys = KeyRing::new();
    keys.add(id, Key::new([7; 32])).unwrap();
    keys.choose(id).unwrap();
    keys
}

/// Replies with a text of so many bytes as its event says.
fn replying() -> Probe<u64> {
    Probe::answering(|event, cx| Ok(cx.reply(&Some(text(event.payload)))?))
}

fn text(len: u64) -> String {
    "x".repeat(len.try_into().unwrap())
}

/// Whether an operation is the push of a reply.
fn is_reply(bucket: &BucketKey, op: &StoreOp) -> bool {
    matches!(op, StoreOp::Push(_)) && bucket.queue.is_own()
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_cannot_be_stored_is_an_error_and_not_none() {
    let not_used = KeyRing::new();
    not_used.add("k1", Key::new([7; 32])).unwrap();
    for keys in [None, Some(ring("k1")), Some(not_used)] {
        let has_key = keys.as_ref().is_none_or(|keys| keys.used().is_some());
        for len in [0, 100, 70_000, (1 << 20) - 100, (1 << 20) - 1, 2 << 20] {
            let pair = Pair::start(&replying(), 1_000, keys.clone()).await;
            let reply = pair.queue.call::<Option<String>>(len, PATIENCE).await;
            let is_stored = has_key && len < (1 << 20) - 1;
            match reply {
                Ok(reply) => assert!(is_stored && reply == Some(text(len)), "{len}: {reply:?}"),
                Err(error) => {
                    assert!(!is_stored, "{len}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                    let words = error.to_string();
                    assert!(words.contains("its reply cannot be stored"), "{words}");
                }
            }
            let outcome = pair.outcome().await;
            assert_eq!(outcome == Outcome::Acked, is_stored, "{outcome}");
        }
    }
}

/// However a push fails that may be repeated, and for how long: a number of times, or until a time.
#[tokio::test(start_paused = true)]
async fn a_reply_arrives_once_the_store_takes_it_or_an_error_does() {
    use ErrorKind::{Full, TimedOut, Unavailable, Unknown};
    let faults = [Unavailable, TimedOut, Unknown, Full].map(Fault::Refused);
    for fault in faults.into_iter().chain([Fault::Lost, Fault::Twice]) {
        for (times, until) in [(1, secs(0)), (4, secs(0)), (0, secs(10)), (0, secs(400))] {
            let pair = Pair::start(&replying(), 1_000, None).await;
            let (clock, mut left) = (Arc::clone(pair.handler.clock()), times);
            pair.to_handler.meets(move |bucket, op| {
                if !is_reply(bucket, op) || left == 0 && clock.elapsed() >= until {
                    return Fault::None;
                }
                left = usize::saturating_sub(left, 1);
                fault
            });
            let began = pair.caller.clock().elapsed();
            let reply = pair.queue.call::<Option<String>>(7, PATIENCE).await;
            let took = pair.caller.clock().elapsed() - began;
            let what = format!("{fault:?} {times} {until:?}: {reply:?} after {took:?}");
            // What was stored is found at the next try, though its answer was lost.
            let is_stored = match fault {
                Fault::Refused(Full) => until < secs(2),
                Fault::Twice => true,
                _ => until < secs(30),
            };
            let outcome = pair.outcome().await;
            match reply {
                Ok(reply) => assert!(is_stored && reply == Some(text(7)), "{what}"),
                Err(error) => {
                    assert!(!is_stored && error.kind() == Unavailable, "{what}");
                    assert_eq!(outcome, Outcome::Discarded, "{what}");
                }
            }
            assert!(took < secs(40), "{what}: its worker is not kept for ever");
            assert_eq!(outcome == Outcome::Acked, is_stored, "{what}");
        }
    }
}

/// A store that was away is full for a moment when it is back, as all that waits comes at once.
#[tokio::test(start_paused = true)]
async fn a_store_may_be_full_for_two_seconds_whatever_failed_before() {
    use ErrorKind::{Full, TimedOut, Unavailable, Unknown};
    let never_well = [(Full, 1, 0), (Unavailable, 1, 0)].repeat(200);
    for (faults, is_stored, at_most) in [
        (&[(Unavailable, 0, 5), (Full, 1, 0)][..], true, 10),
        (&[(Unavailable, 0, 20), (Full, 2, 0)], true, 25),
        (
            &[
                (Full, 1, 0),
                (TimedOut, 0, 9),
                (Full, 1, 0),
                (Unknown, 1, 0),
            ],
            true,
            16,
        ),
        (&[(Full, 3, 0), (Unknown, 0, 4), (Full, 1, 0)], true, 10),
        (&[(Unavailable, 0, 5), (Full, 0, 400)], false, 10),
        (&[(Full, 1, 0), (Unknown, 0, 5), (Full, 0, 400)], false, 10),
        (&never_well, false, 40),
    ] {
        let pair = Pair::start(&replying(), 1_000, None).await;
        let (clock, mut left) = (Arc::clone(pair.handler.clock()), faults.to_vec());
        // Each so many times, or until a time.
        pair.to_handler.meets(move |bucket, op| {
            left.retain(|(_, times, until)| *times > 0 || clock.elapsed() < secs(*until));
            match left.first_mut().filter(|_| is_reply(bucket, op)) {
                Some((kind, times, _)) => {
                    *times = usize::saturating_sub(*times, 1);
                    Fault::Refused(*kind)
                }
                None => Fault::None,
            }
        });
        let began = pair.caller.clock().elapsed();
        let reply = pair.queue.call::<Option<String>>(7, PATIENCE).await;
        let took = pair.caller.clock().elapsed() - began;
        let few = &faults[..faults.len().min(4)];
        let what = format!("{few:?}: {reply:?} after {took:?}");
        assert_eq!(reply.is_ok(), is_stored, "{what}");
        assert_eq!(pair.outcome().await == Outcome::Acked, is_stored, "{what}");
        assert!(took < secs(at_most), "{what}");
    }
}

/// Its handler replies at once, and the caller cannot look for a while, in which replies may go.
#[tokio::test(start_paused = true)]
async fn a_caller_that_comes_too_late_is_not_told_that_there_was_no_reply() {
    let answers = |event: &Event<u64>, cx: &Context| match event.payload {
        0 => Ok(()),
        number => Ok(cx.reply(&Some(number))?),
    };
    let kinds = [ErrorKind::Unavailable, ErrorKind::Unknown];
    for (away, kind) in [1, 250, 310, 400]
        .into_iter()
        .zip(kinds.into_iter().cycle())
    {
        for (number, records) in [(0, 0), (7, 0), (0, 1_000), (7, 1_000)] {
            for sweeps in [true, false] {
                let pair = Pair::start(&Probe::answering(answers), records, None).await;
                let (clock, back) = (Arc::clone(pair.caller.clock()), secs(away));
                pair.to_caller.meets(move |_, op| match op {
                    StoreOp::Push(_) => Fault::None,
                    _ if clock.elapsed() >= back => Fault::None,
                    _ => Fault::Refused(kind),
                });
                let others = async {
                    if sweeps {
                        // What is kept for five minutes goes at their end.
                        pair.handler.advance(secs(away) - ms(500)).await;
                        pair.sweep().await;
                    }
                };
                let call = pair.queue.call::<Option<u64>>(number, PATIENCE);
                let (reply, ()) = tokio::join!(call, others);
                let what = format!("{away} {kind:?} {number} {records} {sweeps}: {reply:?}");
                match reply {
                    Ok(reply) => assert_eq!(reply, Some(number).filter(|it| *it > 0), "{what}"),
                    Err(error) => {
                        assert!(away > 300, "{what}");
                        assert_eq!(error.kind(), ErrorKind::NotFound, "{what}");
                        assert!(error.to_string().contains("kept no more"), "{what}");
                    }
                }
            }
        }
    }
}

/// That it has been done for long is not known where there is no record; its caller knows it.
#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_its_time_and_gives_no_reply_answers_nothing() {
    for records in [0, 1_000] {
        for took in [secs(1), secs(299), secs(400), secs(2_000)] {
            let pair = Pair::start(&Probe::taking(took), records, None).await;
            pair.queue.call::<()>(7, PATIENCE).await.unwrap();
        }
    }
}
