//! Room on the disk: a reserve for the time when it is full, and whether it is.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sqlite::files;

/// A file of nothing, given up when the disk is full so that what is stored can still be handled.
#[derive(Debug)]
pub(super) struct Space {
    reserve: PathBuf,
    bytes: u64,
    full: AtomicBool,
}

impl Space {
    pub(super) fn new(reserve: PathBuf, bytes: u64) -> Self {
        Self {
            reserve,
            bytes,
            full: AtomicBool::new(false),
        }
    }

    pub(super) fn reserve_bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether pushes are refused for want of room.
    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// The disk is full: refuses pushes from now on and gives up the reserve.
    pub(super) fn release(&self) {
        if !self.full.swap(true, Ordering::AcqRel) {
            tracing::warn!(reserve = self.bytes, "disk full, pushes refused");
        }
        let _ = fs::remove_file(&self.reserve); // gone already: nothing to give
    }

    /// Makes the reserve anew where it is missing; when there is room for it, pushes are taken.
    ///
    /// # Errors
    ///
    /// When it cannot be written, for another reason than a full disk.
    pub(super) fn restore(&self) -> io::Result<()> {
        match self.fill() {
            Ok(()) => {
                if self.full.swap(false, Ordering::AcqRel) {
                    tracing::info!("disk has room again, pushes accepted");
                }
                Ok(())
            }
            Err(error) => {
                let _ = fs::remove_file(&self.reserve); // a part of it is of no use
                if error.kind() == io::ErrorKind::StorageFull {
                    self.full.store(true, Ordering::Release);
                    return Ok(());
                }
                Err(error)
            }
        }
    }

    /// Written, not only sized: a hole in a file reserves nothing.
    fn fill(&self) -> io::Result<()> {
        let there = self
            .reserve
            .symlink_metadata()
            .map_or(0, |found| found.len());
        if there >= self.bytes {
            return Ok(());
        }
        let mut reserve = files::open(&self.reserve, OpenOptions::new().write(true))?;
        let zeros = [0_u8; 64 * 1024];
        let mut left = self.bytes;
        while left > 0 {
            let part = left.min(zeros.len() as u64);
            reserve.write_all(&zeros[..part as usize])?; // no more than the buffer
            left -= part;
        }
        reserve.sync_all()
    }
}
