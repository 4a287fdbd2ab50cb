//! The versions of the shared state: what they are of, and their numbers.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a version is of. Names are forgotten by who has a token, as often as it likes, so nobody
/// reads tokens again for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionOf {
    /// Who may do what, and the targets of webhooks.
    Rights,
    /// The names that were forgotten.
    Names,
}

impl VersionOf {
    pub(super) const ALL: [Self; 2] = [Self::Rights, Self::Names];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Rights => "version",
            Self::Names => "version-of-names",
        }
    }
}

/// The versions, which are read together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Versions {
    pub(super) rights: u64,
    pub(super) names: u64,
}

/// The versions: numbers of this process, as no other changes the file.
#[derive(Debug, Default)]
pub(super) struct LocalVersions {
    rights: AtomicU64,
    names: AtomicU64,
}

impl LocalVersions {
    pub(super) fn get(&self) -> Versions {
        Versions {
            rights: self.rights.load(Ordering::SeqCst),
            names: self.names.load(Ordering::SeqCst),
        }
    }

    pub(super) fn raise(&self, version: VersionOf) {
        let version = match version {
            VersionOf::Rights => &self.rights,
            VersionOf::Names => &self.names,
        };
        version.fetch_add(1, Ordering::SeqCst);
    }
}
