//! Consumers that pull, beside a subscriber, a metrics recorder or a store that panics: it costs the
//! call in which it does, at most.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duly::lease::{LeaseOutcome, LeaseStatus, LeaseToken, Leased};
use duly::prelude::*;
use duly::testing::TestBus;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

use super::neighbours::{CLOSED, ENTERED, LINES, NEW_SPANS, Panicking};
use crate::faulty::{Fault, Faulty};
use crate::world::{World, ms, secs};

over_every_store! { a_panic_beside_one_call_ends_no_other }

#[tokio::test(start_paused = true)]
async fn shared() {
    a_panic_beside_one_call_ends_no_other(World::shared()).await;
}

/// When a recorder panics: when it is asked for a metric, or told of one.
const REGISTERED: usize = 11;
const COUNTED: usize = 12;
pub(super) const RECORDER: [usize; 2] = [REGISTERED, COUNTED];
const SUBSCRIBER: [usize; 4] = [LINES, NEW_SPANS, ENTERED, CLOSED];
/// When a store does: at a call, later, or at the note of a start.
const CALLED: usize = 21;
const POLLED: usize = 22;
const STARTED: usize = 23;
const STORE: [usize; 3] = [CALLED, POLLED, STARTED];

/// The call beside which it panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    Lease,
    /// What is fetched has expired.
    LeaseExpired,
    Extend,
    Ack,
}

async fn a_panic_beside_one_call_ends_no_other(world: World) {
    let when: &'static AtomicUsize = Box::leak(Box::default());
    let panicking = Panicking(when);
    let _counted_here = metrics::set_default_local_recorder(&panicking);
    let subscriber = Registry::default().with(Panicking(when));
    let _heard_here = tracing::subscriber::set_default(subscriber);
    let way = Faulty::to(&world.store);
    let builder = Bus::builder().only_registered().publish_only();
    let bus = world.start(builder.shared_store(way.clone())).await;
    let misdeeds = RECORDER.into_iter().chain(SUBSCRIBER).chain(STORE);
    for misdeed in misdeeds {
        for call in [Call::Lease, Call::LeaseExpired, Call::Extend, Call::Ack] {
            let is_on = |is_on: bool| {
                when.store(if is_on { misdeed } else { 0 }, Ordering::Relaxed);
                way.is(match misdeed {
                    CALLED if is_on => Fault::Panics,
                    POLLED if is_on => Fault::PanicsLater,
                    _ => Fault::None,
                });
                way.notes_panic
                    .store(is_on && misdeed == STARTED, Ordering::Relaxed);
            };
            let is_done = beside(&bus, (misdeed, call), is_on).await;
            // What is only reported to is told less, and that is all.
            let is_reporter = !STORE.contains(&misdeed);
            assert!(is_done || !is_reporter, "{call:?} beside {misdeed}");
        }
    }
    bus.shutdown(secs(1)).await.unwrap();
}

/// Makes a call beside a misdeed, and others without it: each event is leased once, and ends. Returns
/// whether the call succeeded.
async fn beside(bus: &TestBus, cell: (usize, Call), is_on: impl Fn(bool)) -> bool {
    let (misdeed, call) = cell;
    // Of its own, so that its metrics are new as well.
    let queue = bus.queue_named::<u64>(&format!("{call:?}-{misdeed}"));
    let queue = queue.unwrap();
    let first = match call {
        Call::LeaseExpired => queue.event(1).expires_after(ms(1)),
        _ => queue.event(1),
    };
    let first = first.push().await.unwrap().id();
    bus.advance(ms(10)).await;
    let mut tokens = Vec::new();
    if matches!(call, Call::Extend | Call::Ack) {
        tokens = tokens_of(&lease(&queue).await.unwrap());
    }

    is_on(true);
    let (asked, from) = (Bus::clone(bus), queue.clone());
    let held = tokens.clone();
    let called = tokio::spawn(async move {
        match call {
            Call::Lease | Call::LeaseExpired => lease(&from).await,
            Call::Extend => {
                let status = asked.extend_lease(&held[0], secs(90)).await?;
                assert_eq!(status, LeaseStatus::Held);
                Ok(Vec::new())
            }
            Call::Ack => {
                ack(&asked, &held[0]).await?;
                Ok(Vec::new())
            }
        }
    });
    let called = called.await.map(Result::ok).ok().flatten();
    is_on(false);

    tokens.extend(called.iter().flat_map(|leased| tokens_of(leased)));
    let second = queue.push(2, When::Now).await.unwrap().id();
    for _ in 0..10 {
        for token in std::mem::take(&mut tokens) {
            ack(bus, &token).await.unwrap();
        }
        let ended = bus.outcomes(second).await.unwrap();
        if !ended.is_empty() && !bus.outcomes(first).await.unwrap().is_empty() {
            break;
        }
        let more = queue.lease(10, secs(60)).wait(secs(20)).send().await;
        let more = more.unwrap_or_else(|error| panic!("{cell:?}, the next lease: {error}"));
        assert!(more.iter().all(|it| it.attempt() == 1), "{cell:?}");
        tokens.extend(tokens_of(&more));
    }
    let end = match call {
        Call::LeaseExpired => Outcome::Expired,
        _ => Outcome::Acked,
    };
    assert_eq!(bus.outcomes(first).await.unwrap(), [end], "{cell:?}");
    assert_eq!(bus.outcomes(second).await.unwrap(), [Outcome::Acked]);
    called.is_some()
}

async fn lease(queue: &Queue<u64>) -> duly::Result<Vec<Leased<u64>>> {
    queue.lease(10, secs(60)).send().await
}

fn tokens_of(leased: &[Leased<u64>]) -> Vec<LeaseToken> {
    leased.iter().map(|it| it.token().clone()).collect()
}

async fn ack(bus: &Bus, token: &LeaseToken) -> duly::Result<()> {
    let status = bus.settle_lease(token, LeaseOutcome::Ack).await?;
    assert_eq!(status, LeaseStatus::Held);
    Ok(())
}

impl CounterFn for Panicking {
    fn increment(&self, _: u64) {
        self.at(COUNTED);
    }

    fn absolute(&self, _: u64) {
        self.at(COUNTED);
    }
}

impl GaugeFn for Panicking {
    fn increment(&self, _: f64) {
        self.at(COUNTED);
    }

    fn decrement(&self, _: f64) {
        self.at(COUNTED);
    }

    fn set(&self, _: f64) {
        self.at(COUNTED);
    }
}

impl HistogramFn for Panicking {
    fn record(&self, _: f64) {
        self.at(COUNTED);
    }
}

impl Recorder for Panicking {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        self.at(REGISTERED);
        Counter::from_arc(Arc::new(Self(self.0)))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        self.at(REGISTERED);
        Gauge::from_arc(Arc::new(Self(self.0)))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        self.at(REGISTERED);
        Histogram::from_arc(Arc::new(Self(self.0)))
    }
}
