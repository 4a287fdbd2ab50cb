//! The log: lines on standard output, by `tracing`.
//!
//! Lines are written by a thread of their own, so a reader of the output that stops reading stops
//! nothing else: what does not fit into a bounded queue is dropped and counted.

mod lines;

use std::io::Write;

use tracing_subscriber::fmt;

use self::lines::LineQueue;
pub use self::lines::LogGuard;
use crate::settings::{LogFormat, LogSettings};

/// Starts the log of the process; a second call changes nothing. What was logged is written when the
/// guard is dropped, as far as the reader of the output takes it.
#[must_use = "the last lines are written when the guard is dropped"]
pub fn start(settings: &LogSettings) -> Option<LogGuard> {
    start_to(settings, std::io::stdout())
}

fn start_to(settings: &LogSettings, output: impl Write + Send + 'static) -> Option<LogGuard> {
    let (queue, guard) = match lines::start(output) {
        Ok(started) => started,
        Err(error) => {
            report(&error);
            return None;
        }
    };
    // The settings were checked; a wrong level cannot come here, and would mean the default.
    let level = settings.level.parse().unwrap_or(tracing::Level::INFO);
    let started = match settings.format {
        LogFormat::Json => set(builder(level, queue).json().flatten_event(true).finish()),
        LogFormat::Text => set(builder(level, queue).with_ansi(false).finish()),
    };
    if !started {
        tracing::debug!("the process has a log already");
    }
    Some(guard)
}

#[allow(clippy::print_stderr)] // there is no log
fn report(error: &std::io::Error) {
    eprintln!("duly: the log does not start: {error}");
}

type Builder = tracing_subscriber::fmt::SubscriberBuilder<
    fmt::format::DefaultFields,
    fmt::format::Format,
    tracing::level_filters::LevelFilter,
    LineQueue,
>;

fn builder(level: tracing::Level, queue: LineQueue) -> Builder {
    fmt()
        .with_max_level(level)
        .with_target(true)
        .with_writer(queue)
}

/// Makes it the subscriber of the process, unless there is one.
fn set(subscriber: impl tracing::Subscriber + Send + Sync + 'static) -> bool {
    tracing::subscriber::set_global_default(subscriber).is_ok()
}
