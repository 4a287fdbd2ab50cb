//! The exporter: what Prometheus reads.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use metrics_exporter_prometheus::{ExporterFuture, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::runtime::{Builder, Runtime};

use super::catalogue::{CATALOGUE, Kind};
use crate::error::{Error, ErrorKind, Result};

/// How often what histograms have taken in is put into their buckets, where nobody scrapes.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// The exporter of this process: it takes in whatever is told of metrics, and renders it for
/// Prometheus.
///
/// A bus starts one by itself where the settings have a `metrics.listen`. This is for a program
/// that has a web server already and serves the page there.
///
/// It is the recorder of the whole process: metrics of the program itself, told by the crate
/// `metrics`, are on the page as well. Histograms of the [catalogue](crate::metrics::CATALOGUE) have
/// real buckets, so those of several processes can be added. What was told once stays on the page
/// until the process ends; gauges of a queue that nobody consumes here any more are 0.
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
/// # let _ = page;
/// # bus.shutdown(std::time::Duration::from_secs(1)).await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Prometheus {
    handle: PrometheusHandle,
}

impl Prometheus {
    /// Makes it the recorder of this process. A thread of its own does the upkeep.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Conflict`] when the process has a recorder already: another one of these, or
    /// one of the program's own, which stays. [`ErrorKind::Unavailable`] when the system has no
    /// thread to give.
    pub fn install() -> Result<Self> {
        let recorder = builder()?.build_recorder();
        let handle = recorder.handle();
        ::metrics::set_global_recorder(recorder).map_err(|_| has_a_recorder())?;
        let upkeep = handle.clone();
        spawn(move || {
            loop {
                thread::sleep(UPKEEP_EVERY);
                upkeep.run_upkeep();
            }
        })?;
        super::describe();
        Ok(Self { handle })
    }

    /// The page, in the text format of Prometheus.
    #[must_use]
    pub fn render(&self) -> String {
        self.handle.render()
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
    spawn(move || match serve(address) {
        Ok((runtime, served)) => {
            let _ = tell.send(Ok(())); // who asked waits for it
            if let Err(error) = runtime.block_on(served) {
                tracing::error!(?error, "metrics are not served any more");
            }
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

/// Binds to `address` and makes the exporter the recorder, on a runtime of its own: the page can be
/// read, too, while handlers keep the other one busy. To be called outside of any runtime, in which
/// this one could not be let go of.
fn serve(address: SocketAddr) -> Result<(Runtime, ExporterFuture)> {
    let unavailable = |why: String| {
        Error::new(
            ErrorKind::Unavailable,
            format!(
                "metrics.listen is {address}, and nothing can listen there: {why}; choose another \
                 port, or leave the setting out"
            ),
        )
    };
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        .thread_name("duly-metrics")
        .build()
        .map_err(|error| unavailable(error.to_string()))?;
    let built = {
        let _entered = runtime.enter();
        builder()?.with_http_listener(address).build()
    };
    let (recorder, served) = built.map_err(|error| unavailable(error.to_string()))?;
    ::metrics::set_global_recorder(recorder).map_err(|_| has_a_recorder())?;
    Ok((runtime, served))
}

/// With real buckets for every histogram: without them it would render summaries, which cannot be
/// added over processes.
fn builder() -> Result<PrometheusBuilder> {
    let mut builder = PrometheusBuilder::new().upkeep_timeout(UPKEEP_EVERY);
    for metric in CATALOGUE {
        if let Kind::Histogram(bounds) = metric.kind {
            let name = Matcher::Full(metric.name.to_owned());
            builder = builder
                .set_buckets_for_metric(name, bounds)
                .map_err(|error| {
                    Error::invalid(format!("the buckets of {}: {error}", metric.name))
                })?;
        }
    }
    Ok(builder)
}

fn has_a_recorder() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "this process has a metrics recorder already, and keeps it",
    )
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
