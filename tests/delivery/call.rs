//! `call`: push and wait for the handler's reply.

use std::sync::Arc;

use duly::__server::replies::{self, ReplyStatus};
use duly::Annotation;
use duly::codec::Raw;
use duly::config::Settings;
use duly::lease::{LeaseOutcome, LeaseStatus};
use duly::prelude::*;
use duly::records::Record;
use duly::store::{DedupWindow, MemoryStore};
use duly::testing::{Probe, TestBus, VirtualClock};

use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    a_call_answers_with_the_handlers_reply,
    a_handler_without_a_reply_answers_nothing,
    a_call_waits_through_retries,
    a_call_that_is_over_too_soon_leaves_its_event,
    a_call_tells_the_words_of_a_failure,
    a_reply_of_another_type_is_an_error,
    a_call_without_a_handler_here_is_refused,
    a_call_to_a_stopped_bus_is_refused,
    a_call_ends_with_its_event_however_that_ends,
    a_call_of_what_is_too_late_ends_though_nobody_fetches,
    calls_that_nest_are_refused_where_no_worker_is_left,
    calls_in_a_circle_of_queues_are_refused_where_no_worker_is_left,
    no_copy_of_a_reply_is_kept_whatever_is_said_of_all_queues,
}

async fn a_call_answers_with_the_handlers_reply(world: World) {
    let probe = Probe::<u64>::answering(|event, cx| {
        cx.reply(&(event.payload * 2))?;
        cx.reply(&"the first one counts")?;
        Ok(())
    });
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let (six, eight) = tokio::join!(queue.call(3, secs(5)), queue.call(4, secs(5)));
    assert_eq!((six.unwrap(), eight.unwrap()), (6_u64, 8_u64));
    assert_eq!(bus.clock().elapsed(), secs(0));
}

async fn a_handler_without_a_reply_answers_nothing(world: World) {
    let (_bus, queue) = world.serve(ORDERS, &Probe::new()).await;
    queue.call::<()>(3_u64, secs(5)).await.unwrap();
}

async fn a_call_waits_through_retries(world: World) {
    let probe = Probe::<u64>::answering(|event, cx| {
        cx.reply(&event.attempt())?;
        match event.attempt() {
            1 | 2 => Err(Failure::retry("not yet")),
            _ => Ok(()),
        }
    });
    let (_bus, queue) = world.serve(ORDERS, &probe).await;
    assert_eq!(queue.call::<u16>(1, secs(5)).await.unwrap(), 3);
    assert_eq!(world.clock.elapsed(), secs(2));
}

async fn a_call_that_is_over_too_soon_leaves_its_event(world: World) {
    let probe = Probe::taking(secs(10));
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let error = queue.call::<()>(1_u64, secs(5)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(world.clock.elapsed(), secs(5));
    bus.advance(secs(10)).await;
    let acked = bus.records().outcome(Outcome::Acked).page().await.unwrap();
    assert_eq!(acked.items.len(), 1);
}

async fn a_call_tells_the_words_of_a_failure(world: World) {
    let probe = Probe::<u64>::answering(|event, _cx| match event.payload {
        1 => Err(Failure::permanent("no such order")),
        2 => Err(Failure::discard("was paid")),
        3 => panic!("at the disco"),
        _ => Err(Failure::retry("never")),
    });
    let (bus, queue) = world.serve(ORDERS.attempts(2), &probe).await;
    let expected = ["no such order", "was paid", "at the disco", "never"];
    for (payload, words) in (1..).zip(expected) {
        let error = queue.call::<()>(payload, secs(60)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains(words), "{error}");
    }
    let wrong = bus.queue_named::<String>("orders").unwrap();
    let error = wrong.call::<()>("text".to_owned(), secs(60)).await;
    let error = error.unwrap_err();
    assert!(error.to_string().contains("does not decode"), "{error}");
}

async fn a_reply_of_another_type_is_an_error(world: World) {
    let probe = Probe::<u64>::answering(|_event, cx| Ok(cx.reply(&"text")?));
    let (_bus, queue) = world.serve(ORDERS, &probe).await;
    let error = queue.call::<u64>(1, secs(5)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

async fn a_call_without_a_handler_here_is_refused(world: World) {
    let (bus, queue) = world.push_only::<u64>("orders").await;
    let error = queue.call::<()>(1, secs(5)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(bus.stats("orders").await.unwrap().ready, 0);
}

async fn a_call_to_a_stopped_bus_is_refused(world: World) {
    let (bus, queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    bus.shutdown(secs(1)).await.unwrap();
    let error = queue.call::<()>(1, secs(5)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}

/// Cancelled, or settled by somebody else, or expired while nobody fetches.
async fn a_call_ends_with_its_event_however_that_ends(world: World) {
    let (bus, queue) = world.serve(ORDERS, &Probe::<u64>::new()).await;
    bus.set_workers("orders", 0).unwrap();
    let ends: [(&str, ErrorKind, Option<LeaseOutcome>); 5] = [
        ("it is cancelled", ErrorKind::Unavailable, None),
        ("no reply", ErrorKind::NotFound, Some(LeaseOutcome::Ack)),
        (
            "no such order",
            ErrorKind::Unavailable,
            Some(LeaseOutcome::Bury(Some("no such order".to_owned()))),
        ),
        (
            "was paid",
            ErrorKind::Unavailable,
            Some(LeaseOutcome::Discard(Some("was paid".to_owned()))),
        ),
        (
            "it is discarded",
            ErrorKind::Unavailable,
            Some(LeaseOutcome::Discard(None)),
        ),
    ];
    for (words, kind, outcome) in ends {
        let began = bus.clock().elapsed();
        let end = async {
            let leased = queue
                .lease(1, secs(60))
                .wait(secs(10))
                .send()
                .await
                .unwrap();
            let leased = &leased[0];
            match outcome {
                None => {
                    let _ = leased.release().await.unwrap();
                    let cancelled = queue.cancel(leased.id()).await.unwrap();
                    assert_eq!(cancelled, CancelOutcome::Cancelled);
                }
                Some(outcome) => {
                    let settled = bus.settle_lease(leased.token(), outcome).await.unwrap();
                    assert_eq!(settled, LeaseStatus::Held);
                }
            }
        };
        let (called, ()) = tokio::join!(queue.call::<u64>(1, secs(3_600)), end);
        let error = called.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(bus.clock().elapsed() - began < secs(1), "{words}");
    }
}

async fn a_call_of_what_is_too_late_ends_though_nobody_fetches(world: World) {
    for late in [LatePolicy::Expire(secs(5)), LatePolicy::Bury(secs(5))] {
        let (bus, queue) = world.serve(ORDERS.late(late), &Probe::<u64>::new()).await;
        bus.pause("orders").await.unwrap();
        let began = bus.clock().elapsed();
        let error = queue.call::<()>(1, secs(3_600)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let words = error.to_string();
        let said = ["expired", "later than its policy", "is dead"];
        assert!(said.iter().any(|it| words.contains(it)), "{words}");
        let took = bus.clock().elapsed() - began;
        assert!(took > secs(5) && took < secs(6), "{took:?}");
        bus.resume("orders").await.unwrap();
        drop(bus);
    }
}

/// Fifteen of sixteen workers may wait; the sixteenth replies.
async fn calls_that_nest_are_refused_where_no_worker_is_left(world: World) {
    let probe = Probe::<u64>::running(|event, cx| {
        let queue = cx.bus().queue_named::<u64>("orders");
        async move {
            if event.payload > 0 {
                queue?.call::<()>(event.payload - 1, secs(3_600)).await?;
            }
            Ok(())
        }
    });
    let orders = ORDERS.workers(16).attempts(1).timeout(secs(3_600));
    let (bus, queue) = world.serve(orders, &probe).await;
    queue.call::<()>(15, secs(3_600)).await.unwrap();
    let error = queue.call::<()>(16, secs(3_600)).await.unwrap_err();
    assert!(
        error.to_string().contains("every worker of queue orders"),
        "{error}"
    );
    let waited = futures_util::future::join_all((0..8).map(|_| queue.call::<()>(1, secs(3_600))));
    assert!(waited.await.into_iter().all(|it| it.is_ok()));
    assert!(bus.clock().elapsed() < secs(5), "nobody waited in vain");
}

async fn calls_in_a_circle_of_queues_are_refused_where_no_worker_is_left(world: World) {
    let calls = |other: &'static str| {
        Probe::<u64>::running(move |event, cx| {
            let queue = cx.bus().queue_named::<u64>(other);
            async move {
                if event.payload > 0 {
                    queue?.call::<()>(event.payload - 1, secs(3_600)).await?;
                }
                Ok(())
            }
        })
    };
    let orders = ORDERS.workers(1).attempts(1).timeout(secs(3_600));
    const OTHERS: Annotation = Annotation::new("others").workers(1).attempts(1);
    let builder = world.builder().register_as(orders, calls("others"));
    let builder = builder.register_as(OTHERS.timeout(secs(3_600)), calls("orders"));
    let bus = world.start(builder).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    queue.call::<()>(1, secs(3_600)).await.unwrap();
    let error = queue.call::<()>(2, secs(3_600)).await.unwrap_err();
    assert!(
        error.to_string().contains("every worker of queue orders"),
        "{error}"
    );
    assert!(bus.clock().elapsed() < secs(5), "nobody waited in vain");
}

/// Replies to events of two namespaces: erased, and expired.
async fn no_copy_of_a_reply_is_kept_whatever_is_said_of_all_queues(world: World) {
    let mut settings = Settings::default();
    settings.queue_defaults.keep_payload = Some(true);
    let bus = world.builder().publish_only().settings(settings);
    let bus = world.start(bus).await;
    for (queue, own, is_erased) in [
        ("orders", "duly.replies", true),
        ("shop.orders", "shop.duly.replies", true),
        ("orders", "duly.replies", false),
    ] {
        let queue = bus.queue_named::<u64>(queue).unwrap();
        let pushed = replies::push(&queue, queue.event(7).key("customer:8")).await;
        let leased = queue.lease(1, secs(60)).send().await.unwrap();
        let reply = br#""the balance is 4711""#;
        replies::store(&bus, leased[0].token(), reply)
            .await
            .unwrap();
        assert_eq!(leased[0].ack().await.unwrap(), LeaseStatus::Held);
        if is_erased {
            let _ = bus.erase("customer:8").run().await.unwrap();
        } else {
            bus.advance(secs(301)).await;
            let replies = bus.queue_named::<Raw>(own).unwrap();
            assert!(replies.lease(9, ms(9)).send().await.unwrap().is_empty());
        }
        let end = bus
            .records()
            .queue(own)
            .newest_first()
            .page()
            .await
            .unwrap();
        let expected = [Outcome::Expired, Outcome::Cancelled][usize::from(is_erased)];
        assert_eq!(end.items[0].outcome, expected);
        assert!(!end.items.iter().any(Record::has_content), "{end:?}");
        let event = bus.history(pushed.unwrap().id()).await.unwrap();
        assert_eq!(
            event[0].has_content(),
            !is_erased,
            "what is a user's is kept"
        );
    }
}

/// The event of a consumer that has replied, and has not settled, comes back.
#[tokio::test(start_paused = true)]
async fn the_reply_of_the_lease_that_settles_counts() {
    let bus = TestBus::start(Bus::builder()).await.unwrap();
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let id = replies::push(&queue, queue.event(7)).await.unwrap().id();
    for (reply, settles) in [("first", false), ("second", true)] {
        let leased = queue.lease(1, secs(60)).send().await.unwrap();
        let token = leased[0].token();
        // Who sends a reply again changes nothing.
        for reply in [reply, "too late"] {
            let stored = replies::store(&bus, token, reply.as_bytes());
            stored.await.unwrap();
        }
        if settles {
            assert_eq!(leased[0].ack().await.unwrap(), LeaseStatus::Held);
        }
        bus.advance(secs(61)).await;
    }
    let found = replies::look_up(&queue, id).await.unwrap();
    assert_eq!(found, ReplyStatus::Replied(b"second".to_vec()));
}

/// A name may come again once its last event is forgotten: while the reply to that one is kept, and
/// after its time.
#[tokio::test(start_paused = true)]
async fn each_event_of_a_name_has_its_own_reply_and_of_that_the_first() {
    for pause in [secs(1), secs(400)] {
        let window = DedupWindow {
            keep_for: secs(0),
            max: 20,
            ..DedupWindow::default()
        };
        let clock = Arc::new(VirtualClock::new());
        let store = MemoryStore::with_clock(Arc::clone(&clock) as _).with_window(window);
        let builder = Bus::builder().only_registered().store(store);
        let bus = TestBus::start_on(clock, builder.publish_only()).await;
        let bus = bus.unwrap();
        let queue = bus.queue_named::<u64>("quotes").unwrap();
        let id = queue.id_for_name("quote:7");
        for price in [Some("10"), Some("12"), None, Some("14"), None] {
            let push = async || {
                let pushed = replies::push(&queue, queue.event(7).id(id));
                pushed.await.unwrap()
            };
            while push().await.is_duplicate() {
                bus.advance(ms(1)).await; // for an id that is newer than those that are forgotten
                let other = queue.push(8, secs(60)).await.unwrap();
                let ended = queue.cancel(other.id()).await.unwrap();
                assert_eq!(ended, CancelOutcome::Cancelled);
            }
            let leased = queue.lease(1, secs(60)).send().await.unwrap();
            for reply in price.into_iter().flat_map(|price| [price, "too late"]) {
                let stored = replies::store(&bus, leased[0].token(), reply.as_bytes());
                stored.await.unwrap();
            }
            assert_eq!(leased[0].ack().await.unwrap(), LeaseStatus::Held);
            let again = push().await.is_duplicate();
            assert!(again, "a call that is repeated removes no reply");
            let found = replies::look_up(&queue, id).await.unwrap();
            let replied = |price: &str| ReplyStatus::Replied(price.as_bytes().to_vec());
            let expected = price.map_or(ReplyStatus::None, replied);
            assert_eq!(found, expected, "after {pause:?}");
            bus.advance(pause).await;
        }
    }
}
