//! Errors of the shared state.

use std::fmt;

/// An error of the shared state.
#[derive(Clone, Debug)]
pub(crate) struct StateError {
    pub(super) text: String,
    pub(super) is_full: bool,
}

impl StateError {
    pub(crate) fn new(what: &str, error: &dyn fmt::Display) -> Self {
        Self::of(format!("{what}: {error}"))
    }

    pub(super) fn of(text: String) -> Self {
        Self {
            text,
            is_full: false,
        }
    }

    /// There is no room for what was to be written.
    #[cfg(test)]
    pub(crate) fn full(what: &str, error: &dyn fmt::Display) -> Self {
        Self {
            is_full: true,
            ..Self::new(what, error)
        }
    }

    /// Returns whether there is no room for what was to be written.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shared state: {}", self.text)
    }
}

impl std::error::Error for StateError {}
