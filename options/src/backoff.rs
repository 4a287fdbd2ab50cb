//! The grammar of retry policies, such as `exp(1s..10m, jitter 20%)`.

use std::time::Duration;

use crate::duration;

/// The most delays of a list.
pub const STEPS_MAX: usize = 12;

/// A parsed retry policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The growth of the delay.
    pub shape: Shape,
    /// How much of a delay chance may cut off, in percent.
    pub jitter_percent: u8,
}

/// The growth of the delay with the attempts, before jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The same delay each time.
    Fixed(Duration),
    /// One step more each time.
    Linear {
        /// The first delay, and how much longer each is than the one before.
        step: Duration,
        /// The longest delay.
        max: Duration,
    },
    /// Twice as long each time.
    Exponential {
        /// The first delay.
        first: Duration,
        /// The longest delay.
        max: Duration,
    },
    /// As listed.
    Steps(Steps),
}

/// A delay for each failed attempt, in order; the last one is for those that follow, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Those behind the last one are zero.
    delays: [Duration; STEPS_MAX],
    last: u8,
}

impl Steps {
    /// Keeps a list of delays.
    #[must_use]
    pub const fn of<const N: usize>(listed: [Duration; N]) -> Self {
        const { assert!(N > 0 && N <= STEPS_MAX, "a list has 1 to 12 delays") };
        let mut steps = Self::one(listed[0]);
        let mut at = 1;
        while at < N {
            steps.last += 1;
            steps.delays[at] = listed[at];
            at += 1;
        }
        steps
    }

    /// Returns the delays.
    #[must_use]
    pub fn listed(&self) -> &[Duration] {
        &self.delays[..=usize::from(self.last)]
    }

    /// Returns the delay after a failed attempt, which counts from 1.
    #[must_use]
    pub fn after(&self, attempt: u16) -> Duration {
        let at = usize::from(attempt.max(1) - 1);
        self.delays[at.min(usize::from(self.last))]
    }

    const fn one(delay: Duration) -> Self {
        let mut delays = [Duration::ZERO; STEPS_MAX];
        delays[0] = delay;
        Self { delays, last: 0 }
    }

    fn parse(text: &str, delays: &str) -> Result<Self, String> {
        let mut listed = delays.split(',').map(|one| delay(one.trim()));
        let mut steps = Self::one(listed.next().unwrap_or_else(|| delay(""))?);
        for one in listed {
            steps.last += 1;
            let room = steps.delays.get_mut(usize::from(steps.last));
            *room.ok_or_else(|| {
                format!("backoff `{text}` has more than {STEPS_MAX} delays, the last one repeats")
            })? = one?;
        }
        Ok(steps)
    }
}

impl Backoff {
    /// Parses the text of a policy.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((form, inside)) = text.strip_suffix(')').and_then(|text| text.split_once('('))
        else {
            return Err(unknown(text));
        };
        // Of a list the last part is a jitter only if it says so.
        let jitter = match form {
            "steps" => inside
                .rsplit_once(',')
                .filter(|(_, last)| last.contains("jitter")),
            _ => inside.split_once(','),
        };
        let (delays, jitter_percent) = match jitter {
            Some((delays, jitter)) => (delays.trim(), percent(text, jitter.trim())?),
            None => (inside.trim(), 0),
        };
        let shape = match form {
            "fixed" if delays.contains("..") => {
                return Err(format!(
                    "backoff `{text}` has a range, write one delay, as in `fixed(5s)`"
                ));
            }
            "fixed" => Shape::Fixed(delay(delays)?),
            "linear" => {
                let (step, max) = range(text, delays)?;
                Shape::Linear { step, max }
            }
            "exp" => {
                let (first, max) = range(text, delays)?;
                Shape::Exponential { first, max }
            }
            "steps" => Shape::Steps(Steps::parse(text, delays)?),
            _ => return Err(unknown(text)),
        };
        Ok(Self {
            shape,
            jitter_percent,
        })
    }
}

fn unknown(text: &str) -> String {
    format!(
        "unknown backoff `{text}`, expected `fixed(5s)`, `linear(1s..1m)`, `exp(1s..10m)` or \
         `steps(1m, 1h, 1d)`"
    )
}

fn delay(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

fn range(text: &str, delays: &str) -> Result<(Duration, Duration), String> {
    let Some((first, max)) = delays.split_once("..") else {
        return Err(format!(
            "backoff `{text}` has no range, write its first and its longest delay, as in `1s..10m`"
        ));
    };
    let (first, max) = (delay(first.trim())?, delay(max.trim())?);
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
