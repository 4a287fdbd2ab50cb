//! `exp(1s..10m, jitter 20%)`: text to backoff, as `duly::RetryPolicy` reads it while the program runs.
//!
//! The grammar is explained there. `tests/macros/texts.rs` holds the two together, messages included.

use std::time::Duration;

use crate::duration;

/// What will be a `RetryPolicy` in the program.
#[derive(Clone, Copy)]
pub(crate) struct Backoff {
    pub(crate) shape: Shape,
    /// In percent; 0 is none.
    pub(crate) jitter: u8,
}

/// How the delay grows with the attempts.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    Fixed(Duration),
    Linear(Duration, Duration),
    Exponential(Duration, Duration),
}

impl Backoff {
    /// The backoff that `text` says, or what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some((form, inside)) = text.strip_suffix(')').and_then(|text| text.split_once('('))
        else {
            return Err(unknown(text));
        };
        let (delays, jitter) = match inside.split_once(',') {
            Some((delays, jitter)) => (delays.trim(), percent(text, jitter.trim())?),
            None => (inside.trim(), 0),
        };
        let shape = match form {
            "fixed" if delays.contains("..") => {
                return Err(format!(
                    "backoff `{text}` has a range, write one delay, as in `fixed(5s)`"
                ));
            }
            "fixed" => Shape::Fixed(duration::parse(delays)?),
            "linear" => {
                let (step, max) = range(text, delays)?;
                Shape::Linear(step, max)
            }
            "exp" => {
                let (first, max) = range(text, delays)?;
                Shape::Exponential(first, max)
            }
            _ => return Err(unknown(text)),
        };
        Ok(Self { shape, jitter })
    }
}

fn unknown(text: &str) -> String {
    format!("unknown backoff `{text}`, expected `fixed(5s)`, `linear(1s..1m)` or `exp(1s..10m)`")
}

fn range(text: &str, delays: &str) -> Result<(Duration, Duration), String> {
    let Some((first, max)) = delays.split_once("..") else {
        return Err(format!(
            "backoff `{text}` has no range, write its first and its longest delay, as in `1s..10m`"
        ));
    };
    let (first, max) = (duration::parse(first.trim())?, duration::parse(max.trim())?);
    if first.is_zero() {
        return Err(format!(
            "backoff `{text}` starts at zero, write a longer delay, or `fixed(0s)` to retry at once"
        ));
    }
    if max < first {
        return Err(format!(
            "backoff `{text}` ends before it starts, write the shorter delay first"
        ));
    }
    Ok((first, max))
}

fn percent(text: &str, jitter: &str) -> Result<u8, String> {
    jitter
        .strip_prefix("jitter ")
        .and_then(|percent| percent.trim_start().strip_suffix('%'))
        .filter(|percent| percent.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|percent| percent.parse().ok())
        .filter(|percent| *percent <= 100)
        .ok_or_else(|| {
            format!("backoff `{text}` has `{jitter}` after the comma, expected a whole percentage up to 100, as in `jitter 20%`")
        })
}
