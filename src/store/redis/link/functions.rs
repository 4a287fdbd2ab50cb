//! Redis Functions: scripts that a server keeps as libraries, whose helpers are made once and not in
//! each call, which is half of what a small call costs.
//!
//! A library has the hash of its text in its name, so that several versions of duly may use one
//! server at a time. A server that lacks one, because it is new, has lost it or a user has removed
//! it, runs that call as a script, and is given the library for the next one. So whatever happens
//! to libraries, no call fails for it; and a store that opens removes those of other versions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::Pipeline;
use tokio::time::Instant;

use super::fault::CallFailure;
use crate::panics;

/// How long scripts are used after a server took no library for a reason that may pass, such as full
/// memory.
const REST: Duration = Duration::from_secs(60);
const FOR_EVER: u64 = u64::MAX;

/// Whether a store calls functions or scripts. It begins with scripts.
#[derive(Debug)]
pub(in crate::store::redis) struct FunctionUse {
    since: Instant,
    /// Until when scripts are used, in milliseconds from `since`.
    scripts_until: AtomicU64,
}

impl Default for FunctionUse {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            scripts_until: AtomicU64::new(FOR_EVER),
        }
    }
}

impl FunctionUse {
    /// The servers allow functions.
    pub(in crate::store::redis) fn allow(&self) {
        self.scripts_until.store(0, Ordering::Relaxed);
    }

    /// Returns whether calls are of functions now.
    pub(in crate::store::redis) fn is_on(&self) -> bool {
        match self.scripts_until.load(Ordering::Relaxed) {
            0 => true,
            FOR_EVER => false,
            until => u128::from(until) <= self.since.elapsed().as_millis(),
        }
    }

    /// A server took no library.
    pub(in crate::store::redis) fn refused(&self, why: &CallFailure) {
        let until = if why.is_of_permission() {
            FOR_EVER
        } else {
            let until = (self.since.elapsed() + REST).as_millis();
            u64::try_from(until).unwrap_or(FOR_EVER)
        };
        self.scripts_until.store(until, Ordering::Relaxed);
        panics::reported(
            || tracing::debug!(error = %why.cause, "a server takes no functions; scripts are used"),
        );
    }
}

/// Returns the command that gives a server a library.
pub(in crate::store::redis) fn load(library: &str) -> Pipeline {
    let mut load = redis::cmd("FUNCTION");
    load.arg("LOAD").arg(library);
    let mut pipeline = Pipeline::new();
    pipeline.add_command(load);
    pipeline
}
