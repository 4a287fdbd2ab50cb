//! The cost of metrics and traces: the same work with and without them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use duly::BusBuilder;
use duly::metrics::Prometheus;
use duly::prelude::*;
use metrics_exporter_prometheus::{PrometheusHandle, PrometheusRecorder};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Level, Subscriber};

use crate::Result;
use crate::drain::drained;
use crate::push::one_by_one;
use crate::scene::{Counts, Kept, Plan, QUEUES, Tally, bare_builder, queues, start_with};
use crate::table::Pairs;
use crate::watch::{Stopwatch, Took};

static RECORDER: OnceLock<PrometheusRecorder> = OnceLock::new();
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

/// As many turns as there are of each in a pass, which has two buses of its own.
const ROUNDS: usize = 10;

/// What a turn took: to push its events, to work them off, and both.
type Turn = [Took; 3];

/// What is looked for is smaller than what differs from one bus to the next and from one second to
/// the next. So two buses live side by side, of which one is watched, and work in short turns, each
/// of which is compared with its neighbour that nobody watched; and there are several such pairs.
pub(crate) async fn run(plan: Plan) -> Result {
    let prometheus = install()?;
    for kept in Kept::ALL {
        // A tenth of a second each.
        let events = match kept {
            Kept::Memory => plan.singles / 2,
            Kept::Embedded => plan.singles / 10,
        };
        let mut rounds = Vec::new();
        for pass in 0..plan.passes * 2 {
            rounds.extend(side_by_side(kept, pass, events).await?);
        }
        for (at, what) in [
            "push, one by one, 64 in flight, due at once",
            "drain a backlog of 4 queues, settled too",
            "the one and then the other",
        ]
        .into_iter()
        .enumerate()
        {
            let mut table = Pairs::titled(&format!("metrics: {what}; {}", kept.name()));
            for (watched, name) in WATCHED.iter().map(|watched| watched.name).enumerate() {
                let pair = |round: &[Turn; WATCHED.len()]| (round[0][at], round[watched][at]);
                let took: Vec<_> = rounds.iter().map(pair).collect();
                table.line(name, events, &took);
            }
        }
    }
    if !prometheus.render().contains("duly_settled_total") {
        return Err(crate::wrong("nothing was told to the recorder".to_owned()));
    }
    Ok(())
}

/// One pair of buses, and what each turn of them took.
async fn side_by_side(
    kept: Kept,
    pass: usize,
    events: usize,
) -> Result<Vec<[Turn; WATCHED.len()]>> {
    let mut crews = Vec::new();
    for metrics in [false, true] {
        METRICS.store(metrics ^ (pass % 2 == 1), Ordering::Relaxed);
        crews.push(Crew::start(kept).await?);
    }
    METRICS.store(false, Ordering::Relaxed);
    if pass % 2 == 1 {
        crews.reverse();
    }
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        let mut took = WATCHED.map(|_| Turn::default());
        for at in 0..WATCHED.len() {
            let at = (at + round) % WATCHED.len();
            let Watched {
                metrics, traces, ..
            } = WATCHED[at];
            TRACES.store(traces, Ordering::Relaxed);
            tracing::callsite::rebuild_interest_cache();
            took[at] = crews[usize::from(metrics)].turn(events).await?;
        }
        rounds.push(took);
    }
    TRACES.store(false, Ordering::Relaxed);
    tracing::callsite::rebuild_interest_cache();
    for crew in crews {
        crew.bus.shutdown(Duration::from_secs(5)).await?;
    }
    rounds.remove(0); // to warm up
    Ok(rounds)
}

/// A bus with what it has handled, and the folder of its store.
struct Crew {
    bus: Bus,
    tally: Arc<Tally>,
    _folder: TempDir,
}

impl Crew {
    async fn start(kept: Kept) -> Result<Self> {
        let (url, folder) = kept.fresh()?;
        let tally = Arc::new(Tally::default());
        let counts = || Counts(Arc::clone(&tally));
        let bus = start_with(bare_builder(&url), &QueueChoices::default(), counts).await?;
        Ok(Self {
            bus,
            tally,
            _folder: folder,
        })
    }

    async fn turn(&self, events: usize) -> Result<Turn> {
        let before = self.tally.total();
        for queue in QUEUES {
            self.bus.set_workers(queue, 0)?;
        }
        let watch = Stopwatch::start();
        one_by_one(queues(&self.bus)?, events, Duration::ZERO).await?;
        let pushed = watch.took();
        let drained = drained(&self.bus, || self.tally.total() - before >= events)
            .await?
            .1;
        Ok([pushed, drained, pushed + drained])
    }
}

/// A recorder that no bus has yet, and a subscriber that can be turned off.
fn install() -> Result<PrometheusHandle> {
    let recorder = Prometheus::builder().build_recorder();
    let (handle, upkeep) = (recorder.handle(), recorder.handle());
    thread::spawn(move || {
        loop {
            thread::sleep(Duration::from_secs(5)); // as often as the exporter of a bus
            upkeep.run_upkeep();
        }
    });
    tracing::subscriber::set_global_default(Dropped::default())?;
    RECORDER.get_or_init(|| recorder);
    Ok(handle)
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
        if self.enabled(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, _event: &tracing::Event<'_>) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}
