//! The options of a queue that the occurrences of a schedule are pushed with, whichever process pushes
//! them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::bus::inner::Inner;
use crate::bus::queue_handle::QueueHandle;
use crate::bus::schedules::link::Link;
use crate::event::{LatePolicy, QueueName};

/// What the events of a queue have from its options, as the program of its handler knows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OccurrenceOptions {
    /// Of the payload.
    pub(super) version: u32,
    attempts: u16,
    pub(super) encrypt: bool,
    keep_payload: bool,
    late: LatePolicy,
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

/// The queue of occurrences of a schedule, with the options that are noted for them.
pub(super) fn queue_for(inner: &Arc<Inner>, link: &Link, queue: &QueueName) -> QueueHandle {
    let mut handle = QueueHandle::new(Arc::clone(inner), queue.clone());
    if let Some(noted) = &link.queue_options {
        let options = Arc::make_mut(&mut handle.options);
        options.version = noted.version;
        options.attempts = noted.attempts;
        options.encrypt |= noted.encrypt;
        options.keep_payload = noted.keep_payload;
        options.late = noted.late;
    }
    handle
}

/// Returns whether the link of a schedule is encrypted: if its occurrences are.
pub(super) fn is_secret(inner: &Inner, link: &Link) -> bool {
    let noted = link.queue_options.as_ref();
    noted.is_some_and(|noted| noted.encrypt)
        || inner.options(link.options.queue()).encrypt
        || link.acting().is_some_and(|former| {
            let noted = former.queue_options.as_ref();
            noted.is_some_and(|noted| noted.encrypt)
                || inner.options(former.options.queue()).encrypt
        })
}
