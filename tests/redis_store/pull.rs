//! Consumers that pull, in several processes on one server.

#![allow(clippy::disallowed_methods)] // real time: the server has no other

use std::time::{Duration, Instant};

use duly::Bus;
use duly::lease::{EndResult, LeaseOutcome, LeaseStatus, LeaseToken, Leased};
use duly::prelude::*;

use crate::redis_store::kit::{builder, fresh, pusher, stop, until};
use crate::servers::{self, Redis, RedisOptions};

const LONG: Duration = Duration::from_secs(60);

async fn one(queue: &Queue<String>, wait: Duration, ttr: Duration) -> Leased<String> {
    let leased = queue.lease(1, ttr).wait(wait).send().await.unwrap();
    assert_eq!(leased.len(), 1);
    leased.into_iter().next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_in_another_process_is_woken_by_the_push() {
    let (url, _) = fresh(&servers::shared().url());
    let (bus, queue) = pusher(&url).await;
    let (other, elsewhere) = pusher(&url).await;
    for _ in 0..3 {
        let waiting = tokio::spawn(elsewhere.lease(1, LONG).wait(LONG).send());
        let began = Instant::now();
        queue.push("a letter".to_owned(), When::Now).await.unwrap();
        let leased = waiting.await.unwrap().unwrap();
        assert_eq!(leased[0].ack().await.unwrap(), LeaseStatus::Held);
        assert!(began.elapsed() < Duration::from_secs(5), "not by a poll");
    }
    stop(&bus).await;
    stop(&other).await;
}

/// What makes an event ready that was not.
#[derive(Clone, Copy, Debug)]
enum Readied {
    Rescheduled,
    Revived,
    Released,
    Retried,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_in_another_process_is_woken_by_whatever_makes_an_event_ready() {
    let (url, _) = fresh(&servers::shared().url());
    let (bus, queue) = pusher(&url).await;
    let (other, elsewhere) = pusher(&url).await;
    for by in [
        Readied::Rescheduled,
        Readied::Revived,
        Readied::Released,
        Readied::Retried,
    ] {
        let delay = match by {
            Readied::Rescheduled => LONG * 60,
            _ => Duration::ZERO,
        };
        let id = queue.push("a letter".to_owned(), delay).await.unwrap().id();
        let held = match by {
            Readied::Rescheduled => None,
            _ => Some(one(&queue, Duration::ZERO, LONG).await),
        };
        if let (Readied::Revived, Some(held)) = (by, &held) {
            assert_eq!(held.bury("no address").await.unwrap(), LeaseStatus::Held);
        }
        let waiting = tokio::spawn(elsewhere.lease(1, LONG).wait(LONG).send());
        tokio::time::sleep(Duration::from_millis(300)).await; // it has looked, and waits
        assert!(!waiting.is_finished(), "{by:?}");
        let began = Instant::now();
        match (by, held) {
            (Readied::Released, Some(held)) => {
                assert_eq!(held.release().await.unwrap(), LeaseStatus::Held);
            }
            (Readied::Retried, Some(held)) => {
                let again = held.retry_after(Duration::ZERO, "not yet").await;
                assert_eq!(again.unwrap(), LeaseStatus::Held);
            }
            (Readied::Revived, _) => {
                let letters = bus.dead_letters().queue(queue.name());
                assert_eq!(letters.revive([id]).await.unwrap().done, 1);
            }
            _ => {
                let moved = queue.reschedule(id, When::Now).await.unwrap();
                assert!(matches!(moved, ChangeOutcome::Changed(_)), "{moved:?}");
            }
        }
        let leased = waiting.await.unwrap().unwrap();
        assert_eq!(leased[0].id(), id, "{by:?}");
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{by:?}: not by a poll"
        );
        assert_eq!(leased[0].ack().await.unwrap(), LeaseStatus::Held);
    }
    stop(&bus).await;
    stop(&other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_process_has_pushed_is_seen_without_a_wait() {
    let (url, _) = fresh(&servers::shared().url());
    let (bus, queue) = pusher(&url).await;
    let (other, elsewhere) = pusher(&url).await;
    for number in 0..50 {
        queue.push(number.to_string(), When::Now).await.unwrap();
        let leased = one(&elsewhere, Duration::ZERO, LONG).await;
        assert_eq!(leased.event().payload, number.to_string());
    }
    assert!(queue.lease(1, LONG).send().await.unwrap().is_empty());
    stop(&bus).await;
    stop(&other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_outlives_the_process_that_pulled_and_its_token_serves_any_other() {
    let (url, _) = fresh(&servers::shared().url());
    let (bus, queue) = pusher(&url).await;
    let id = queue
        .push("a letter".to_owned(), When::Now)
        .await
        .unwrap()
        .id();
    let leased = one(&queue, Duration::ZERO, LONG).await;
    let token: LeaseToken = leased.token().to_string().parse().unwrap();
    drop((leased, queue));
    drop(bus); // without a stop

    let (other, queue) = pusher(&url).await;
    assert!(queue.lease(1, LONG).send().await.unwrap().is_empty());
    let second = Duration::from_secs(1);
    let extended = other.extend_lease(&token, second).await.unwrap();
    assert_eq!(extended, LeaseStatus::Held);
    let again = one(&queue, LONG, LONG).await;
    assert_eq!((again.id(), again.attempt()), (id, 2));
    let late = other.settle_lease(&token, LeaseOutcome::Ack).await.unwrap();
    assert_eq!(late, LeaseStatus::Lost);
    assert_eq!(queue.end(id).await.unwrap(), EndResult::Acked);
    // It was ended under this lease, so this is the same settle once more.
    assert_eq!(again.ack().await.unwrap(), LeaseStatus::Held);
    stop(&other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ends_is_taken_back_soon_and_never_early() {
    let (url, _) = fresh(&servers::shared().url());
    let (bus, queue) = pusher(&url).await;
    let pushed = queue.event("a letter".to_owned()).attempts(1);
    pushed.push().await.unwrap();
    let began = Instant::now();
    let ttr = Duration::from_millis(1_500);
    let leased = one(&queue, Duration::ZERO, ttr).await;
    until("it is a dead letter", async || {
        bus.stats("letters").await.unwrap().dead == 1
    })
    .await;
    assert!(began.elapsed() >= ttr, "{:?}", began.elapsed());
    assert_eq!(leased.ack().await.unwrap(), LeaseStatus::Lost);
    stop(&bus).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_reaches_who_waits_in_another_process() {
    let (url, _) = fresh(&servers::shared().url());
    let (bus, queue) = pusher(&url).await;
    let other: Bus = builder(&url).publish_only().start().await.unwrap();
    let elsewhere = other.queue_named::<String>("letters").unwrap();
    bus.pause("letters").await.unwrap();
    until("the other one knows", async || {
        queue.push("a letter".to_owned(), When::Now).await.unwrap();
        elsewhere.lease(1, LONG).send().await.unwrap().is_empty()
    })
    .await;
    let waiting = tokio::spawn(elsewhere.lease(1, LONG).wait(LONG).send());
    bus.resume("letters").await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().len(), 1);
    stop(&bus).await;
    stop(&other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_one_call_lie_in_one_bucket() {
    let (url, _) = fresh(&servers::shared().url());
    let bus: Bus = builder(&url).publish_only().start().await.unwrap();
    let queue = bus.queue_named::<u64>("_ns.-q").unwrap();
    let sent = queue
        .push_many((0..64).map(|it| queue.event(it)), When::Now)
        .all_or_none()
        .await;
    assert_eq!(sent.unwrap().len(), 64);
    let leased = queue.lease(64, LONG).send().await.unwrap();
    assert_eq!(
        leased.len(),
        64,
        "one fetch takes what one push has brought"
    );
    stop(&bus).await;
}

/// How many functions the server has run.
fn scripts(server: &Redis) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let calls = stats.split("cmdstat_fcall:calls=").nth(1);
    let calls = calls.and_then(|rest| rest.split(',').next()?.parse().ok());
    calls.expect("functions were run")
}

#[tokio::test(flavor = "multi_thread")]
async fn settlements_that_come_together_share_calls_and_each_has_its_own_reply() {
    const EVENTS: usize = 500;
    let server = Redis::start(RedisOptions::default());
    let (bus, queue) = pusher(&server.url()).await;
    let payloads = (0..EVENTS).map(|number| number.to_string());
    queue.push_many(payloads, Duration::ZERO).await.unwrap();
    let mut leased = Vec::new();
    until("all are leased", async || {
        leased.extend(queue.lease(EVENTS, LONG).send().await.unwrap());
        leased.len() == EVENTS
    })
    .await;
    let tokens: Vec<LeaseToken> = leased.iter().map(|it| it.token().clone()).collect();
    let before = scripts(&server);

    let settle = |token: &LeaseToken, outcome| {
        let (bus, token) = (bus.clone(), token.clone());
        tokio::spawn(async move { bus.settle_lease(&token, outcome).await.unwrap() })
    };
    // Half of them, each twice with the same outcome, which changes nothing.
    let half = tokens.iter().step_by(2).flat_map(|token| [token, token]);
    let acks: Vec<_> = half.map(|it| settle(it, LeaseOutcome::Ack)).collect();
    for ack in acks {
        assert_eq!(ack.await.unwrap(), LeaseStatus::Held);
    }
    // Then all together: every other one is over.
    let rest = tokens
        .iter()
        .map(|it| settle(it, LeaseOutcome::Snooze(LONG)));
    for (at, snooze) in rest.collect::<Vec<_>>().into_iter().enumerate() {
        let expected = [LeaseStatus::Lost, LeaseStatus::Held][at % 2];
        assert_eq!(snooze.await.unwrap(), expected, "{at}");
    }
    let calls = scripts(&server) - before;
    let settlements = (EVENTS * 2) as u64;
    assert!(calls < settlements / 2, "{calls} calls");
    let stats = bus.stats(queue.name()).await.unwrap();
    let waiting = (stats.leased, stats.ready, stats.scheduled);
    assert_eq!(waiting, (0, 0, EVENTS / 2));
    stop(&bus).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_this_process_leased_ends_in_one_call() {
    let server = Redis::start(RedisOptions::default());
    let (bus, queue) = pusher(&server.url()).await;
    let ended = async |times: u64| {
        let id = queue
            .push("a letter".to_owned(), When::Now)
            .await
            .unwrap()
            .id();
        let leased = one(&queue, LONG, LONG).await;
        assert_eq!(leased.id(), id);
        let before = scripts(&server);
        for time in 0..times {
            let result = queue.end(id).await.unwrap();
            match time {
                0 => assert_eq!(result, EndResult::Acked),
                _ => assert_ne!(result, EndResult::Acked),
            }
        }
        scripts(&server) - before
    };
    // Heartbeats and polls of the bus may fall into one of them.
    let (mut once, mut twice) = (u64::MAX, u64::MAX);
    for _ in 0..10 {
        once = once.min(ended(1).await);
        twice = twice.min(ended(2).await);
    }
    assert_eq!((once, twice), (1, 2));
    stop(&bus).await;
}
