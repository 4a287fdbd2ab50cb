//! The stop of a bus, and how it has ended.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::error::{Error, Result};

/// How a stop has ended; `None`: it goes on.
pub(in crate::bus) type StopResult = Option<Result<(), Arc<Error>>>;

/// Whether a bus stops, and how that has ended.
#[derive(Debug, Default)]
pub(in crate::bus) struct BusStop(pub(in crate::bus) Mutex<Option<watch::Receiver<StopResult>>>);

impl BusStop {
    /// Returns whether a stop has begun, which goes on by itself.
    pub(in crate::bus) fn has_begun(&self) -> bool {
        self.0.lock().is_some()
    }
}
