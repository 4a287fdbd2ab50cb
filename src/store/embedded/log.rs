//! The write-ahead log that a process left behind, before SQLite reads it.
//!
//! SQLite takes from it what is whole up to the first frame that is not, and drops the rest without
//! a word. That is right after a power cut, and wrong in two cases, which are dealt with here.
//!
//! **Bytes rotted.** A commit is synced before the next one is written. So when a frame does not
//! hold and one of a *later* transaction does, what follows had been synced, and acknowledged.
//! Nor can the part before be believed: the file may have more of the rest already. Within the last
//! transaction of a log nobody can tell rot from a power cut; it is dropped, as SQLite does.
//!
//! Where only the header of the log does not hold, a process may have died while it began the log
//! anew. Before it does so it copies all of it into the data file; so a log whose frames are there
//! is dropped, and any other one was damaged.
//!
//! **A sync failed.** Then bytes may be in the memory of the kernel, where they look as if they
//! were on disk, and never reach it. A process that is started then would build on them. So all of
//! the log is written once more, as it is, and synced.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::sqlite::files;
use crate::sqlite::shortage::Shortage;

const HEADER_LEN: usize = 32;
const FRAME_HEADER_LEN: usize = 24;
/// The first number of a log; its last bit says in which order checksums take bytes.
const MAGIC: u32 = 0x377F_0682;
/// As `schema` makes the file, for a header that does not say.
const PAGE_LEN: usize = 4_096;

/// Where the log of the data file at `data` lies.
pub(super) fn path_of(data: &Path) -> PathBuf {
    let [log, _] = files::log_and_index(data);
    log
}

/// Looks at the log beside `data`, and brings to disk what is in it.
///
/// # Errors
///
/// Corrupt when it is damaged before its last transaction; else when it cannot be read or written.
pub(super) fn settle(data: &Path) -> Result<()> {
    let path = path_of(data);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) if !bytes.is_empty() => bytes,
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(files::unusable(&path, "cannot be read", error)),
    };
    let log = Log::new(&bytes);
    let began_anew = || log.is_in(data).unwrap_or(false);
    if let Some(frame) = log.damaged_frame().filter(|at| *at > 0 || !began_anew()) {
        let at = path.display();
        return Err(Error::corrupt(format!(
            "{at} is damaged: its frame {frame} does not hold, and later ones do, so what they hold \
             was acknowledged; restore it together with {}, or move it away and lose what is only \
             in it",
            data.display()
        )));
    }
    let written = files::open(&path, OpenOptions::new().read(true).write(true))
        .and_then(|mut log| log.write_all(&bytes).and_then(|()| log.sync_all()));
    match written {
        // Where even what is there cannot be written again. Draining goes on all the same.
        Err(error) if Shortage::of_io(&error) == Some(Shortage::Space) => Ok(()),
        written => written.map_err(|error| files::unusable(&path, "cannot be written", error)),
    }
}

/// The bytes of a log.
struct Log<'a> {
    bytes: &'a [u8],
    page_len: usize,
    /// Whether the sums are over big-endian numbers.
    big: bool,
    /// What is in every frame that belongs to this round of the log.
    salts: [u32; 2],
}

/// A frame, by what it says itself.
struct Frame<'a> {
    bytes: &'a [u8],
    salts: [u32; 2],
    sums: [u32; 2],
}

impl<'a> Log<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let page_len = usize::try_from(number(bytes, 8)).unwrap_or(0);
        let sound = page_len.is_power_of_two() && (512..=65_536).contains(&page_len);
        Self {
            bytes,
            page_len: if sound { page_len } else { PAGE_LEN },
            big: number(bytes, 0) & 1 == 1,
            salts: [number(bytes, 16), number(bytes, 20)],
        }
    }

    /// The first frame that does not hold though it once did, counted from 1; 0 is the header.
    fn damaged_frame(&self) -> Option<usize> {
        let header = self.bytes.get(..HEADER_LEN)?;
        let sums = [number(header, 24), number(header, 28)];
        let whole = number(header, 0) & !1 == MAGIC && self.sum([0, 0], &header[..24]) == sums;
        if !whole {
            return self.header_rotted().then_some(0);
        }
        // What the frame before says of itself, and what it should have said.
        let (mut said, mut due) = (sums, sums);
        let mut broken = None;
        // Whether the frame before was the last of its transaction.
        let mut ended = false;
        for (at, frame) in self.frames().enumerate() {
            let by_said = self.sums_after(said, &frame);
            let by_due = if due == said {
                by_said
            } else {
                self.sums_after(due, &frame)
            };
            let sums_hold = by_said == frame.sums || by_due == frame.sums;
            let holds = frame.salts == self.salts && sums_hold;
            if !holds && broken.is_none() {
                broken = Some(at + 1);
                if self.is_sound_with_another_size(&frame, said) {
                    return broken;
                }
            }
            if holds && broken.is_some() && ended {
                return broken;
            }
            ended = broken.is_some() && frame.commits() && self.is_of_this_round(&frame);
            due = if by_due == frame.sums {
                by_due
            } else {
                by_said
            };
            said = frame.sums;
        }
        None
    }

    /// Whether one flipped bit has made a commit of what is none, or hidden one.
    fn is_sound_with_another_size(&self, frame: &Frame<'_>, before: [u32; 2]) -> bool {
        let page = number(frame.bytes, 0);
        let is_sound = |bit: u32| {
            let size = number(frame.bytes, 4) ^ 1 << bit;
            let head = [page.to_be_bytes(), size.to_be_bytes()].concat();
            let head = self.sum(before, &head);
            self.sum(head, &frame.bytes[FRAME_HEADER_LEN..]) == frame.sums
        };
        self.is_of_this_round(frame) && (0..32).any(is_sound)
    }

    /// Whether it was written since the log began anew; one of its salts may have rotted.
    fn is_of_this_round(&self, frame: &Frame<'_>) -> bool {
        let mut salts = frame.salts.iter().zip(self.salts);
        salts.any(|(one, other)| *one == other)
    }

    /// Whether the header was that of the frames behind it, and not half of a new one.
    fn header_rotted(&self) -> bool {
        // The header may be wrong about the order of bytes, too.
        [false, true].into_iter().any(|big| {
            let log = Log { big, ..*self };
            let frames: Vec<Frame<'_>> = log.frames().take(2).collect();
            let first = frames.first().filter(|frame| log.is_of_this_round(frame));
            let Some(first) = first else {
                return false;
            };
            match frames.get(1) {
                Some(next) => {
                    next.salts == first.salts && log.sums_after(first.sums, next) == next.sums
                }
                None => first.commits(),
            }
        })
    }

    /// Whether the data file has all that was committed to the log, whose header does not hold.
    fn is_in(&self, data: &Path) -> io::Result<bool> {
        let mut pages = BTreeMap::new();
        let mut transaction = Vec::new();
        let mut before: Option<Frame<'_>> = None;
        for frame in self.frames() {
            if let Some(before) = before.filter(|it| self.sums_after(it.sums, &frame) != frame.sums)
            {
                if before.salts == frame.salts {
                    return Ok(false); // more than the header is damaged
                }
                break; // the rest is of an earlier round
            }
            transaction.push((number(frame.bytes, 0), &frame.bytes[FRAME_HEADER_LEN..]));
            if frame.commits() {
                pages.extend(transaction.drain(..));
            }
            before = Some(frame);
        }
        let mut file = File::open(data)?;
        let mut head = [0; 18];
        file.read_exact(&mut head)?;
        let page_len = usize::from(u16::from_be_bytes([head[16], head[17]]));
        if pages.is_empty() || page_len != self.page_len {
            return Ok(false);
        }
        let mut found = vec![0; page_len];
        for (page, bytes) in pages {
            let at = u64::from(page).saturating_sub(1) * page_len as u64;
            file.seek(SeekFrom::Start(at))?;
            file.read_exact(&mut found)?;
            if found != bytes {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn frames(&self) -> impl Iterator<Item = Frame<'a>> + use<'a> {
        let rest = self.bytes.get(HEADER_LEN..).unwrap_or_default();
        let frames = rest.chunks_exact(FRAME_HEADER_LEN + self.page_len);
        frames.map(|bytes| Frame {
            bytes,
            salts: [number(bytes, 8), number(bytes, 12)],
            sums: [number(bytes, 16), number(bytes, 20)],
        })
    }

    /// What the sums of a frame are after those `before` it.
    fn sums_after(&self, before: [u32; 2], frame: &Frame<'_>) -> [u32; 2] {
        let head = self.sum(before, &frame.bytes[..8]);
        self.sum(head, &frame.bytes[FRAME_HEADER_LEN..])
    }

    /// SQLite's sum over pairs of numbers.
    fn sum(&self, [mut one, mut other]: [u32; 2], bytes: &[u8]) -> [u32; 2] {
        let (numbers, _) = bytes.as_chunks::<4>();
        for pair in numbers.chunks_exact(2) {
            let read = |bytes: [u8; 4]| {
                if self.big {
                    u32::from_be_bytes(bytes)
                } else {
                    u32::from_le_bytes(bytes)
                }
            };
            one = one.wrapping_add(read(pair[0])).wrapping_add(other);
            other = other.wrapping_add(read(pair[1])).wrapping_add(one);
        }
        [one, other]
    }
}

impl Frame<'_> {
    /// Whether it is the last of its transaction: then it says how many pages the file has.
    fn commits(&self) -> bool {
        number(self.bytes, 4) != 0
    }
}

/// The big-endian number at `at`; 0 where there is none.
fn number(bytes: &[u8], at: usize) -> u32 {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
