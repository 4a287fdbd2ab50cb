//! Names of queues that nobody knows: which known one was probably meant.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::bus::Inner;
use crate::config::{queue_meant, spelled_otherwise};
use crate::error::{Error, ErrorKind, Result};
use crate::event::QueueName;

/// How many names are judged that no handler and no setting of this program has; it has more queues
/// than that only where their names are made by a program, which makes no slips.
const JUDGED_MAX: usize = 1_000;

/// Which unknown names are taken for slips.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Those that are a known name spelled otherwise.
    Spelling,
    /// Those, and those that are a letter or two away from a known one.
    Slips,
}

/// The names that were judged when they were pushed to.
#[derive(Debug, Default)]
pub(super) struct Judged(Mutex<BTreeSet<QueueName>>);

impl Judged {
    /// Whether this name is judged for the first time.
    fn is_first(&self, queue: &QueueName) -> bool {
        let mut judged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        judged.len() < JUDGED_MAX && judged.insert(queue.clone())
    }
}

impl Inner {
    /// Refuses a queue that neither this program nor the store knows, that no other program
    /// consumes, and that is probably meant to be one that is known.
    ///
    /// A name that is like no other is let through: a queue has no first event before its first.
    pub(super) async fn check_known(&self, queue: &QueueName, doubt: Doubt) -> Result<()> {
        if self.queues.contains_key(queue) {
            return Ok(());
        }
        let buckets = self.open()?.buckets().await?;
        let stored: BTreeSet<QueueName> = buckets.into_iter().map(|key| key.queue).collect();
        self.check_known_among(queue, doubt, &stored)
    }

    /// The same, where the queues that the store knows are at hand.
    pub(super) fn check_known_among(
        &self,
        queue: &QueueName,
        doubt: Doubt,
        stored: &BTreeSet<QueueName>,
    ) -> Result<()> {
        if self.queues.contains_key(queue) || stored.contains(queue) {
            return Ok(());
        }
        let flow = self.flow();
        if flow.as_ref().is_some_and(|flow| flow.is_consumed(queue)) {
            return Ok(());
        }
        let known: Vec<&QueueName> = self.queues.keys().chain(stored).collect();
        let meant = match doubt {
            Doubt::Spelling => spelled_otherwise(queue, known),
            Doubt::Slips => queue_meant(queue, known),
        };
        match meant {
            None => Ok(()),
            Some(meant) => Err(Error::new(
                ErrorKind::NotFound,
                format!(
                    "queue {queue} is known neither to this program nor to its store, and no other \
                     program consumes it, did you mean {meant}?"
                ),
            )),
        }
    }

    /// Logs, once for each name, that a queue to push to is probably meant to be another one. It
    /// may be one of another program that has not started yet, so it is not refused.
    pub(super) fn warn_of_slip(&self, queue: &QueueName) {
        if self.queues.contains_key(queue) || !self.judged.is_first(queue) {
            return;
        }
        if let Some(meant) = queue_meant(queue, self.queues.keys()) {
            tracing::warn!(
                %queue, %meant,
                "queue has no handler and no settings in this program"
            );
        }
    }
}
