//! The findings of a check of a store.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::event::{BucketKey, EventId};
use crate::time::Timestamp;

/// The most damage that a bucket or a store lists; the rest is only counted.
const LISTED_MAX: usize = 10_000;

/// Something in a store that should not be so.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// What it is.
    pub kind: DamageKind,
    /// Where it is; `None` if it concerns the whole store.
    pub bucket: Option<BucketKey>,
    /// The event, if it concerns one.
    pub id: Option<EventId>,
    /// What exactly is wrong.
    pub words: String,
    /// When it was found, if that was before this check.
    pub found: Option<Timestamp>,
    /// Whether this check has repaired it.
    pub repaired: bool,
}

impl Damage {
    /// Returns damage of a store as a whole that is not repaired; set the other fields for any
    /// other.
    #[must_use]
    pub fn new(kind: DamageKind, words: impl Into<String>) -> Self {
        Self {
            kind,
            bucket: None,
            id: None,
            words: words.into(),
            found: None,
            repaired: false,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(bucket) = &self.bucket {
            write!(f, "{bucket}: ")?;
        }
        if let Some(id) = self.id {
            write!(f, "{id} ")?;
        }
        f.write_str(&self.words)
    }
}

/// A kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DamageKind {
    /// A bucket that has events and that the registry does not know.
    Unregistered,
    /// An event whose body is gone.
    NoBody,
    /// A body that no structure of the store leads to.
    NoPlace,
    /// An event that is not where its state says.
    Misplaced,
    /// A lease of which its request or its node knows nothing.
    LostLease,
    /// Leases of a node that has been silent for more than a minute, and that nobody took back.
    SilentNode,
    /// An entry of an index or a set that leads to nothing.
    Stray,
    /// A body or a page that nothing needs any more.
    Leftover,
    /// Counts that do not add up.
    Counts,
    /// A key or an entry that is not what the store writes there, a page whose parts contradict each
    /// other or their bodies, or a body whose bytes are damaged.
    Unreadable,
    /// A row of the file that was set aside, since its checksum did not hold.
    SetAside,
    /// A damaged file.
    File,
    /// Settings of a server that weaken what the store promises.
    Settings,
}

impl DamageKind {
    /// Every kind.
    pub const ALL: [Self; 13] = [
        Self::Unregistered,
        Self::NoBody,
        Self::NoPlace,
        Self::Misplaced,
        Self::LostLease,
        Self::SilentNode,
        Self::Stray,
        Self::Leftover,
        Self::Counts,
        Self::Unreadable,
        Self::SetAside,
        Self::File,
        Self::Settings,
    ];

    /// Its name, in one word for programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unregistered => "unregistered",
            Self::NoBody => "no_body",
            Self::NoPlace => "no_place",
            Self::Misplaced => "misplaced",
            Self::LostLease => "lost_lease",
            Self::SilentNode => "silent_node",
            Self::Stray => "stray",
            Self::Leftover => "leftover",
            Self::Counts => "counts",
            Self::Unreadable => "unreadable",
            Self::SetAside => "set_aside",
            Self::File => "file",
            Self::Settings => "settings",
        }
    }

    /// What it is, in a few words.
    #[must_use]
    pub const fn what(self) -> &'static str {
        match self {
            Self::Unregistered => "buckets that the registry does not know",
            Self::NoBody => "events whose body is gone",
            Self::NoPlace => "bodies that no structure leads to",
            Self::Misplaced => "events that are not where their state says",
            Self::LostLease => "leases of which their request or node knows nothing",
            Self::SilentNode => "leases of nodes that have been silent for more than a minute",
            Self::Stray => "entries that lead to nothing",
            Self::Leftover => "bodies and pages that nothing needs any more",
            Self::Counts => "counts that do not add up",
            Self::Unreadable => "entries and bodies that cannot be read",
            Self::SetAside => "rows that were set aside, since their checksum did not hold",
            Self::File => "faults of the file",
            Self::Settings => "settings that weaken what the store promises",
        }
    }

    /// What a repair does, or what to do where there is none.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Unregistered => "it is registered, so that consumers look for it",
            Self::NoBody => "its payload is gone: it ends as dropped, with a record that says so",
            Self::NoPlace => "the event is put back, due now, with all its attempts",
            Self::Misplaced => "it is put where its state says",
            Self::LostLease => "the event is taken back; the attempt counts",
            Self::SilentNode => "the events are taken back, as by any live node",
            Self::Stray | Self::Leftover => "it is removed; no event loses anything",
            Self::Counts => "they are counted anew",
            Self::Unreadable => {
                "not repaired: restore the key from a backup, or cancel the event that it names, \
                 unless its page contradicts itself"
            }
            Self::SetAside => {
                "not repaired: the bytes are kept in the table `damaged`; \
                 push the event again if you can tell which it was"
            }
            Self::File => "not repaired: stop the process and restore the file from a backup",
            Self::Settings => "not repaired: change the settings of the server as it says",
        }
    }

    /// Whether a check can repair it.
    #[must_use]
    pub const fn is_repairable(self) -> bool {
        !matches!(
            self,
            Self::Unreadable | Self::SetAside | Self::File | Self::Settings
        )
    }
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a store is asked to do in a check.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckTask {
    /// Whether damage is repaired, not only reported.
    pub repairs: bool,
    /// What was found before is old.
    pub(crate) since: Option<Timestamp>,
    /// How many entries were looked at so far, by all buckets.
    looked: Arc<AtomicU64>,
    /// How much damage of each kind is not listed.
    unlisted: Arc<Mutex<BTreeMap<Unlisted, u64>>>,
}

/// Damage that is only counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unlisted {
    pub(crate) kind: DamageKind,
    pub(crate) is_repaired: bool,
    pub(crate) is_old: bool,
}

impl CheckTask {
    /// A task that repairs, or one that only looks.
    #[must_use]
    pub fn new(repairs: bool) -> Self {
        Self {
            repairs,
            ..Self::default()
        }
    }

    /// Adds damage to the list that a check returns. Beyond 10,000 of it, what is of a kind that is
    /// listed already is only counted, since there may be any number of it.
    pub fn list(&self, list: &mut Vec<Damage>, damage: Damage) {
        if list.len() >= LISTED_MAX {
            let unlisted = Unlisted {
                kind: damage.kind,
                is_repaired: damage.repaired,
                is_old: self.is_old(&damage),
            };
            match self.unlisted.lock().entry(unlisted) {
                Entry::Occupied(mut count) => {
                    *count.get_mut() += 1;
                    return;
                }
                Entry::Vacant(first) => drop(first.insert(0)),
            }
        }
        list.push(damage);
    }

    /// Whether damage was found before this check, and long ago.
    pub(crate) fn is_old(&self, damage: &Damage) -> bool {
        damage.found.is_some_and(|found| Some(found) < self.since)
    }

    /// Takes how much damage of each kind was found and not listed.
    pub(crate) fn take_unlisted(&self) -> BTreeMap<Unlisted, u64> {
        std::mem::take(&mut *self.unlisted.lock())
    }

    /// Counts entries that were looked at, for whoever shows the progress.
    pub fn add_looked(&self, entries: u64) {
        self.looked.fetch_add(entries, Ordering::Relaxed);
    }

    /// Returns how many entries were looked at so far.
    #[must_use]
    pub fn looked(&self) -> u64 {
        self.looked.load(Ordering::Relaxed)
    }
}
