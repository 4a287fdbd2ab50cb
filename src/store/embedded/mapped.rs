//! A file of a fixed length that is written through a shared mapping: without a system call.
//!
//! What is written outlives the process at once, as what a call writes does. SQLite shares its index
//! of the log in the same way.
//!
//! No call lies between two writes, at which a test could stop the process. So what a file is made
//! with is written by calls, and before each later write a test may make one of its own: see
//! [`before_each_write`].

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use vm_memory::mmap::MmapRegion;
use vm_memory::{Bytes, FileOffset, VolatileMemory};

use crate::panics;

/// The file, and its mapping where the file system allows one, and writes it in place.
#[derive(Debug)]
pub(super) struct MappedFile {
    file: Arc<File>,
    map: Option<MmapRegion>,
    len: usize,
}

impl MappedFile {
    /// Fills an empty file with `bytes` and with zeros up to `len`, and maps it.
    ///
    /// The zeros are written: each page then has its place on the disk, and writing to the mapping
    /// needs none that a full disk does not have, for which the system would end the process. Where
    /// a page may get another place when it is written, the file is not mapped: a call returns an
    /// error.
    pub(super) fn fill(mut file: File, mut bytes: Vec<u8>, len: usize) -> io::Result<Self> {
        bytes.resize(len.max(bytes.len()), 0);
        file.write_all(&bytes)?;
        let file = Arc::new(file);
        let map = is_written_in_place(&file).then(|| {
            let whole = FileOffset::from_arc(Arc::clone(&file), 0);
            MmapRegion::from_file(whole, bytes.len()).inspect_err(|error| {
                panics::reported(
                    || tracing::debug!(%error, "file cannot be mapped; it is written by calls"),
                );
            })
        });
        Ok(Self {
            file,
            map: map.and_then(Result::ok),
            len: bytes.len(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Returns whether the file is shorter than its mapping, or than the `written` bytes of one that
    /// has none.
    pub(super) fn is_cut(&self, written: usize) -> bool {
        let least = self.map.as_ref().map_or(written, |_| self.len);
        let found = self.file.metadata();
        found.is_ok_and(|found| found.len() < least as u64)
    }

    /// Writes by calls from now on: the file was cut, and the system ends a process that touches
    /// what a mapping has lost, or for which a full disk has no room.
    pub(super) fn unmap(&mut self) {
        self.map = None;
    }

    /// Reads the first `len` bytes.
    pub(super) fn read(&self, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        match &self.map {
            Some(map) => map
                .as_volatile_slice()
                .read_slice(&mut bytes, 0)
                .map_err(io::Error::other)?,
            None => {
                let mut file = &*self.file;
                file.seek(SeekFrom::Start(0))?;
                file.read_exact(&mut bytes)?;
            }
        }
        Ok(bytes)
    }

    /// Writes all of `bytes` at a place within the file.
    pub(super) fn write(&self, bytes: &[u8], at: usize) -> io::Result<()> {
        match &self.map {
            Some(map) => {
                let slice = map.as_volatile_slice();
                let mut at = at;
                for part in parts(bytes) {
                    slice.write_slice(part, at).map_err(io::Error::other)?;
                    at += part.len();
                }
                Ok(())
            }
            None => {
                let mut file = &*self.file;
                file.seek(SeekFrom::Start(at as u64))?;
                file.write_all(bytes)
            }
        }
    }
}

/// Whether what is in the file is overwritten where it is, so that it needs no room on the disk.
#[cfg(target_os = "linux")]
fn is_written_in_place(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|system| in_place::HAVE.contains(&system.f_type))
}

/// Nobody says it of a file system elsewhere.
#[cfg(not(target_os = "linux"))]
fn is_written_in_place(_file: &File) -> bool {
    false
}

/// File systems by the numbers that Linux has for them.
#[cfg(target_os = "linux")]
mod in_place {
    use rustix::fs::FsWord;

    /// ext2 to ext4, and tmpfs. Not among them are those that copy on each write, as btrfs and ZFS;
    /// XFS, where a file shares its blocks with a copy of it; and what does not say where it writes,
    /// as overlays and networks.
    pub(super) const HAVE: [FsWord; 2] = [0xEF53, 0x0102_1994];
}

/// All of `bytes`, as one write does it.
#[cfg(not(any(test, feature = "testing")))]
fn parts(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::once(bytes)
}

/// All of `bytes`; where a test wants to stop the process there, in two parts, neither of which ends
/// with a note.
#[cfg(any(test, feature = "testing"))]
fn parts(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let hook = HOOK.get();
    let (first, rest) = bytes.split_at(match hook {
        Some(_) => bytes.len() / 2 + bytes.len().min(7) / 2,
        None => bytes.len(),
    });
    let parts = [first, rest].into_iter();
    parts
        .filter(|part| !part.is_empty())
        .inspect(move |_| hook.into_iter().for_each(|hook| hook()))
}

#[cfg(any(test, feature = "testing"))]
static HOOK: std::sync::OnceLock<fn()> = std::sync::OnceLock::new();

/// Calls `hook` before each write through a mapping, and in the middle of it: a call that it makes
/// is one at which the process can be stopped.
#[cfg(any(test, feature = "testing"))]
pub fn before_each_write(hook: fn()) {
    let _ = HOOK.set(hook); // the first stays
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_in_the_file_at_once_with_a_mapping_and_without() {
        for is_mapped in [true, false] {
            let directory = tempfile::tempdir().expect("a directory");
            let path = directory.path().join("file");
            let mut options = File::options();
            let options = options.read(true).write(true).create_new(true);
            let file = options.open(&path).expect("a file");
            let mut file = MappedFile::fill(file, b"filled".to_vec(), 10_000).expect("room");
            if is_mapped && file.map.is_none() {
                continue; // nor does the store map one there
            }
            file.map = file.map.filter(|_| is_mapped);
            assert_eq!(file.read(7).expect("a read"), b"filled\0");
            file.write(b"second", 5_000).expect("a write");
            file.write(b"first", 0).expect("a write");
            let bytes = std::fs::read(&path).expect("the file");
            assert_eq!(bytes.len(), 10_000);
            assert_eq!(
                (&bytes[..6], &bytes[4_999..5_007]),
                (&b"firstd"[..], &b"\0second\0"[..])
            );
            assert_eq!(file.read(5).expect("a read"), b"first");
        }
    }

    /// Elsewhere a full disk would end the process at the first note.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_is_mapped_where_it_is_written_in_place_alone() {
        // btrfs, XFS, ZFS, overlays, NFS, F2FS, bcachefs
        let others = [
            0x9123_683E,
            0x5846_5342,
            0x2FC1_2FC1,
            0x794C_7630,
            0x6969,
            0xF2F5_2010,
            0xCA45_1A4E,
        ];
        for other in others {
            assert!(!in_place::HAVE.contains(&other), "{other:x}");
        }
        let mut places = vec![tempfile::tempfile().expect("a file")];
        places.extend(tempfile::tempfile_in("/dev/shm").ok());
        for file in places {
            let kind = rustix::fs::fstatfs(&file).expect("its file system").f_type;
            let mapped = MappedFile::fill(file, Vec::new(), 100).expect("room");
            let is_mapped = mapped.map.is_some();
            assert_eq!(is_mapped, in_place::HAVE.contains(&kind), "{kind:x}");
        }
    }

    /// Else the first note on a full disk would end the process.
    #[cfg(unix)]
    #[test]
    fn each_of_its_pages_has_a_place_on_the_disk_from_the_start() {
        use std::os::unix::fs::MetadataExt;

        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        let options = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        let file = MappedFile::fill(options.expect("a file"), Vec::new(), 1 << 18).expect("room");
        file.file.sync_all().expect("a sync"); // some file systems choose the place only then
        let blocks = std::fs::metadata(&path).expect("a file").blocks();
        assert!(blocks * 512 >= 1 << 18, "{blocks} blocks of 512 bytes");
    }

    #[test]
    fn nothing_is_written_behind_its_end() {
        let file = tempfile::tempfile().expect("a file");
        let file = MappedFile::fill(file, Vec::new(), 100).expect("room");
        assert!(file.write(&[1; 2], 99).is_err());
    }
}
