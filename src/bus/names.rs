//! Unknown queue names: the known name that was probably meant.

use std::collections::BTreeSet;

use crate::bus::inner::Inner;
use crate::bus::state::names::CheckedNames;
use crate::config::{queue_meant, spelled_otherwise};
use crate::error::{Error, ErrorKind, Result};
use crate::event::QueueName;
use crate::panics;

/// Which unknown names are taken for mistakes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MatchLevel {
    /// Another spelling of a known name.
    Spelling,
    /// Also a name that is a letter or two away from a known one.
    Slips,
}

impl Inner {
    /// Rejects a queue that neither this program nor the store knows, that no other program
    /// consumes, and whose name is probably a mistake for a known one.
    ///
    /// A name that resembles no other is accepted: each queue has a first event.
    pub(super) async fn check_known(&self, queue: &QueueName, level: MatchLevel) -> Result<()> {
        if self.checked_names.is_none() || self.queues.contains_key(queue) || queue.is_own() {
            return Ok(());
        }
        let buckets = self.open()?.buckets().await?;
        let stored: BTreeSet<QueueName> = buckets.into_iter().map(|key| key.queue).collect();
        self.check_known_among(queue, level, &stored)
    }

    /// The same, given the queues that the store knows.
    pub(super) fn check_known_among(
        &self,
        queue: &QueueName,
        level: MatchLevel,
        stored: &BTreeSet<QueueName>,
    ) -> Result<()> {
        let is_known = self.queues.contains_key(queue) || stored.contains(queue);
        if self.checked_names.is_none() || is_known {
            return Ok(());
        }
        let flow = self.flow();
        if flow.as_ref().is_some_and(|flow| flow.is_consumed(queue)) {
            return Ok(());
        }
        let known: Vec<&QueueName> = self.queues.keys().chain(stored).collect();
        let meant = match level {
            MatchLevel::Spelling => spelled_otherwise(queue, known),
            MatchLevel::Slips => queue_meant(queue, known),
        };
        match meant {
            None => Ok(()),
            Some(meant) => Err(Error::new(
                ErrorKind::NotFound,
                format!(
                    "queue {queue} is unknown to this program and to its store, and no other \
                     program consumes it; did you mean {meant}?"
                ),
            )),
        }
    }

    /// Logs once for each name that a queue to push to is probably a mistake for another. It may
    /// belong to a program that has not started yet, so it is not rejected.
    pub(super) fn warn_of_slip(&self, queue: &QueueName) {
        let is_first = |names: &CheckedNames| names.is_first(queue);
        if self.queues.contains_key(queue) || !self.checked_names.as_ref().is_some_and(is_first) {
            return;
        }
        if let Some(meant) = queue_meant(queue, self.queues.keys()) {
            panics::reported(|| {
                tracing::warn!(
                    %queue, %meant,
                    "queue has no handler and no settings in this program"
                );
            });
        }
    }
}
