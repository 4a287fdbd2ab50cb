//! The exporter: what Prometheus reads.

mod buckets;
mod count;
mod families;
mod guest;
mod serve;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread;
use std::time::Duration;

use ::metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use self::buckets::Buckets;
use self::count::Count;
use self::families::Families;
use crate::error::{Error, ErrorKind, Result};

/// How often what histograms have taken in is put into their buckets, where nobody scrapes.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// The exporter of a process: it takes in whatever is told of metrics, and renders it for
/// Prometheus.
///
/// A bus starts one by itself where the settings have a `metrics.listen`. This is for a program
/// that has a web server already and serves the page there.
///
/// Once [installed](Self::install) it is the recorder of the whole process: metrics of the program
/// itself, told by the crate `metrics`, are on the page as well. Histograms of the
/// [catalogue](crate::metrics::CATALOGUE) have real buckets, so those of several processes can be
/// added. What was told once stays on the page until the process ends; gauges of a queue that
/// nobody consumes here any more are 0.
///
/// It is a [`Recorder`] of the crate `metrics`, so a program can put layers around a
/// [new](Self::new) one and install the whole. Clones are the same exporter.
///
/// # Examples
///
/// ```
/// use duly::prelude::*;
/// use duly::metrics::Prometheus;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> duly::Result<()> {
/// let prometheus = Prometheus::install()?; // before the bus starts
/// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
/// bus.queue_named::<u64>("orders")?.push_now(7).await?;
///
/// let page = prometheus.render(); // what `GET /metrics` answers, as `text/plain`
/// # assert!(page.contains("duly_pushed_total{queue=\"orders\"} 1"));
/// # bus.shutdown(std::time::Duration::from_secs(1)).await
/// # }
/// ```
#[derive(Clone)]
pub struct Prometheus(Arc<Inner>);

struct Inner {
    /// Gauges, and whatever is not of the catalogue.
    exporter: PrometheusRecorder,
    counters: Families<Count>,
    histograms: Families<Buckets>,
}

impl Prometheus {
    /// One that nobody tells anything yet. A thread of its own does its upkeep.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unavailable`] when the system has no thread to give.
    pub fn new() -> Result<Self> {
        let inner = Arc::new(Inner {
            exporter: PrometheusBuilder::new().build_recorder(),
            counters: Families::new(),
            histograms: Families::new(),
        });
        let kept = Arc::downgrade(&inner);
        spawn(move || keep_up(&kept))?;
        Ok(Self(inner))
    }

    /// Makes a new one the recorder of this process.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Conflict`] when the process has a recorder already: another one of these, or
    /// one of the program's own, which stays. [`ErrorKind::Unavailable`] when the system has no
    /// thread to give.
    pub fn install() -> Result<Self> {
        let prometheus = Self::new()?;
        ::metrics::set_global_recorder(prometheus.clone()).map_err(|_| {
            let context = "this process has a metrics recorder already, and keeps it";
            Error::new(ErrorKind::Conflict, context)
        })?;
        super::describe();
        Ok(prometheus)
    }

    /// The page, in the text format of Prometheus.
    #[must_use]
    pub fn render(&self) -> String {
        let mut page = self.0.exporter.handle().render();
        self.0.counters.write(&mut page);
        self.0.histograms.write(&mut page);
        page
    }
}

impl fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prometheus").finish_non_exhaustive()
    }
}

/// Counters and histograms of the catalogue are counted here, and the exporter has all the rest.
///
/// One of the catalogue's names with other labels than it says is taken in by nobody: a page has
/// each name once.
impl Recorder for Prometheus {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        if !self.0.counters.have(name.as_str()) {
            self.0.exporter.describe_counter(name, unit, help);
        }
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.0.exporter.describe_gauge(name, unit, help);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        if !self.0.histograms.have(name.as_str()) {
            self.0.exporter.describe_histogram(name, unit, help);
        }
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        if !self.0.counters.have(key.name()) {
            return self.0.exporter.register_counter(key, metadata);
        }
        let series = self.0.counters.series(key);
        series.map_or_else(Counter::noop, Counter::from_arc)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.0.exporter.register_gauge(key, metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        if !self.0.histograms.have(key.name()) {
            return self.0.exporter.register_histogram(key, metadata);
        }
        let series = self.0.histograms.series(key);
        series.map_or_else(Histogram::noop, Histogram::from_arc)
    }
}

/// Lets the exporter sort what the program's own histograms have taken in, until it is gone.
fn keep_up(kept: &Weak<Inner>) {
    loop {
        thread::sleep(UPKEEP_EVERY);
        match kept.upgrade() {
            Some(inner) => inner.exporter.handle().run_upkeep(),
            None => return,
        }
    }
}

/// Where this process listens; once it does, it does so until it ends.
static LISTENS: Mutex<Option<SocketAddr>> = Mutex::new(None);

/// Makes an exporter the recorder of this process, and serves its page at `address`, on a thread
/// of its own, for as long as the process runs. Asking for the same address again changes nothing.
///
/// A program that has installed a recorder of its own keeps it: nothing listens then, and a
/// warning says so.
///
/// # Errors
///
/// [`ErrorKind::Unavailable`] when the address cannot be had, and [`ErrorKind::Conflict`] when the
/// process listens at another one already. Both name the address and the setting.
pub(crate) fn listen(address: SocketAddr) -> Result<()> {
    let mut listens = LISTENS.lock().unwrap_or_else(PoisonError::into_inner);
    match *listens {
        Some(other) if other == address => return Ok(()),
        Some(other) => {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "metrics.listen is {address}, and this process serves its metrics at {other} \
                     already: a process has one page"
                ),
            ));
        }
        None => {}
    }
    if super::is_heard() {
        tracing::warn!(
            %address,
            "metrics.listen is set, and the program has a metrics recorder of its own: it keeps \
             that, and nothing listens at the address"
        );
        return Ok(());
    }
    let (tell, told) = mpsc::channel();
    spawn(move || match bound(address) {
        Ok((runtime, listener, prometheus)) => {
            let _ = tell.send(Ok(())); // who asked waits for it
            match runtime.block_on(serve::serve(listener, prometheus)) {}
        }
        Err(error) => drop(tell.send(Err(error))),
    })?;
    let context = "the thread that serves metrics has ended";
    told.recv()
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::Unavailable, context)))?;
    *listens = Some(address);
    tracing::info!(%address, "metrics are served");
    Ok(())
}

/// Binds to `address` and makes an exporter the recorder, on a runtime of its own: the page can be
/// read, too, while handlers keep the other one busy.
fn bound(address: SocketAddr) -> Result<(Runtime, TcpListener, Prometheus)> {
    let unavailable = |why: std::io::Error| {
        Error::new(
            ErrorKind::Unavailable,
            format!(
                "metrics.listen is {address}, and nothing can listen there: {why}; choose another \
                 port, or leave the setting out"
            ),
        )
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(unavailable)?;
    let listener = runtime.block_on(TcpListener::bind(address));
    let listener = listener.map_err(unavailable)?;
    Ok((runtime, listener, Prometheus::install()?))
}

fn spawn(run: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new().name("duly-metrics".into());
    match thread.spawn(run) {
        Ok(_) => Ok(()),
        Err(error) => {
            let context = "metrics have no thread";
            Err(Error::new(ErrorKind::Unavailable, context).because(error))
        }
    }
}
