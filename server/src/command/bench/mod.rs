//! `duly bench`: workloads against a store, and the raw ceiling of the same store.
//!
//! [`place`] is where it works, apart from the data of others; [`load`] runs the workloads of equal
//! events through the library and [`shape`] those of events that have something of their own;
//! [`ceiling`] does the same work as `load` without the library.

mod ceiling;
mod load;
mod place;
mod shape;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;

use self::ceiling::Ceiling;
use self::place::Place;
use self::shape::Shape;
use super::error::{CommandError, Result};
use super::output::{Output, progress};

#[derive(Args, Debug)]
pub(crate) struct BenchCommand {
    /// The store: sqlite:FILE, whose folder is used but not the file, or redis://HOST or
    /// redis-cluster://HOSTS, under a prefix of its own; what it has made is removed at the end, also
    /// of one that is interrupted
    #[arg(long, value_name = "URL")]
    store: String,
    /// The events of each workload but lateness
    #[arg(long, value_name = "N", default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    events: u64,
    /// The events a second of the workload lateness
    #[arg(long, value_name = "N", default_value_t = 1_000,
        value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: u64,
    /// How long the workload lateness pushes
    #[arg(long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// The workload
    #[arg(long, value_enum, default_value_t = Workload::All)]
    workload: Workload,
    /// Writes the figures to this file as JSON, `-` for the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Pushes events due in an hour, one by one with 64 in flight, and in batches
    Push,
    /// Handles events that are due, 64 at a time
    Drain,
    /// Pushes events one by one that are due at times of their own, and handles them
    Own,
    /// The same with events that are plain, or have a key, a unique key or an expiry
    Mixed,
    /// The same with events of which one in eight fails at its first attempt
    Retried,
    /// The same with events of which every second one is cancelled
    Cancelled,
    /// How late events start at a steady rate, each pushed 2 s before, or the rate is refused
    Lateness,
    /// How late events start that are due at one instant
    Herd,
    /// All of them, one after the other
    All,
}

/// The figures; one of a workload that did not run is `null`.
#[derive(Debug, Default, Serialize)]
struct Figures {
    push_one_per_s: Option<f64>,
    push_batch_per_s: Option<f64>,
    bytes_per_event: Option<f64>,
    drain_per_s: Option<f64>,
    own_per_s: Option<f64>,
    mixed_per_s: Option<f64>,
    retried_per_s: Option<f64>,
    cancelled_per_s: Option<f64>,
    lateness_ms: Option<LatenessFigures>,
    herd_ms: Option<HerdFigures>,
    ceiling: CeilingFigures,
}

/// How late events started, in milliseconds, and how many started early.
#[derive(Clone, Copy, Debug, Serialize)]
struct LatenessFigures {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
    early: usize,
}

/// How late events of one instant started, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
struct HerdFigures {
    p50: f64,
    p99: f64,
    last: f64,
}

/// The same work on the same store, without a library.
#[derive(Debug, Default, Serialize)]
struct CeilingFigures {
    push_one_per_s: Option<f64>,
    push_batch_per_s: Option<f64>,
    bytes_per_event: Option<f64>,
    drain_per_s: Option<f64>,
}

pub(crate) async fn run(command: BenchCommand) -> Result<()> {
    let place = Place::new(&command.store).await?;
    let measured = measure(&place, &command).await;
    let removed = place.remove().await;
    let figures = measured?;
    removed?;
    let text = serde_json::to_string_pretty(&figures)
        .map_err(|error| CommandError::failed(format!("no JSON: {error}")))?;
    match &command.json {
        Some(file) if file.as_os_str() == "-" => return Output::new(true).line(&text),
        Some(file) => std::fs::write(file, text + "\n").map_err(|error| {
            CommandError::failed(format!("{} cannot be written: {error}", file.display()))
        })?,
        None => {}
    }
    show(&figures)
}

async fn measure(place: &Place, command: &BenchCommand) -> Result<Figures> {
    let runs = |workload| [workload, Workload::All].contains(&command.workload);
    let events = command.events;
    let mut figures = Figures::default();
    let bar = progress(None, "push");
    if runs(Workload::Push) {
        figures.push_one_per_s = Some(load::push_one(place, events).await?);
        let (rate, bytes) = load::push_batch(place, events).await?;
        figures.push_batch_per_s = Some(rate);
        figures.bytes_per_event = Some(bytes);
        let raw = async || Ceiling::open(place)?.push_one(events).await;
        figures.ceiling.push_one_per_s = Some(place.unless_interrupted(raw()).await?);
        let before = place.bytes().await?;
        // Closed again, so that what is in a log has gone to its file.
        let raw = async || Ceiling::open(place)?.push_batch(events).await;
        figures.ceiling.push_batch_per_s = Some(place.unless_interrupted(raw()).await?);
        let bytes = place.bytes().await?.saturating_sub(before);
        figures.ceiling.bytes_per_event = Some(bytes as f64 / events as f64);
    }
    bar.set_message("drain");
    if runs(Workload::Drain) {
        figures.drain_per_s = Some(load::drain(place, events).await?);
        let raw = async || {
            let mut ceiling = Ceiling::open(place)?;
            ceiling.push_batch(events).await?;
            ceiling.drain(events).await
        };
        figures.ceiling.drain_per_s = Some(place.unless_interrupted(raw()).await?);
    }
    for (workload, shape, figure) in [
        (Workload::Own, Shape::Own, &mut figures.own_per_s),
        (Workload::Mixed, Shape::Mixed, &mut figures.mixed_per_s),
        (
            Workload::Retried,
            Shape::Retried,
            &mut figures.retried_per_s,
        ),
        (
            Workload::Cancelled,
            Shape::Cancelled,
            &mut figures.cancelled_per_s,
        ),
    ] {
        if runs(workload) {
            bar.set_message(shape.name());
            *figure = Some(shape::run(place, events, shape).await?);
        }
    }
    bar.set_message("lateness");
    if runs(Workload::Lateness) {
        let late = load::lateness(place, command.rate, command.seconds).await?;
        figures.lateness_ms = Some(LatenessFigures {
            p50: percentile(&late, 0.5),
            p99: percentile(&late, 0.99),
            p999: percentile(&late, 0.999),
            max: percentile(&late, 1.0),
            early: late.iter().filter(|us| **us < 0).count(),
        });
    }
    bar.set_message("herd");
    if runs(Workload::Herd) {
        let late = load::herd(place, events).await?;
        figures.herd_ms = Some(HerdFigures {
            p50: percentile(&late, 0.5),
            p99: percentile(&late, 0.99),
            last: percentile(&late, 1.0),
        });
    }
    bar.finish_and_clear();
    Ok(figures)
}

/// Returns a part of sorted microseconds, in milliseconds.
fn percentile(sorted_us: &[i64], part: f64) -> f64 {
    let place = (sorted_us.len().saturating_sub(1) as f64 * part) as usize;
    sorted_us.get(place).map_or(0.0, |us| *us as f64 / 1e3)
}

fn show(figures: &Figures) -> Result<()> {
    let whole = |figure: Option<f64>| figure.map(|it| format!("{it:.0}"));
    let ceiling = &figures.ceiling;
    let rows = [
        (
            "push one by one, per s",
            figures.push_one_per_s,
            ceiling.push_one_per_s,
        ),
        (
            "push in batches, per s",
            figures.push_batch_per_s,
            ceiling.push_batch_per_s,
        ),
        (
            "bytes per event",
            figures.bytes_per_event,
            ceiling.bytes_per_event,
        ),
        ("drain, per s", figures.drain_per_s, ceiling.drain_per_s),
        ("due at own times, per s", figures.own_per_s, None),
        ("mixed, per s", figures.mixed_per_s, None),
        ("one in 8 fails, per s", figures.retried_per_s, None),
        ("half cancelled, per s", figures.cancelled_per_s, None),
    ];
    let rows = rows.into_iter().filter(|(_, figure, _)| figure.is_some());
    let rows: Vec<_> = rows
        .map(|(name, figure, ceiling)| {
            let cells = [Some(name.to_owned()), whole(figure), whole(ceiling)];
            cells.map(Option::unwrap_or_default).to_vec()
        })
        .collect();
    let output = Output::new(false);
    if !rows.is_empty() {
        output.table(&["", "DULY", "RAW CEILING"], &rows)?;
    }
    let late = figures.lateness_ms.map(|it| {
        let LatenessFigures {
            p50,
            p99,
            p999,
            max,
            early,
        } = it;
        format!("p50 {p50:.2}  p99 {p99:.2}  p999 {p999:.2}  max {max:.2}  early {early}")
    });
    let herd = figures
        .herd_ms
        .map(|it| format!("p50 {:.2}  p99 {:.2}  last {:.2}", it.p50, it.p99, it.last));
    output.fields(&[("lateness, ms", late), ("herd, ms", herd)])
}
