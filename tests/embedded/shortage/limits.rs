//! What a process, or its disk, has too little of for a while.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What there is too little of, as long as this lives.
pub(crate) enum Short {
    Limit(Resource, Rlimit),
    Disk(PathBuf),
}

impl Short {
    /// Lowers a limit of this process, which can raise it again.
    pub(crate) fn of(resource: Resource, most: u64) -> Self {
        let before = getrlimit(resource);
        let lower = Rlimit {
            current: Some(most),
            maximum: before.maximum,
        };
        setrlimit(resource, lower).expect("a lower limit");
        Self::Limit(resource, before)
    }

    /// Leaves descriptors for so many files more.
    pub(crate) fn descriptors(more: usize) -> Self {
        let open: Vec<u64> = fs::read_dir("/proc/self/fd")
            .expect("the descriptors")
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        // The first that is free, or the one after it, and so on; the folder itself was one.
        let free = (0..).filter(|number| !open.contains(number) || Some(number) == open.last());
        let limit = free.take(more + 1).last().expect("numbers do not end");
        Self::of(Resource::Nofile, limit)
    }

    /// Leaves so many bytes of the disk.
    pub(crate) fn disk(path: &Path, left: usize) -> Self {
        let spare = path.with_file_name("spare");
        fs::write(&spare, vec![1; left]).ok();
        let ballast = crate::embedded::full::ballast(path);
        fs::remove_file(spare).ok();
        Self::Disk(ballast)
    }

    pub(crate) fn random(path: &Path, rng: &mut fastrand::Rng) -> (&'static str, Self) {
        let len = |suffix: &str| {
            let mut path = path.as_os_str().to_owned();
            path.push(suffix);
            fs::metadata(path).map_or(0, |file| file.len())
        };
        match rng.usize(..4) {
            0 | 1 => ("descriptors", Self::descriptors(rng.usize(..3))),
            2 => {
                let sizes = [0, len(""), len("-wal"), 1 << 18, rng.u64(..4 << 20)];
                let size = sizes[rng.usize(..sizes.len())] + rng.u64(..3) * 1_000;
                ("size of files", Self::of(Resource::Fsize, size))
            }
            _ => ("disk", Self::disk(path, rng.usize(..300_000))),
        }
    }
}

impl Drop for Short {
    fn drop(&mut self) {
        match self {
            Self::Limit(resource, before) => {
                setrlimit(*resource, *before).expect("the limit of before");
            }
            Self::Disk(ballast) => fs::remove_file(ballast).expect("the ballast"),
        }
    }
}
