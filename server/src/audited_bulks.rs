//! Actions on many events whose lines of the audit were written lately: such an action takes many
//! requests, and none of them goes without a line.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The line of an action that goes on is written again after so long.
const AGAIN_AFTER: Duration = Duration::from_secs(600);
/// As many actions are known; the oldest of more is forgotten, so its line is written again.
const KNOWN_MAX: usize = 256;

/// The actions, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct AuditedBulks(Mutex<VecDeque<(Instant, String)>>);

impl AuditedBulks {
    /// Notes an action, and returns whether it was not known.
    pub(crate) fn note(&self, action: String) -> bool {
        let now = Instant::now();
        let mut known = self.0.lock();
        known.retain(|(at, _)| now.duration_since(*at) < AGAIN_AFTER);
        if known.iter().any(|(_, it)| *it == action) {
            return false;
        }
        if known.len() >= KNOWN_MAX {
            known.pop_front();
        }
        known.push_back((now, action));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_action_is_new_once_in_a_while_and_the_oldest_is_forgotten() {
        let audited = AuditedBulks::default();
        let note = |number: usize| audited.note(format!("action {number}"));
        assert!(note(0) && !note(0) && note(1));
        assert!((2..=KNOWN_MAX).all(note), "the first one goes for the last");
        assert!(note(0) && !note(KNOWN_MAX));
        tokio::time::advance(AGAIN_AFTER).await;
        assert!(note(KNOWN_MAX));
    }
}
