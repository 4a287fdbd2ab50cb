//! Formatting of explanations.

use std::fmt;
use std::time::Duration;

use crate::bus::explain::Explanation;
use crate::bus::explain::history::Attempts;
use crate::duration::format;
use crate::error::shown;
use crate::event::State;
use crate::record::{Outcome, Record};
use crate::time::Timestamp;

/// Formats a duration for people, with at most two units.
pub(super) fn format_span(span: Duration) -> String {
    let finest: u128 = match span {
        _ if span >= Duration::from_secs(86_400) => 3_600_000_000_000,
        _ if span >= Duration::from_secs(3_600) => 60_000_000_000,
        _ if span >= Duration::from_secs(10) => 1_000_000_000,
        _ if span >= Duration::from_secs(1) => 100_000_000,
        _ if span >= Duration::from_millis(1) => 1_000_000,
        _ => 1_000,
    };
    let rest = u64::try_from(span.as_nanos() % finest).unwrap_or_default(); // less than an hour
    format(span.saturating_sub(Duration::from_nanos(rest)))
}

/// Formats a number with its noun.
pub(super) fn with_noun(many: usize, one: &str, more: &str) -> String {
    match many {
        1 => format!("1 {one}"),
        _ => format!("{many} {more}"),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {}", self.id)?;
        if let Some(queue) = &self.queue {
            write!(f, " of queue {queue}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ", key {}", shown(key))?;
        }
        writeln!(f)?;
        write!(f, "is    ")?;
        self.standing(f)?;
        if let Some(one) = &self.occurrence {
            let schedule = shown(&one.schedule);
            write!(
                f,
                "\nfor   the instant {} of schedule {schedule}",
                one.instant
            )?;
            if one.missed > 0 {
                write!(f, ", and {} earlier ones that were missed", one.missed)?;
            }
        }
        for reason in &self.reasons {
            write!(f, "\nwhy   {reason}")?;
        }
        for advice in self.advice() {
            write!(f, "\ndo    {advice}")?;
        }
        self.attempts.fmt(f)
    }
}

impl Explanation {
    /// Formats its state, since when, and the next attempt.
    fn standing(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(state) = self.state else {
            return f.write_str("unknown");
        };
        write!(f, "{state}")?;
        if let Some(since) = self.since {
            write!(
                f,
                " for {}, since {since}",
                format_span(self.at.since(since))
            )?;
        }
        let Some(max) = self.tries_max else {
            return Ok(());
        };
        let tries = self.tries;
        match state {
            State::Dead => write!(f, ", after {tries} of {max} attempts"),
            State::Leased => write!(f, ", in attempt {} of {max}", tries + 1),
            _ => write!(f, ", before attempt {} of {max}", tries + 1),
        }
    }
}

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.records.is_empty(), &self.unread) {
            (true, None) => return f.write_str("\npast  no attempt has ended yet"),
            (false, _) if self.earlier > 0 => {
                let least = if self.is_all_counted { "" } else { "at least " };
                write!(f, "\npast  {least}{} records before these", self.earlier)?;
            }
            _ => {}
        }
        for record in &self.records {
            write!(f, "\npast  ")?;
            line(record, f)?;
        }
        if let Some(why) = &self.unread {
            write!(f, "\npast  not all of it could be read: {}", shown(why))?;
        }
        Ok(())
    }
}

/// Formats a record in one line.
fn line(record: &Record, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let at = Timestamp::from_millis(record.stages.finished_us / 1_000);
    write!(f, "{at}  ")?;
    if record.attempt > 0 {
        write!(f, "attempt {} ", record.attempt)?;
    }
    write!(f, "{}", outcome_text(record.outcome))?;
    if let Some(by) = &record.by {
        write!(f, " by {}", shown(by))?;
    }
    let took = record
        .stages
        .finished_us
        .checked_sub(record.stages.started_us);
    if let Some(took) = took.filter(|_| record.stages.started_us > 0) {
        write!(f, " after {}", format_span(Duration::from_micros(took)))?;
    }
    if let Some(cause) = record.cause {
        write!(f, ", {cause}")?;
    }
    match &record.error {
        Some(error) => write!(f, ": {}", shown(error)),
        None => Ok(()),
    }
}

/// Returns the word for an outcome.
fn outcome_text(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::LeaseLost => "lost with its node",
        other => other.as_str(),
    }
}
