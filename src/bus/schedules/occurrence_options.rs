//! The options of a queue that the occurrences of a schedule are pushed with, whichever process pushes
//! them.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::bus::inner::Inner;
use crate::event::{LatePolicy, QueueName};

/// What the events of a queue have from its options, as the program of its handler knows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OccurrenceOptions {
    /// Of the payload.
    pub(super) version: u32,
    pub(super) attempts: u16,
    pub(super) encrypt: bool,
    pub(super) keep_payload: bool,
    pub(super) late: LatePolicy,
}

impl OccurrenceOptions {
    /// Those of a queue; `None`: its handler is not in this program, which knows its options only by
    /// chance.
    pub(super) fn of(inner: &Inner, queue: &QueueName) -> Option<Self> {
        inner.checks.get(queue)?;
        let options = inner.options(queue);
        Some(Self {
            version: options.version,
            attempts: options.attempts,
            encrypt: options.encrypt,
            keep_payload: options.keep_payload,
            late: options.late,
        })
    }

    /// Tells them from others.
    pub(super) fn fingerprint(&self) -> u64 {
        // Each of their parts can be written.
        xxh3_64(&serde_json::to_vec(self).unwrap_or_default())
    }
}
