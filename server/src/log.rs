//! The log: lines on standard output, by `tracing`.

use tracing_subscriber::fmt;

use crate::settings::{LogFormat, LogSettings};

/// Starts the log of the process; a second call changes nothing.
pub fn start(settings: &LogSettings) {
    // The settings were checked; a wrong level cannot come here, and would mean the default.
    let level = settings.level.parse().unwrap_or(tracing::Level::INFO);
    let lines = fmt().with_max_level(level).with_target(true);
    let started = match settings.format {
        LogFormat::Json => set(lines.json().flatten_event(true).finish()),
        LogFormat::Text => set(lines.with_ansi(false).finish()),
    };
    if !started {
        tracing::debug!("the process has a log already");
    }
}

/// Makes it the subscriber of the process, unless there is one.
fn set(subscriber: impl tracing::Subscriber + Send + Sync + 'static) -> bool {
    tracing::subscriber::set_global_default(subscriber).is_ok()
}
