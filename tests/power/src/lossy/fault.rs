//! What goes wrong with the disk, and when.

use std::path::Path;

use fastrand::Rng;

/// What is asked of a disk and changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Write,
    Sync,
    SyncFolder,
    /// A name, a length, a mode.
    Other,
}

/// For how long the disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasts {
    /// One request.
    Once,
    /// Every write and every sync from then on.
    Always,
}

/// The power cut to come.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// The request in whose stead it comes, from 1.
    pub(crate) at: u64,
    /// What is torn, when sectors survive by chance.
    pub(crate) tear: Option<Rng>,
}

/// What goes wrong; nothing by default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) cut: Option<Cut>,
    /// The write or sync that fails, from 1, and whether later ones do.
    pub(crate) error: Option<(u64, Lasts)>,
    /// How many bytes the disk holds.
    pub(crate) room: Option<usize>,
    /// Every other write takes only a part of its bytes.
    pub(crate) short: Option<Rng>,
    /// Syncs of files with names that end so are answered and not done.
    pub(crate) lies_about: Option<&'static str>,
}

/// What was asked since the faults were set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Everything that changes the disk.
    pub(crate) requests: u64,
    /// Writes and syncs.
    pub(crate) writes_and_syncs: u64,
    /// Those that failed.
    pub(crate) failed: u64,
    /// Those that failed, but for syncs of folders.
    pub(crate) errors: u64,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    Failed,
    /// The power goes in its stead.
    Cut,
}

impl Faults {
    /// Counts a request and decides what becomes of it.
    pub(crate) fn decide(&self, request: Request, seen: &mut Seen) -> Fate {
        seen.requests += 1;
        if self.cut.as_ref().is_some_and(|cut| cut.at == seen.requests) {
            return Fate::Cut;
        }
        if request == Request::Other {
            return Fate::Done;
        }
        seen.writes_and_syncs += 1;
        let fails = match self.error {
            Some((at, Lasts::Once)) => seen.writes_and_syncs == at,
            Some((at, Lasts::Always)) => seen.writes_and_syncs >= at,
            None => false,
        };
        if !fails {
            return Fate::Done;
        }
        seen.failed += 1;
        seen.errors += u64::from(request != Request::SyncFolder);
        Fate::Failed
    }

    /// How many bytes of a write of `len` are taken.
    pub(crate) fn taken(&mut self, len: usize) -> usize {
        let Some(random) = &mut self.short else {
            return len;
        };
        if len > 1 && random.bool() {
            random.usize(1..len)
        } else {
            len
        }
    }

    /// Whether a sync of this file is a lie.
    pub(crate) fn lies(&self, name: &Path) -> bool {
        let ending = self.lies_about;
        ending.is_some_and(|ending| name.to_string_lossy().ends_with(ending))
    }
}
