//! Redis Functions: scripts that a server keeps as libraries, whose helpers are made once and not in
//! each call, which is half of what a small call costs.
//!
//! A library has the hash of its text in its name, so that several versions of duly may use one
//! server at a time. A server that lacks one, because it is new, has lost it or a user has removed
//! it, runs that call as a script, and is given the library for the next one. So whatever happens
//! to libraries, no call fails for it; and a store that opens removes those of other versions.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::time::Instant;

use super::fault::CallFailure;
use super::managed::ManagedConnection;

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
        tracing::debug!(error = %why.cause, "a server takes no functions; scripts are used");
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

/// Removes the libraries of other versions than `ours`, or each version would leave its own behind.
/// One that is still used is loaded again by its next call. What fails is left to the next store that
/// opens.
pub(in crate::store::redis) async fn remove_others(link: &ManagedConnection, ours: &HashSet<&str>) {
    let mut list = redis::cmd("FUNCTION");
    list.arg("LIST").arg("LIBRARYNAME").arg("duly\\_*");
    let Ok(answers) = link.send_everywhere(&list).await else {
        return;
    };
    let mut found = HashSet::new();
    for answer in &answers {
        names_in(answer, &mut found);
    }
    for name in found.iter().filter(|name| !ours.contains(name.as_str())) {
        let mut delete = redis::cmd("FUNCTION");
        delete.arg("DELETE").arg(name);
        let _ = link.send_everywhere(&delete).await; // another store may be quicker
    }
}

/// Adds the texts of a reply that are names of libraries of duly, wherever they are in it.
fn names_in(value: &Value, found: &mut HashSet<String>) {
    match value {
        Value::BulkString(text) => {
            let text = std::str::from_utf8(text).ok();
            found.extend(
                text.filter(|text| text.starts_with("duly_"))
                    .map(String::from),
            );
        }
        Value::SimpleString(text) if text.starts_with("duly_") => {
            found.insert(text.clone());
        }
        Value::Array(parts) | Value::Set(parts) => {
            parts.iter().for_each(|part| names_in(part, found));
        }
        Value::Map(pairs) => pairs.iter().for_each(|(key, value)| {
            names_in(key, found);
            names_in(value, found);
        }),
        _ => {}
    }
}
