//! What it costs to be watched: the same work with metrics and traces taken and without.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use duly::metrics::Prometheus;
use duly::{Bus, BusBuilder};
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Subscriber};

use crate::Result;
use crate::drain::draining;
use crate::push::{one_by_one, pushing};
use crate::scene::{Kept, Plan};
use crate::table::Rates;
use crate::watch::Took;

static RECORDER: OnceLock<Prometheus> = OnceLock::new();
/// Whether metrics are taken of a bus that is started now.
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
        name: "metrics, told to the exporter",
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
    let prometheus = install()?;
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
    if !prometheus.render().contains("duly_settled_total") {
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

/// A recorder that no bus has yet, and a subscriber that can be turned off.
fn install() -> Result<Prometheus> {
    let prometheus = Prometheus::new()?;
    tracing::subscriber::set_global_default(Dropped::default())?;
    Ok(RECORDER.get_or_init(|| prometheus).clone())
}

/// Starts a bus that tells the recorder what it does, if metrics are on, and else tells nobody.
///
/// A bus looks its recorder up when it starts. So the recorder is there for this thread, and the
/// bus is started on this thread alone.
pub(crate) async fn started(builder: BusBuilder) -> duly::Result<Bus> {
    match RECORDER.get().filter(|_| METRICS.load(Ordering::Relaxed)) {
        None => builder.start().await,
        Some(recorder) => block_in_place(|| {
            metrics::with_local_recorder(recorder, || Handle::current().block_on(builder.start()))
        }),
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
