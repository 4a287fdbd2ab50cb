//! Promise 4: attempts are bounded and counted.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duly::prelude::*;
use duly::records::Cause;
use duly::testing::Probe;

use crate::faulty::Faulty;
use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    a_failed_attempt_is_due_again_after_its_backoff,
    a_function_says_the_delays_and_may_panic,
    a_failure_a_timeout_and_a_panic_each_use_an_attempt,
    after_the_last_attempt_comes_no_other,
    a_permanent_failure_is_dead_at_once,
    a_payload_that_does_not_decode_is_dead_at_once_and_never_seen,
    a_discarded_event_is_over_without_a_dead_letter,
    a_snooze_uses_no_attempt,
    attempts_that_share_a_number_have_leases_of_their_own,
    retry_after_overrules_the_backoff,
    an_event_may_have_attempts_of_its_own,
    attempts_outside_their_bounds_are_refused,
    attempts_survive_a_restart,
    a_time_out_drops_the_handler_where_it_waits,
    each_start_is_noted_before_its_handler_runs,
}

const TWICE: RetryPolicy = RetryPolicy::exponential(secs(1), secs(60));

async fn a_failed_attempt_is_due_again_after_its_backoff(world: World) {
    let probe = Probe::<u64>::answering(|event, _cx| match event.attempt() {
        1..=4 => Err(Failure::retry("not yet")),
        _ => Ok(()),
    });
    let (bus, queue) = world.serve(ORDERS.backoff(TWICE), &probe).await;
    let id = queue.push(1, secs(5)).await.unwrap().id();

    bus.advance(secs(3_600)).await;

    assert_eq!(probe.times(), [5, 6, 8, 12, 20].map(secs));
    assert_eq!(probe.attempts(), [1, 2, 3, 4, 5].map(|n| (id, n)));
    assert_eq!(bus.starts(id).await.unwrap(), probe.times());
}

/// Waits 10, 20 and 40 seconds, panics at the fourth, and then asks for more than there is.
fn uneven(attempt: u16) -> Duration {
    match attempt {
        1 => secs(10),
        2 => secs(20),
        3 => secs(40),
        4 => panic!("no delay comes to mind"),
        _ => Duration::MAX,
    }
}

async fn a_function_says_the_delays_and_may_panic(world: World) {
    let probe = Probe::<u64>::answering(|_, _| Err(Failure::retry("not yet")));
    let policy = RetryPolicy::function(uneven);
    let (bus, queue) = world
        .serve(ORDERS.attempts(9).backoff(policy), &probe)
        .await;
    queue.push(1, When::Now).await.unwrap();

    bus.advance(secs(3_600)).await;

    // The fourth is that of the default policy, 8 s; the fifth is never due.
    assert_eq!(probe.times(), [0, 10, 30, 70, 78].map(secs));
    assert_eq!(bus.stats("orders").await.unwrap().scheduled, 1);
}

/// What a handler does, and what its record says then.
const MISDEEDS: [(u64, Cause); 3] = [
    (0, Cause::Failed),
    (1, Cause::TimedOut),
    (2, Cause::Panicked),
];

async fn a_failure_a_timeout_and_a_panic_each_use_an_attempt(world: World) {
    let probe = Probe::running(|event: Event<u64>, _cx| async move {
        match event.payload {
            0 => Err(Failure::retry("words")),
            1 => std::future::pending().await,
            _ => panic!("words"),
        }
    });
    let orders = ORDERS.attempts(3).timeout(secs(10));
    let (bus, queue) = world.serve(orders, &probe).await;
    for (misdeed, cause) in MISDEEDS {
        let before = probe.count();
        let id = queue.push(misdeed, When::Now).await.unwrap().id();
        bus.advance(secs(600)).await;

        assert_eq!(probe.count() - before, 3, "{cause}");
        let history = bus.history(id).await.unwrap();
        let ends = [Outcome::Retried, Outcome::Retried, Outcome::Buried];
        for (number, (record, end)) in (1..).zip(history.iter().zip(ends)) {
            assert_eq!((record.attempt, record.outcome), (number, end), "{cause}");
            assert_eq!(record.cause, Some(cause));
            assert_eq!(record.error.is_some(), cause != Cause::TimedOut);
        }
        assert_eq!(history.len(), 3, "{cause}");
    }
    assert_eq!(bus.stats("orders").await.unwrap().dead, 3);
}

async fn after_the_last_attempt_comes_no_other(world: World) {
    let probe = Probe::<u64>::answering(|_event, _cx| Err(Failure::retry("never")));
    let (bus, queue) = world.serve(ORDERS.attempts(5), &probe).await;
    queue.push(1, When::Now).await.unwrap();
    bus.advance(secs(86_400)).await;
    assert_eq!(probe.times(), [0, 1, 2, 3, 4].map(secs));
}

async fn a_permanent_failure_is_dead_at_once(world: World) {
    let probe = Probe::<u64>::answering(|_event, _cx| Err(Failure::permanent("no such order")));
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(3_600)).await;
    assert_eq!(probe.count(), 1);
    let history = bus.history(id).await.unwrap();
    assert_eq!(history[0].outcome, Outcome::Buried);
    assert_eq!(history[0].error.as_deref(), Some("no such order"));
}

async fn a_payload_that_does_not_decode_is_dead_at_once_and_never_seen(world: World) {
    let probe = Probe::<u64>::new();
    let (bus, _queue) = world.serve(ORDERS, &probe).await;
    let wrong = bus.queue_named::<String>("orders").unwrap();
    let id = wrong
        .push("seven".to_owned(), When::Now)
        .await
        .unwrap()
        .id();
    bus.advance(secs(3_600)).await;

    assert_eq!(probe.count(), 0);
    let history = bus.history(id).await.unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].outcome, Outcome::Buried);
    assert_eq!(history[0].cause, Some(Cause::Undecodable));
    let words = history[0].error.as_deref().unwrap();
    assert!(words.contains("does not decode"), "{words}");
}

async fn a_discarded_event_is_over_without_a_dead_letter(world: World) {
    let probe = Probe::<u64>::answering(|_event, _cx| Err(Failure::discard("was paid")));
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(3_600)).await;
    assert_eq!(probe.count(), 1);
    let history = bus.history(id).await.unwrap();
    assert_eq!(history[0].outcome, Outcome::Discarded);
    assert_eq!(history[0].error.as_deref(), Some("was paid"));
    assert_eq!(bus.stats("orders").await.unwrap().dead, 0);
}

async fn a_snooze_uses_no_attempt(world: World) {
    let probe = Probe::<u64>::answering(|_event, _cx| Err(Failure::snooze(secs(60))));
    let (bus, queue) = world.serve(ORDERS.attempts(2), &probe).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(600)).await;
    assert_eq!(probe.count(), 11);
    assert!(probe.attempts().iter().all(|attempt| *attempt == (id, 1)));
    assert_eq!(queue.get(id).await.unwrap().unwrap().tries, 0);
}

async fn attempts_that_share_a_number_have_leases_of_their_own(world: World) {
    let leases = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&leases);
    let probe = Probe::<u64>::answering(move |_event, cx| {
        seen.lock().unwrap().push(cx.lease().unwrap());
        Err(Failure::snooze(secs(60)))
    });
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    queue.push(1, When::Now).await.unwrap();
    bus.advance(secs(300)).await;
    let leases = leases.lock().unwrap();
    let different: BTreeSet<_> = leases.iter().collect();
    assert_eq!((leases.len(), different.len()), (6, 6));
    assert!(leases.iter().all(|lease| lease.node == bus.node_id()));
}

async fn retry_after_overrules_the_backoff(world: World) {
    let probe = Probe::<u64>::answering(|_event, _cx| {
        Err(Failure::retry_after(secs(100), "the bank is closed"))
    });
    let (bus, queue) = world.serve(ORDERS.attempts(3), &probe).await;
    queue.push(1, When::Now).await.unwrap();
    bus.advance(secs(3_600)).await;
    assert_eq!(probe.times(), [0, 100, 200].map(secs));
}

async fn an_event_may_have_attempts_of_its_own(world: World) {
    let probe = Probe::<u64>::answering(|_event, _cx| Err(Failure::retry("no")));
    let (bus, queue) = world.serve(ORDERS.attempts(2), &probe).await;
    queue.event(1).attempts(4).push().await.unwrap();
    bus.advance(secs(3_600)).await;
    assert_eq!(probe.count(), 4);
}

async fn attempts_outside_their_bounds_are_refused(world: World) {
    let (_bus, queue) = world.push_only("orders").await;
    let error = queue.event(1_u64).attempts(0).push().await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("1 to 65535"), "{error}");
    queue.event(1).attempts(u16::MAX).push().await.unwrap();
}

async fn attempts_survive_a_restart(mut world: World) {
    for attempt in 1..=3 {
        let probe = Probe::<u64>::answering(|_event, _cx| Err(Failure::retry("no")));
        let (bus, queue) = world.serve(ORDERS.attempts(3), &probe).await;
        if attempt == 1 {
            queue.push(1, When::Now).await.unwrap();
        }
        bus.advance(ms(1_000)).await;
        bus.shutdown(secs(1)).await.unwrap();
        let numbers: Vec<_> = probe.seen().iter().map(|seen| seen.attempt).collect();
        match attempt {
            1 => assert_eq!(numbers, [1, 2]),
            2 => assert_eq!(numbers, [3]),
            _ => assert!(numbers.is_empty()),
        }
        drop((bus, queue));
        world = world.restart();
    }
}

async fn a_time_out_drops_the_handler_where_it_waits(world: World) {
    let probe = Probe::<u64>::taking(secs(3_600));
    let orders = ORDERS.attempts(1).timeout(secs(30));
    let (bus, queue) = world.serve(orders, &probe).await;
    queue.push(1, When::Now).await.unwrap();
    bus.advance(secs(60)).await;
    let seen = probe.seen();
    let ended = seen[0].ended.unwrap();
    // The deadline board looks every 10 ms, and gives a handler two ticks more.
    assert!(ended >= secs(30), "{ended:?}");
    assert!(ended <= secs(30) + Duration::from_millis(30), "{ended:?}");
    assert_eq!(probe.running_now(), 0);
}

/// The note is what counts the attempt of a handler that kills its process.
async fn each_start_is_noted_before_its_handler_runs(world: World) {
    let way = Faulty::to(&world.store);
    let noted = Arc::clone(&way);
    let probe = Probe::<u64>::answering(move |_event, _cx| {
        let notes = noted.notes.load(Ordering::Relaxed);
        Err(Failure::discard(notes.to_string()))
    });
    let builder = Bus::builder().only_registered().shared_store(way as _);
    let bus = world
        .start(builder.register_as(ORDERS, probe.clone()))
        .await;
    let queue = bus.queue_named("orders").unwrap();
    for n in 1..=3 {
        let id = queue.push(n, When::Now).await.unwrap().id();
        bus.settle().await;
        let history = bus.history(id).await.unwrap();
        assert_eq!(history[0].error, Some(n.to_string()), "notes so far");
    }
    assert_eq!(probe.count(), 3);
}
