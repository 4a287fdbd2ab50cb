//! The lifecycle of a store: open, or closed.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::panics;

/// Refuses calls once the store was closed, or the format of its keys has changed.
#[derive(Debug, Default)]
pub(in crate::store::redis) struct Lifecycle {
    is_closed: AtomicBool,
    /// Why everything is refused: the keys have another format than this version knows.
    fenced: OnceLock<String>,
}

impl Lifecycle {
    /// Refuses all further calls.
    pub(in crate::store::redis) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    /// Refuses all further calls, since the format of the keys has changed: this process and others
    /// could no longer read each other's data.
    pub(in crate::store::redis) fn fence(&self, why: Error) -> Error {
        let words =
            format!("{why}; this process no longer uses the store, restart it with that version");
        if self.fenced.set(words.clone()).is_ok() {
            panics::reported(|| {
                tracing::error!(error = %why, "store stopped, the format of its keys has changed");
            });
        }
        Error::closed(words).because(why)
    }

    pub(in crate::store::redis) fn check_open(&self) -> Result<()> {
        if let Some(words) = self.fenced.get() {
            return Err(Error::closed(words.clone()));
        }
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::closed("the store was closed; open it again"));
        }
        Ok(())
    }
}
