//! Labels of metrics: bounded in all, and for each namespace.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use parking_lot::{Mutex, MutexGuard};

/// How many namespaces have labels of their own, and how many queues, and tokens, of each have one
/// whatever others do.
const OWNERS_MAX: usize = 1_000;
const LABELS_OF_EACH: usize = 8;
/// How many more there are of a kind; what is beyond shares one label.
const LABELS_MAX: usize = 1_000;
/// The most of these that one namespace has.
const LABELS_OF_ONE_MAX: usize = LABELS_MAX / 4;

/// The names of a kind that have a label of their own, by their owner.
pub(super) struct KnownLabels(LazyLock<Mutex<Labelled>>);

#[derive(Default)]
struct Labelled {
    /// How many there are beyond the first ones of each owner.
    common: usize,
    of: HashMap<String, HashSet<String>>,
}

impl KnownLabels {
    pub(super) const fn new() -> Self {
        Self(LazyLock::new(Mutex::default))
    }

    /// Whether a name has a label of its own: it has one already, it is one of the first of its owner,
    /// or there is room for it, in all and for its owner.
    pub(super) fn admit(&self, owner: &str, name: &str) -> bool {
        let mut known = self.lock();
        let of_owner = known.of.get(owner);
        if of_owner.is_some_and(|names| names.contains(name)) {
            return true;
        }
        if of_owner.is_none() && known.of.len() >= OWNERS_MAX {
            return false;
        }
        let more = of_owner.map_or(0, HashSet::len).checked_sub(LABELS_OF_EACH);
        if let Some(more) = more {
            // At most as many as are left to others, so that one alone does not take all.
            let left = LABELS_MAX.saturating_sub(known.common);
            if more >= left.min(LABELS_OF_ONE_MAX) {
                return false;
            }
            known.common += 1;
        }
        let of_owner = known.of.entry(owner.to_owned()).or_default();
        of_owner.insert(name.to_owned())
    }

    /// Whether a name has a label of its own already.
    pub(super) fn has(&self, owner: &str, name: &str) -> bool {
        let known = self.lock();
        known
            .of
            .get(owner)
            .is_some_and(|names| names.contains(name))
    }

    fn lock(&self) -> MutexGuard<'_, Labelled> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_owner_has_its_first_labels_whatever_others_do_and_all_are_bounded() {
        let known = KnownLabels::new();
        let admitted = |owner: usize, names: usize| {
            let names = (0..names).map(|name| name.to_string());
            let admitted = names.filter(|name| known.admit(&owner.to_string(), name));
            admitted.count()
        };
        let hostile: Vec<usize> = (0..20).map(|owner| admitted(owner, 5_000)).collect();
        assert_eq!(hostile[..4], [258, 258, 258, 133]);
        let others = (20..OWNERS_MAX).map(|owner| admitted(owner, LABELS_OF_EACH));
        assert!(others.into_iter().all(|count| count == LABELS_OF_EACH));
        assert_eq!(admitted(OWNERS_MAX, 1), 0);
        assert_eq!(admitted(0, 5_000), 258, "those that have one keep it");
        let all: usize = (0..2 * OWNERS_MAX).map(|owner| admitted(owner, 300)).sum();
        assert!(all <= OWNERS_MAX * LABELS_OF_EACH + LABELS_MAX, "{all}");
    }
}
