//! The Prometheus exporter.

use std::fmt;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use metrics_exporter_prometheus::{ExporterFuture, Matcher, PrometheusBuilder, PrometheusHandle};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

use crate::error::{Error, ErrorKind, Result};
use crate::metrics::catalogue::{CATALOGUE, Kind};
use crate::panics;

/// How often histograms move their values into buckets.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// The exporter of a process: a recorder of all metrics, which renders the page for Prometheus.
///
/// A bus starts one itself if the settings have a `metrics.listen`. Use this in a program that
/// serves the page from its own web server.
///
/// It is the recorder of the whole process, from the package
/// [`metrics-exporter-prometheus`](metrics_exporter_prometheus): metrics of the program itself,
/// counted with the crate `metrics`, are on the page as well. Histograms of the
/// [catalogue](crate::metrics::CATALOGUE) have buckets, so those of several processes can be added.
///
/// # Examples
///
/// ```
/// use duly::metrics::Prometheus;
/// use duly::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> duly::Result<()> {
/// let prometheus = Prometheus::install()?; // before the bus starts
/// let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
/// bus.queue_named::<u64>("orders")?.push(7, When::Now).await?;
///
/// let page = prometheus.render(); // what `GET /metrics` returns, as `text/plain`
/// # assert!(page.contains("duly_pushed_total{queue=\"orders\"} 1"));
/// # bus.shutdown(std::time::Duration::from_secs(1)).await
/// # }
/// ```
#[derive(Clone)]
pub struct Prometheus(PrometheusHandle);

impl Prometheus {
    /// Returns the package's builder with the buckets of the catalogue, to add labels, a push
    /// gateway, or layers around the recorder. Its recorder is not installed.
    #[must_use]
    pub fn builder() -> PrometheusBuilder {
        let mut builder = PrometheusBuilder::new();
        for metric in CATALOGUE {
            if let Kind::Histogram(bounds) = metric.kind {
                let name = Matcher::Full(metric.name.to_owned());
                builder = builder
                    .set_buckets_for_metric(name, bounds)
                    .expect("only a histogram without buckets is refused, and each has some");
            }
        }
        builder
    }

    /// Installs a new exporter as the recorder of this process. Its upkeep runs on its own thread.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Conflict`] when the process has a recorder already, which stays.
    /// [`ErrorKind::Unavailable`] when the system cannot start a thread.
    pub fn install() -> Result<Self> {
        Self::install_with(&[])
    }

    /// As [`install`](Self::install), with buckets for histograms of the program itself: the name of
    /// each, and the upper bounds of its buckets.
    ///
    /// # Errors
    ///
    /// As [`install`](Self::install); [`ErrorKind::Invalid`] for a histogram without bounds.
    pub fn install_with(histograms: &[(&str, &[f64])]) -> Result<Self> {
        let mut builder = Self::builder();
        for (name, bounds) in histograms {
            let matcher = Matcher::Full((*name).to_owned());
            builder = builder
                .set_buckets_for_metric(matcher, bounds)
                .map_err(|_| {
                    Error::invalid(format!(
                        "the histogram {name} has no bounds; it needs at least one"
                    ))
                })?;
        }
        let handle = builder.install_recorder().map_err(taken)?;
        super::describe();
        let upkeep = handle.clone();
        spawn(move || {
            loop {
                thread::sleep(UPKEEP_EVERY);
                upkeep.run_upkeep();
            }
        })?;
        Ok(Self(handle))
    }

    /// Renders the page, in the text format of Prometheus.
    #[must_use]
    pub fn render(&self) -> String {
        self.0.render()
    }
}

impl fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prometheus").finish_non_exhaustive()
    }
}

/// The address of this process's listener, which runs until the process ends.
static LISTENS: Mutex<Option<SocketAddr>> = Mutex::new(None);

/// Installs an exporter as the recorder of this process, and serves its page at `address`, on its
/// own thread, while the process runs. Another call with the same address changes nothing.
///
/// If the program has its own recorder, it stays: nothing listens then, and a warning is logged.
///
/// # Errors
///
/// [`ErrorKind::Unavailable`] when the address cannot be bound, and [`ErrorKind::Conflict`] when
/// the process listens at another one already. Both name the address and the setting.
pub(crate) fn listen(address: SocketAddr) -> Result<()> {
    let mut listens = LISTENS.lock();
    match *listens {
        Some(other) if other == address => return Ok(()),
        Some(other) => {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "metrics.listen is {address}, but this process already serves its metrics at \
                     {other}; use the same address"
                ),
            ));
        }
        None => {}
    }
    if super::is_recorder_installed() {
        panics::reported(|| {
            tracing::warn!(
                %address,
                "metrics.listen ignored; the program has its own metrics recorder"
            );
        });
        return Ok(());
    }
    let (started, start) = mpsc::channel();
    spawn(move || match bound(address) {
        Ok((runtime, exporter)) => {
            let _ = started.send(Ok(())); // the caller waits for it
            let ended = runtime.block_on(exporter);
            panics::reported(|| tracing::error!(?ended, "metrics listener stopped"));
        }
        Err(error) => drop(started.send(Err(error))),
    })?;
    let context = "the metrics thread has ended";
    start
        .recv()
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::Unavailable, context)))?;
    *listens = Some(address);
    panics::reported(|| tracing::info!(%address, "metrics listener started"));
    Ok(())
}

/// Binds to `address` and installs an exporter, on its own runtime: the page can be scraped even
/// while handlers keep the other one busy.
fn bound(address: SocketAddr) -> Result<(Runtime, ExporterFuture)> {
    let unavailable = |why: String| {
        Error::new(
            ErrorKind::Unavailable,
            format!(
                "metrics.listen is {address}, but binding to it failed: {why}; choose another port, \
                 or remove the setting"
            ),
        )
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| unavailable(error.to_string()))?;
    let entered = runtime.enter();
    let built = Prometheus::builder().with_http_listener(address).build();
    drop(entered);
    let (recorder, exporter) = built.map_err(|error| unavailable(error.to_string()))?;
    ::metrics::set_global_recorder(recorder).map_err(taken)?;
    super::describe();
    Ok((runtime, exporter))
}

fn taken(_: impl fmt::Debug) -> Error {
    let context = "this process has a metrics recorder already, which is kept";
    Error::new(ErrorKind::Conflict, context)
}

fn spawn(run: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = thread::Builder::new().name("duly-metrics".into());
    match thread.spawn(run) {
        Ok(_) => Ok(()),
        Err(error) => {
            let context = "failed to start the metrics thread";
            Err(Error::new(ErrorKind::Unavailable, context).because(error))
        }
    }
}
