//! Limits: how many calls a token may make in a window of time.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::scope::Action;
use crate::shared::{SharedState, Window};

/// The limit of a token, in lmstfy's form; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Limit {
    /// The consumes of a window that returned a job.
    pub(crate) read: i64,
    /// The publishes of a window that succeeded.
    pub(crate) write: i64,
    /// The window, in seconds; it begins with the first call.
    pub(crate) interval: i64,
}

/// Why a limit is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitError {
    /// It limits nothing.
    Empty,
    /// Its window has no length.
    NoInterval,
    /// A number is negative.
    Negative,
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "read and write are both 0, which limits nothing",
            Self::NoInterval => "interval should be > 0",
            Self::Negative => "read, write and interval are not negative",
        })
    }
}

impl Limit {
    pub(crate) fn check(&self) -> Result<(), LimitError> {
        if self.read == 0 && self.write == 0 {
            return Err(LimitError::Empty);
        }
        if self.interval == 0 {
            return Err(LimitError::NoInterval);
        }
        if self.read < 0 || self.write < 0 || self.interval < 0 {
            Err(LimitError::Negative)
        } else {
            Ok(())
        }
    }

    /// Returns the most calls of a window, if they are limited.
    pub(super) fn of(&self, action: Action) -> Option<u64> {
        let max = match action {
            Action::Consume => self.read,
            Action::Produce => self.write,
        };
        u64::try_from(max).ok().filter(|max| *max > 0)
    }

    pub(super) fn window(&self) -> Duration {
        Duration::from_secs(
            u64::try_from(self.interval)
                .unwrap_or(1)
                .clamp(1, u64::from(u32::MAX)),
        )
    }

    pub(super) fn encode(&self) -> String {
        // Three numbers are always JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn decode(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// One call of a limit. Unless it is kept it is given back when this is dropped, so also when the
/// client hangs up in the middle of its request.
#[derive(Debug)]
#[must_use = "a call that succeeds is kept"]
pub(crate) struct Taken {
    state: SharedState,
    counter: Option<(String, Window)>,
}

impl Taken {
    pub(super) fn new(state: SharedState, counter: String, window: Window) -> Self {
        Self {
            state,
            counter: Some((counter, window)),
        }
    }

    /// Counts the call.
    pub(crate) fn keep(mut self) {
        self.counter = None;
    }

    /// Gives the call back, and waits until the next one can take it.
    pub(crate) async fn give_back(mut self) {
        if let Some(giving) = self.giving() {
            // It was cancelled by the end of the runtime, or has logged why it failed.
            let _ = giving.await;
        }
    }

    /// Begins to give the call back, by a task that outlives the request.
    fn giving(&mut self) -> Option<tokio::task::JoinHandle<()>> {
        let (state, (counter, window)) = (self.state.clone(), self.counter.take()?);
        let give_back = async move {
            if let Err(error) = state.give_back(&counter, window).await {
                tracing::warn!(%error, "call of a limit not given back");
            }
        };
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(runtime.spawn(give_back))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        drop(self.giving());
    }
}
