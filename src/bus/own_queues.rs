//! The queues that the bus keeps for itself: those of each namespace, which is what the names of
//! queues and schedules have before their first dot.

/// The number of buckets of each of them, whatever the settings of a process say: each process looks
/// for an event where another one has put it.
pub(super) const OWN_BUCKETS: u16 = 8;

/// Returns the name of an own queue of the namespace that a name is in.
pub(super) fn beside(name: &str, own: &str) -> String {
    match name.split_once('.') {
        Some((namespace, _)) if !namespace.is_empty() => format!("{namespace}.{own}"),
        _ => own.to_owned(),
    }
}
