//! Room on the disk: a reserve for the time when it is full, and whether it is.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::outage::Outage;
use crate::sqlite::files;
use crate::sqlite::shortage::Shortage;
use crate::store::embedded::ticket;

/// The smallest reserve with which pushes are taken, where a larger one is wanted: twice what the
/// log has at most on a full disk, and as much again.
const LEAST: u64 = 512 << 10;
/// How much room there must be beside it.
const BESIDE: u64 = 64 << 10;
/// How much the reserve grows at a time while callers wait for the thread that does it.
const STEP: u64 = 1 << 20;
/// How far apart two equal parts of the reserve are: further than what file systems compress as one.
const NOISE: u64 = 1 << 20;
/// No two parts of it that are this long are equal: some file systems store such ones once.
const PAGE: usize = 4 << 10;

/// A file of nothing, given up when the disk is full so that what is stored can still be handled.
///
/// It is at most half of the room that there is, so a disk on which there is less than was wanted
/// has a smaller one. The file stays open: that it is needed is no time to look for a descriptor.
#[derive(Debug)]
pub(super) struct Space {
    reserve: Mutex<File>,
    wanted: u64,
    /// How long the reserve is.
    held: AtomicU64,
    full: AtomicBool,
    log: Outage,
}

impl Space {
    /// A reserve of `wanted` bytes at `path`, which [`restore`](Self::restore) fills.
    pub(super) fn open(path: &Path, wanted: u64) -> io::Result<Self> {
        let reserve = files::open(path, OpenOptions::new().read(true).write(true))?;
        Ok(Self {
            held: AtomicU64::new(reserve.metadata()?.len()),
            reserve: Mutex::new(reserve),
            wanted,
            full: AtomicBool::new(false),
            log: Outage::of("room on the disk of the embedded store"),
        })
    }

    /// How many bytes are held back.
    pub(super) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed).min(self.wanted)
    }

    /// Whether pushes are refused for want of room.
    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// There is no room: refuses pushes from now on.
    pub(super) fn refuse(&self) {
        if !self.full.swap(true, Ordering::AcqRel) {
            self.log.failed((), &ticket::full());
        }
    }

    /// There is no room for what must be written: gives up half of the reserve, so that somebody
    /// else who takes what he finds does not take all of it. Returns whether there was any.
    pub(super) fn release(&self) -> bool {
        self.refuse();
        let reserve = self.reserve();
        let (held, half) = (self.held(), self.held() / 2);
        let left = if half < LEAST / 8 { 0 } else { half };
        // Where it fails it is tried again with the next thing that finds no room.
        held > 0 && self.cut(&reserve, left).is_ok()
    }

    /// Makes the reserve anew as far as there is room for it; when that is enough, pushes are taken.
    ///
    /// # Errors
    ///
    /// When it cannot be written, for another reason than a shortage.
    pub(super) fn restore(&self) -> io::Result<()> {
        if !self.fill(self.wanted)? {
            self.full.store(true, Ordering::Release);
        } else if self.full.swap(false, Ordering::AcqRel) {
            self.log.succeeded(&());
        }
        Ok(())
    }

    /// Makes the reserve a little larger where it is not what was wanted and there is room again.
    ///
    /// # Errors
    ///
    /// As for [`restore`](Self::restore).
    pub(super) fn grow(&self) -> io::Result<()> {
        let held = self.held();
        // Without that it would be written only to be cut again.
        let is_known = held < self.wanted && files::free_bytes(&self.reserve()).is_some();
        if is_known {
            self.fill((held + STEP).min(self.wanted))?;
        }
        Ok(())
    }

    /// Makes the reserve as long as it is wanted and may be; returns whether it is long enough, and
    /// there is room beside it.
    ///
    /// Written, not only sized: a hole in a file reserves nothing. Nor do zeros where the file system
    /// compresses what it stores, or blocks that are equal where it stores those once.
    fn fill(&self, wanted: u64) -> io::Result<bool> {
        let reserve = self.reserve();
        let there = reserve.metadata()?.len();
        let enough = self.wanted.min(LEAST);
        let free = files::free_bytes(&reserve);
        let half = free.map_or(u64::MAX, |free| there.saturating_add(free) / 2);
        let target = wanted.min(half).max(there);
        self.held.store(there, Ordering::Relaxed);
        if free.is_some_and(|free| !has_room(there, free, enough)) {
            return Ok(false);
        }
        if there == target {
            return Ok(there >= enough);
        }
        let filled = write_noise(&reserve, there, target).and_then(|()| reserve.sync_all());
        let Err(error) = filled else {
            self.held.store(target, Ordering::Relaxed);
            return Ok(target >= enough);
        };
        let found = reserve.metadata()?.len();
        match (error.kind(), Shortage::of_io(&error)) {
            // The disk has room; it is this one file that must not have more.
            (io::ErrorKind::FileTooLarge, _) => {
                self.held.store(found.max(enough), Ordering::Relaxed);
                Ok(true)
            }
            (_, Some(_)) => {
                let has_room = has_room(there, found.saturating_sub(there), enough);
                let half = if has_room { found / 2 } else { 0 };
                self.cut(&reserve, half.max(there))?;
                Ok(has_room)
            }
            (_, None) => Err(error),
        }
    }

    fn cut(&self, reserve: &File, bytes: u64) -> io::Result<()> {
        reserve.set_len(bytes)?;
        self.held.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn reserve(&self) -> MutexGuard<'_, File> {
        self.reserve.lock()
    }
}

/// Returns whether pushes are taken with a reserve of `there` bytes and `free` ones beside it: both
/// together have room for one that is long `enough`, and for as much beside it.
fn has_room(there: u64, free: u64, enough: u64) -> bool {
    // There is room beside it where not even the smallest reserve is wanted.
    free >= BESIDE && there.saturating_add(free) / 2 >= enough.max(BESIDE)
}

fn write_noise(mut file: &File, from: u64, to: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(from))?;
    let mut random = fastrand::Rng::new();
    let mut noise = vec![0_u8; NOISE.min(to - from) as usize]; // no more than a constant
    random.fill(&mut noise);
    let mut left = to - from;
    while left > 0 {
        for page in noise.chunks_mut(PAGE) {
            let other = random.u64(..).to_le_bytes();
            page.iter_mut()
                .zip(other)
                .for_each(|(byte, other)| *byte = other);
        }
        let part = left.min(noise.len() as u64);
        file.write_all(&noise[..part as usize])?; // no more than the buffer
        left -= part;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However large the reserve is: it need not be there twice.
    #[test]
    fn there_is_room_for_the_smallest_reserve_and_as_much_beside_it() {
        const KIB: u64 = 1 << 10;
        let cases = [
            (0, 0, false),
            (0, 2 * LEAST - 2, false),
            (0, 2 * LEAST, true),
            (LEAST, LEAST - 2, false),
            (LEAST, LEAST, true),
            (2 * LEAST, BESIDE - 1, false),
            (2 * LEAST, BESIDE, true),
            (16 << 20, 10 << 20, true),
            (16 << 20, 63 * KIB, false),
            (u64::MAX, u64::MAX, true),
        ];
        for (there, free, expected) in cases {
            assert_eq!(has_room(there, free, LEAST), expected, "{there} {free}");
        }
        for (free, expected) in [(BESIDE - 1, false), (2 * BESIDE, true)] {
            assert_eq!(has_room(0, free, 0), expected, "{free}");
        }
    }
}
