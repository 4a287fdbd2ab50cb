//! What it costs to be watched: the same work with metrics and traces taken and without.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use duly::metrics::{CATALOGUE, Kind};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber, subscriber::Interest};

use crate::Result;
use crate::drain::draining;
use crate::push::{one_by_one, pushing};
use crate::scene::{Kept, Plan};
use crate::table::Rates;
use crate::watch::Took;

/// Whether metrics are taken by a bus that is started now.
static METRICS: AtomicBool = AtomicBool::new(false);
/// Whether spans and events of `INFO` and above are taken.
static TRACES: AtomicBool = AtomicBool::new(false);

/// Who watches.
#[derive(Clone, Copy)]
struct Watched {
    name: &'static str,
    metrics: bool,
    traces: bool,
}

const WATCHED: [Watched; 4] = [
    Watched {
        name: "neither",
        metrics: false,
        traces: false,
    },
    Watched {
        name: "metrics, a Prometheus recorder",
        metrics: true,
        traces: false,
    },
    Watched {
        name: "traces, at INFO, and dropped",
        metrics: false,
        traces: true,
    },
    Watched {
        name: "both",
        metrics: true,
        traces: true,
    },
];

/// As many passes of each as of others, and more: what is looked for is small.
const MORE: usize = 4;

pub(crate) async fn run(plan: Plan) -> Result {
    let handle = install()?;
    let upkeep = tokio::spawn(upkeep(handle.clone()));
    for kept in Kept::ALL {
        let mut pushed = WATCHED.map(|_| Vec::new());
        let mut drained = WATCHED.map(|_| Vec::new());
        // One after the other in each pass, so that what disturbs one disturbs all.
        for pass in 0..plan.passes * MORE {
            for at in 0..WATCHED.len() {
                let at = (at + pass) % WATCHED.len();
                METRICS.store(WATCHED[at].metrics, Ordering::Relaxed);
                TRACES.store(WATCHED[at].traces, Ordering::Relaxed);
                tracing::callsite::rebuild_interest_cache();
                pushed[at].push(pushing(kept, plan.singles, one_by_one).await?);
                drained[at].push(draining(kept, plan.events, Ok).await?.1);
                handle.run_upkeep();
            }
        }
        METRICS.store(false, Ordering::Relaxed);
        TRACES.store(false, Ordering::Relaxed);
        tracing::callsite::rebuild_interest_cache();
        show("push, one by one, 64 in flight", kept, plan.singles, pushed);
        show(
            "drain a backlog of 4 queues, settled too",
            kept,
            plan.events,
            drained,
        );
    }
    upkeep.abort();
    if !handle.render().contains("duly_settled_total") {
        return Err(crate::wrong("nothing was told to the recorder".to_owned()));
    }
    Ok(())
}

fn show(what: &str, kept: Kept, events: usize, took: [Vec<Took>; WATCHED.len()]) {
    let mut table = Rates::titled(&format!("metrics: {what}; {}", kept.name()));
    for (watched, took) in WATCHED.into_iter().zip(took) {
        table.line(watched.name, events, took);
    }
}

/// What the exporter does by itself.
async fn upkeep(handle: PrometheusHandle) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle.run_upkeep();
    }
}

/// Installs a recorder and a subscriber that can be turned off.
fn install() -> Result<PrometheusHandle> {
    let mut builder = PrometheusBuilder::new();
    for metric in CATALOGUE {
        if let Kind::Histogram(bounds) = metric.kind {
            let name = Matcher::Full(metric.name.to_owned());
            builder = builder.set_buckets_for_metric(name, bounds)?;
        }
    }
    let real = builder.build_recorder();
    let handle = real.handle();
    metrics::set_global_recorder(Switched(real))?;
    tracing::subscriber::set_global_default(Dropped::default())?;
    Ok(handle)
}

/// A recorder whose handles do nothing where metrics are off.
struct Switched(PrometheusRecorder);

impl Recorder for Switched {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.0.describe_counter(name, unit, help);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.0.describe_gauge(name, unit, help);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.0.describe_histogram(name, unit, help);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        match METRICS.load(Ordering::Relaxed) {
            true => self.0.register_counter(key, metadata),
            false => Counter::noop(),
        }
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        match METRICS.load(Ordering::Relaxed) {
            true => self.0.register_gauge(key, metadata),
            false => Gauge::noop(),
        }
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        match METRICS.load(Ordering::Relaxed) {
            true => self.0.register_histogram(key, metadata),
            false => Histogram::noop(),
        }
    }
}

/// A subscriber that takes what is said at `INFO` and above, and drops it.
#[derive(Default)]
struct Dropped {
    spans: AtomicU64,
}

impl Subscriber for Dropped {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        TRACES.load(Ordering::Relaxed) && *metadata.level() <= Level::INFO
    }

    fn register_callsite(&self, metadata: &'static tracing::Metadata<'static>) -> Interest {
        match self.enabled(metadata) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, _event: &Event<'_>) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}
