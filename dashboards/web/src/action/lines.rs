//! The lines of the audit of what is done over many queues.

use std::collections::BTreeSet;

use duly::QueueName;

/// The most queues that have a line each.
const QUEUES_MAX: usize = 100;

/// Returns the targets of what is done to what was found in some queues: each has a line, which is
/// in the audit of its namespace and names nothing of another. One more, of the store, is for those
/// that were not looked at, are too many, or none.
pub(super) fn lines(found: &BTreeSet<QueueName>, is_whole: bool, what: &str) -> Vec<String> {
    let is_told = is_whole && !found.is_empty() && found.len() <= QUEUES_MAX;
    let named = found.iter().take(QUEUES_MAX);
    let named = named.map(|queue| format!("{queue}, {what}"));
    let rest = (!is_told).then(|| format!("every queue, {what}"));
    named.chain(rest).collect()
}
