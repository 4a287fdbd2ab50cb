//! Retry policies: the delay before the next attempt.

use std::{error, fmt, str::FromStr, time::Duration};

use duly_options::backoff::{Backoff, Shape, Steps};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::duration;
use crate::panics;

/// A retry policy: returns the delay after attempt *n*, as a pure function without clock or random
/// numbers.
///
/// Attempts count from 1, so `delay_after(1, _)` is the delay after the first failure. The number
/// of attempts is not decided here but by the event's `attempts`.
///
/// | text | delays | made by |
/// |---|---|---|
/// | `fixed(5s)` | 5 s each time | [`fixed`](Self::fixed) |
/// | `linear(1s..1m)` | 1 s, 2 s, 3 s, … 60 s | [`linear`](Self::linear) |
/// | `exp(1s..10m)` | 1 s, 2 s, 4 s, … 600 s | [`exponential`](Self::exponential) |
/// | `steps(1m, 1h, 1d)` | 1 minute, 1 hour, and then 1 day each time | [`steps`](Self::steps) |
/// | none | what a function of yours returns | [`function`](Self::function) |
///
/// Each may end in a jitter, as in `exp(1s..10m, jitter 20%)`. The annotation, settings files,
/// [`FromStr`], [`Display`](fmt::Display) and serde use this text; durations in it are those of
/// [the settings](crate::config).
///
/// The default is `exp(1s..10m, jitter 10%)`: quick enough for a hiccup, slow enough for an outage,
/// with jitter so that events that failed together are not retried together.
///
/// # Examples
///
/// ```
/// use duly::RetryPolicy;
/// use std::time::Duration;
///
/// let policy: RetryPolicy = "exp(1s..10m)".parse()?;
/// assert_eq!(policy, RetryPolicy::exponential(Duration::from_secs(1), Duration::from_mins(10)));
/// assert_eq!(policy.delay_after(1, 0.0), Duration::from_secs(1));
/// assert_eq!(policy.delay_after(4, 0.0), Duration::from_secs(8));
/// assert_eq!(policy.delay_after(1_000, 0.0), Duration::from_mins(10));
/// assert_eq!(RetryPolicy::default().to_string(), "exp(1s..10m, jitter 10%)");
/// # Ok::<(), duly::ParseRetryError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    growth: Growth,
    jitter_percent: u8,
}

/// The delays before jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    Listed(Shape),
    Computed(DelayFunction),
}

#[derive(Clone, Copy, Debug)]
struct DelayFunction(fn(u16) -> Duration);

impl DelayFunction {
    /// Returns its delay; that of the default policy if it panics.
    fn after(self, attempt: u16) -> Duration {
        panics::caught(|| self.0(attempt)).unwrap_or_else(|panic| {
            panics::reported(|| {
                tracing::error!(
                    panic,
                    attempt,
                    "the function of a retry policy has panicked"
                );
            });
            RetryPolicy::default().delay_after(attempt, 0.0)
        })
    }
}

impl PartialEq for DelayFunction {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Eq for DelayFunction {}

impl RetryPolicy {
    /// Waits the same delay after every attempt; zero retries at once.
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::RetryPolicy;
    /// # use std::time::Duration;
    /// let policy = RetryPolicy::fixed(Duration::from_secs(5));
    /// assert_eq!(policy.delay_after(9, 0.0), Duration::from_secs(5));
    /// assert_eq!(policy.to_string(), "fixed(5s)");
    /// ```
    #[must_use]
    pub const fn fixed(delay: Duration) -> Self {
        Self::of(Shape::Fixed(delay))
    }

    /// Waits `step` after the first attempt and one `step` more after each, at most `max`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::RetryPolicy;
    /// # use std::time::Duration;
    /// let policy = RetryPolicy::linear(Duration::from_secs(20), Duration::from_secs(60));
    /// let delays = [1, 2, 3, 4].map(|attempt| policy.delay_after(attempt, 0.0).as_secs());
    /// assert_eq!(delays, [20, 40, 60, 60]);
    /// ```
    #[must_use]
    pub const fn linear(step: Duration, max: Duration) -> Self {
        Self::of(Shape::Linear { step, max })
    }

    /// Waits `first` after the first attempt and twice as long after each, at most `max`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::RetryPolicy;
    /// # use std::time::Duration;
    /// let policy = RetryPolicy::exponential(Duration::from_secs(1), Duration::from_secs(5));
    /// let delays = [1, 2, 3, 4].map(|attempt| policy.delay_after(attempt, 0.0).as_secs());
    /// assert_eq!(delays, [1, 2, 4, 5]);
    /// ```
    #[must_use]
    pub const fn exponential(first: Duration, max: Duration) -> Self {
        Self::of(Shape::Exponential { first, max })
    }

    /// Waits as listed: the first delay after the first attempt, and so on; the last one repeats.
    ///
    /// A list has 1 to 12 delays; one of another length does not compile.
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::RetryPolicy;
    /// # use std::time::Duration;
    /// let policy = RetryPolicy::steps([60, 3_600, 86_400].map(Duration::from_secs));
    /// let delays = [1, 2, 3, 4].map(|attempt| policy.delay_after(attempt, 0.0).as_secs());
    /// assert_eq!(delays, [60, 3_600, 86_400, 86_400]);
    /// assert_eq!(policy.to_string(), "steps(1m, 1h, 1d)");
    /// ```
    #[must_use]
    pub const fn steps<const N: usize>(delays: [Duration; N]) -> Self {
        Self::of(Shape::Steps(Steps::of(delays)))
    }

    /// Waits as long as `delays` returns for the number of the attempt that has failed, from 1 on.
    ///
    /// The annotation takes a function as well, as in `backoff = delays`. It is called each time an
    /// attempt fails, on the thread that settles events, so it must not block. If it panics, the
    /// panic is logged and the delay is that of the default policy. It is shown as
    /// `function(attempt)`, which settings files do not take. Where the delay depends on what went wrong,
    /// return [`Failure::retry_after`](crate::Failure::retry_after) instead.
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::RetryPolicy;
    /// # use std::time::Duration;
    /// fn squares(attempt: u16) -> Duration {
    ///     Duration::from_secs(u64::from(attempt).pow(2))
    /// }
    /// let policy = RetryPolicy::function(squares);
    /// let delays = [1, 2, 3].map(|attempt| policy.delay_after(attempt, 0.0).as_secs());
    /// assert_eq!(delays, [1, 4, 9]);
    /// ```
    #[must_use]
    pub const fn function(delays: fn(u16) -> Duration) -> Self {
        Self {
            growth: Growth::Computed(DelayFunction(delays)),
            jitter_percent: 0,
        }
    }

    /// Shortens each delay by a random part of up to `percent` of it. Default: 0.
    ///
    /// Jitter never lengthens a delay, so it stays within `max`. More than 100 counts as 100.
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::RetryPolicy;
    /// # use std::time::Duration;
    /// let policy = RetryPolicy::fixed(Duration::from_secs(10)).jitter(20);
    /// assert_eq!(policy.delay_after(1, 0.0), Duration::from_secs(10));
    /// assert_eq!(policy.delay_after(1, 0.5), Duration::from_secs(9));
    /// assert_eq!(policy.delay_after(1, 1.0), Duration::from_secs(8));
    /// ```
    #[must_use]
    pub const fn jitter(self, percent: u8) -> Self {
        let jitter_percent = if percent > 100 { 100 } else { percent };
        Self {
            jitter_percent,
            ..self
        }
    }

    /// Returns the delay after the failure of `attempt`, which counts from 1.
    ///
    /// `random` is from 0 to 1 and only matters with [`jitter`](Self::jitter); values outside are
    /// clamped, NaN counts as 0. The same arguments always return the same delay. Delays saturate
    /// at the maximum. Attempt 0 counts as 1.
    #[must_use]
    pub fn delay_after(&self, attempt: u16, random: f64) -> Duration {
        let attempt = attempt.max(1);
        let nanos = match self.growth {
            Growth::Listed(shape) => nanos_after(shape, attempt),
            Growth::Computed(function) => function.after(attempt).as_nanos(),
        };
        let nanos = nanos - nanos * self.cut(random) / BILLION;
        let below = u32::try_from(nanos % BILLION).unwrap_or_default(); // less than a second
        u64::try_from(nanos / BILLION).map_or(Duration::MAX, |secs| Duration::new(secs, below))
    }

    /// The part that jitter cuts off, in billionths.
    fn cut(&self, random: f64) -> u128 {
        // NaN casts to 0.
        let random = (random.clamp(0.0, 1.0) * BILLION as f64) as u128;
        random * u128::from(self.jitter_percent) / 100
    }

    const fn of(shape: Shape) -> Self {
        Self {
            growth: Growth::Listed(shape),
            jitter_percent: 0,
        }
    }
}

fn nanos_after(shape: Shape, attempt: u16) -> u128 {
    match shape {
        Shape::Fixed(delay) => delay.as_nanos(),
        Shape::Linear { step, max } => {
            let whole = step.as_nanos().saturating_mul(attempt.into());
            whole.min(max.as_nanos())
        }
        Shape::Exponential { first, max } => {
            let factor = 1_u128
                .checked_shl(u32::from(attempt) - 1)
                .unwrap_or(u128::MAX);
            first.as_nanos().saturating_mul(factor).min(max.as_nanos())
        }
        Shape::Steps(steps) => steps.after(attempt).as_nanos(),
    }
}

const BILLION: u128 = 1_000_000_000;

impl Default for RetryPolicy {
    /// `exp(1s..10m, jitter 10%)`.
    fn default() -> Self {
        Self::exponential(Duration::from_secs(1), Duration::from_mins(10)).jitter(10)
    }
}

impl fmt::Display for RetryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = duration::format;
        match self.growth {
            Growth::Computed(_) => f.write_str("function(attempt")?,
            Growth::Listed(Shape::Fixed(delay)) => write!(f, "fixed({}", text(delay))?,
            Growth::Listed(Shape::Linear { step, max }) => {
                write!(f, "linear({}..{}", text(step), text(max))?;
            }
            Growth::Listed(Shape::Exponential { first, max }) => {
                write!(f, "exp({}..{}", text(first), text(max))?;
            }
            Growth::Listed(Shape::Steps(steps)) => {
                let listed: Vec<String> = steps.listed().iter().map(|one| text(*one)).collect();
                write!(f, "steps({}", listed.join(", "))?;
            }
        }
        match self.jitter_percent {
            0 => f.write_str(")"),
            percent => write!(f, ", jitter {percent}%)"),
        }
    }
}

impl FromStr for RetryPolicy {
    type Err = ParseRetryError;

    /// Parses the text of a [`RetryPolicy`], such as `exp(1s..10m, jitter 20%)`.
    ///
    /// # Errors
    ///
    /// Returns [`ParseRetryError`] for an unknown form, a malformed duration, a range that starts
    /// at zero or ends before it starts, a list of more than 12 delays, or a jitter that is not a whole percentage up to 100.
    fn from_str(text: &str) -> Result<Self, ParseRetryError> {
        let parsed = Backoff::parse(text).map_err(|message| ParseRetryError { message })?;
        Ok(Self {
            growth: Growth::Listed(parsed.shape),
            jitter_percent: parsed.jitter_percent,
        })
    }
}

impl Serialize for RetryPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RetryPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// The error of parsing a [`RetryPolicy`]; says what is wrong and what would be right.
///
/// # Examples
///
/// ```
/// use duly::RetryPolicy;
///
/// assert_eq!(
///     "exp(10m..1s)".parse::<RetryPolicy>().unwrap_err().to_string(),
///     "backoff `exp(10m..1s)` ends before it starts, write the shorter delay first",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseRetryError {
    message: String,
}

impl fmt::Display for ParseRetryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl error::Error for ParseRetryError {}
