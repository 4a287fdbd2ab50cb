//! A file of a fixed length that is written through a shared mapping: without a system call.
//!
//! What is written outlives the process at once, as what a call writes does. SQLite shares its index
//! of the log in the same way.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use vm_memory::mmap::MmapRegion;
use vm_memory::{Bytes, FileOffset, VolatileMemory};

/// The file, and its mapping where the file system allows one.
#[derive(Debug)]
pub(super) struct MappedFile {
    file: File,
    map: Option<MmapRegion>,
    len: usize,
}

impl MappedFile {
    /// Fills an empty file with `len` zeros, and maps it.
    ///
    /// The zeros are written: each page then has its place on the disk, and writing to the mapping
    /// needs none that a full disk does not have, for which the system would end the process.
    pub(super) fn fill(mut file: File, len: usize) -> io::Result<Self> {
        file.write_all(&vec![0; len])?;
        let map = MmapRegion::from_file(FileOffset::new(file.try_clone()?, 0), len);
        let map = map.inspect_err(|error| {
            tracing::debug!(%error, "file cannot be mapped; it is written by calls");
        });
        Ok(Self {
            file,
            map: map.ok(),
            len,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.len
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
                let mut file = &self.file;
                file.seek(SeekFrom::Start(0))?;
                file.read_exact(&mut bytes)?;
            }
        }
        Ok(bytes)
    }

    /// Writes all of `bytes` at a place within the file.
    pub(super) fn write(&self, bytes: &[u8], at: usize) -> io::Result<()> {
        match &self.map {
            Some(map) => map
                .as_volatile_slice()
                .write_slice(bytes, at)
                .map_err(io::Error::other),
            None => {
                let mut file = &self.file;
                file.seek(SeekFrom::Start(at as u64))?;
                file.write_all(bytes)
            }
        }
    }
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
            let mut file = MappedFile::fill(file, 10_000).expect("room");
            assert!(file.map.is_some(), "a mapping");
            file.map = file.map.filter(|_| is_mapped);
            file.write(b"second", 5_000).expect("a write");
            file.write(b"first", 0).expect("a write");
            let bytes = std::fs::read(&path).expect("the file");
            assert_eq!(bytes.len(), 10_000);
            assert_eq!(
                (&bytes[..6], &bytes[4_999..5_007]),
                (&b"first\0"[..], &b"\0second\0"[..])
            );
            assert_eq!(file.read(5).expect("a read"), b"first");
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
        let file = MappedFile::fill(options.expect("a file"), 1 << 18).expect("room");
        file.file.sync_all().expect("a sync"); // some file systems choose the place only then
        let blocks = std::fs::metadata(&path).expect("a file").blocks();
        assert!(blocks * 512 >= 1 << 18, "{blocks} blocks of 512 bytes");
    }

    #[test]
    fn nothing_is_written_behind_its_end() {
        let file = tempfile::tempfile().expect("a file");
        let file = MappedFile::fill(file, 100).expect("room");
        assert!(file.write(&[1; 2], 99).is_err());
    }
}
