//! A page of metrics for the whole program, and buses that tell it.

use std::sync::LazyLock;
use std::time::Duration;

use duly::metrics::{MetricsChoices, Prometheus};
use duly::prelude::*;
use duly::{Annotation, BusBuilder, Result as Answered};

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The one recorder of this program.
pub(crate) static PAGE: LazyLock<Prometheus> =
    LazyLock::new(|| Prometheus::install().expect("nobody else has installed one"));

/// Held by a test whose buses tell what the others' buses tell as well.
pub(crate) static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Does nothing.
#[derive(Clone, Default)]
pub(crate) struct Nothing;

impl Handler for Nothing {
    type Payload = u64;

    async fn handle(&self, _event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        Ok(())
    }
}

/// A bus that counts ten times a second.
pub(crate) fn counting(url: &str) -> BusBuilder {
    LazyLock::force(&PAGE);
    let choices = MetricsChoices {
        depths_every: Some(Duration::from_millis(100)),
        ..MetricsChoices::default()
    };
    let builder = Bus::builder().only_registered();
    builder
        .settings(Default::default())
        .store_url(url)
        .metrics(choices)
}

/// As [`counting`], with a handler for a queue, which is paused before anything is pushed to it.
pub(crate) async fn paused(url: &str, queue: &'static str) -> Bus {
    let builder = counting(url).register_as(Annotation::new(queue).buckets(16), Nothing);
    let bus = builder.start().await.expect("a start");
    bus.pause(queue).await.expect("a pause");
    bus
}

/// Pushes one event due after each of these.
pub(crate) async fn push(bus: &Bus, queue: &str, delays: &[Duration]) -> Answered<()> {
    let queue = bus.queue_named::<u64>(queue)?;
    for delay in delays {
        queue.event(7).after(*delay).push().await?;
    }
    Ok(())
}

/// What the page says of a gauge, by its labels as they stand there; `None`: it is not there.
pub(crate) fn gauge(name: &str, labels: &str) -> Option<f64> {
    let start = match labels {
        "" => format!("{name} "),
        labels => format!("{name}{{{labels}}} "),
    };
    let page = PAGE.render();
    let line = page.lines().find_map(|line| line.strip_prefix(&start));
    line.map(|value| value.parse().expect("a number"))
}

/// How many events of a queue the page says are in a state.
pub(crate) fn depth(queue: &str, state: &str) -> Option<f64> {
    gauge(
        "duly_queue_depth",
        &format!("queue=\"{queue}\",state=\"{state}\""),
    )
}

/// Asks again until it is so.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let asked = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, asked).await;
    assert!(waited.is_ok(), "not in time: {what}\n{}", PAGE.render());
}

/// Asks again until it has been so for several samples: nodes that have just come do not agree at
/// once on who counts what.
pub(crate) async fn settled(what: &str, mut holds: impl FnMut() -> bool) {
    let mut looks = 0;
    until(what, || {
        looks = if holds() { looks + 1 } else { 0 };
        looks == 100
    })
    .await;
}

pub(crate) async fn stop(bus: &Bus) {
    bus.shutdown(PATIENCE).await.expect("a stop");
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
