//! The start log: handlers are noted before their first line, without a sync.
//!
//! A note outlives the process, not the machine. After a start, an event that was not settled and
//! has a note for its current attempt has used that attempt up: its handler may have killed the
//! process. One without a note was merely leased and loses nothing; neither does one whose later
//! note says that its holder handed it back.
//!
//! A note is 32 bytes: event id (16), due time of the attempt in ms (8), attempt (2), kind (2: 0 for
//! a start, 1 for a start that was handed back), the low half of the xxh3-64 of these (4); numbers
//! little-endian. The due time tells an attempt from the same one after a snooze, which is due
//! later. A note whose checksum does not hold, as after a power cut, is no note.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::core::op::{AttemptOutcome, Delivery, StoreOp};
use crate::event::EventId;
use crate::record::Record;
use crate::sqlite::files;
use crate::sqlite::shortage::Shortage;
use crate::store::embedded::mapped::MappedFile;
use crate::time::Timestamp;

const NOTE_LEN: usize = 32;

/// How long the file is at least; it is written anew when it is full.
const BYTES_MIN: usize = 1 << 18;

/// One attempt whose handler started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The event.
    pub id: EventId,
    /// From 1.
    pub attempt: u16,
    /// When the attempt was due.
    pub due: Timestamp,
}

/// By the event alone: of one event there are few starts.
impl Hash for Start {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl Start {
    /// The start of the handler of a delivery.
    pub(super) fn of_delivery(delivery: &Delivery) -> Self {
        Self {
            id: delivery.id,
            attempt: delivery.attempt,
            due: delivery.due,
        }
    }

    /// The start of the attempt that a record is about.
    pub(super) fn of(record: &Record) -> Self {
        Self {
            id: record.id,
            attempt: record.attempt,
            due: record.due,
        }
    }
}

/// One entry of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// A handler starts.
    Started(Start),
    /// What was started was handed back by its holder, and does not count.
    HandedBack(Start),
}

impl Note {
    fn to_bytes(self) -> [u8; NOTE_LEN] {
        let (start, kind) = match self {
            Self::Started(start) => (start, 0_u16),
            Self::HandedBack(start) => (start, 1),
        };
        let mut bytes = [0; NOTE_LEN];
        bytes[..16].copy_from_slice(&start.id.to_bytes());
        bytes[16..24].copy_from_slice(&start.due.as_millis().to_le_bytes());
        bytes[24..26].copy_from_slice(&start.attempt.to_le_bytes());
        bytes[26..28].copy_from_slice(&kind.to_le_bytes());
        let sum = xxh3_64(&bytes[..28]).to_le_bytes();
        bytes[28..].copy_from_slice(&sum[..4]);
        bytes
    }

    /// Reads the bytes of a note; `None` when their checksum does not hold, or for an unknown kind.
    pub fn from_bytes(bytes: &[u8; NOTE_LEN]) -> Option<Self> {
        let id = EventId::from_bytes(*bytes.first_chunk()?);
        let due = Timestamp::from_millis(u64::from_le_bytes(*bytes[16..].first_chunk()?));
        let attempt = u16::from_le_bytes(*bytes[24..].first_chunk()?);
        let start = Start { id, attempt, due };
        let note = match bytes[26..28] {
            [0, 0] => Self::Started(start),
            _ => Self::HandedBack(start),
        };
        (note.to_bytes() == *bytes).then_some(note)
    }
}

/// The file of notes, open.
#[derive(Debug)]
pub(super) struct Starts {
    path: PathBuf,
    file: MappedFile,
    /// The file that takes its place next, empty and open already: descriptors may be short then.
    next: Option<File>,
    /// How much of the file is written.
    bytes: usize,
    /// What has ended since the file was written anew: the data file says how. At most as many as
    /// the file has room for notes.
    ended: Vec<Start>,
}

impl Starts {
    /// Reads what the process before had started and not handed back.
    pub(super) fn read(path: &Path) -> io::Result<HashSet<Start>> {
        match fs::read(path) {
            Ok(bytes) => Ok(running(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(HashSet::new()),
            Err(error) => Err(error),
        }
    }

    /// Begins anew; call only when what [`read`](Self::read) returned is in the data file.
    pub(super) fn begin(path: &Path) -> io::Result<Self> {
        let file = open_empty(path)?;
        Ok(Self {
            path: path.to_owned(),
            file: MappedFile::fill(file, Vec::new(), BYTES_MIN)?,
            next: Some(open_empty(&next_to(path))?),
            bytes: 0,
            ended: Vec::new(),
        })
    }

    /// Lets go of the file that was to be the next one.
    pub(super) fn close(&mut self) {
        let path = next_to(&self.path);
        let next = self.next.take();
        if next.is_some_and(|next| files::is_at(&next, &path)) {
            let _ = fs::remove_file(path); // the next start empties it
        }
    }

    /// Writes the file anew where its path no longer leads to it, or it was cut; returns what became
    /// of that.
    pub(super) fn put_back(&mut self) -> Option<io::Result<()>> {
        let is_cut = self.file.is_cut(self.bytes);
        if is_cut {
            // Its notes are gone.
            self.bytes = 0;
            self.file.unmap();
        }
        let is_there = !is_cut && files::is_at(self.file.file(), &self.path);
        (!is_there).then(|| self.renew(0))
    }

    /// Notes that these start.
    pub(super) fn note(&mut self, starts: impl ExactSizeIterator<Item = Start>) -> io::Result<()> {
        self.append(starts.map(Note::Started))
    }

    /// Notes that these are handed back, whether they were started or not.
    pub(super) fn hand_back(&mut self, starts: &[Start]) -> io::Result<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        self.append(starts.iter().copied().map(Note::HandedBack))
    }

    /// What a failed write leaves behind, the next one overwrites.
    fn append(&mut self, notes: impl ExactSizeIterator<Item = Note>) -> io::Result<()> {
        if self.bytes + notes.len() * NOTE_LEN > self.file.len() {
            self.renew(notes.len())?;
        }
        let bytes: Vec<_> = notes.map(Note::to_bytes).collect();
        let bytes = bytes.as_flattened();
        self.file.write(bytes, self.bytes)?;
        self.bytes += bytes.len();
        Ok(())
    }

    /// How these ended is in the data file. The next attempt of the same event may run already.
    pub(super) fn ended(&mut self, starts: &[Start]) {
        if self.bytes == 0 {
            return;
        }
        self.ended.extend(starts);
        if self.ended.len() * NOTE_LEN > self.file.len() && self.renew(0).is_err() {
            // What has ended and stays noted takes room and does not count: an open goes by its
            // record, or by its age where that is gone.
            self.ended.clear();
        }
    }

    /// Writes a new file of what is running, with room for so many notes more at least, and puts it
    /// in the place of the old one: whoever dies on the way leaves one of the two whole.
    fn renew(&mut self, more: usize) -> io::Result<()> {
        let mut running = running(&self.file.read(self.bytes)?);
        for start in &self.ended {
            running.remove(start);
        }
        let path = next_to(&self.path);
        let next = self.next.take().filter(|file| files::is_at(file, &path));
        let next = match next {
            Some(next) => next,
            None => open_empty(&path)?,
        };
        let room = 2 * (running.len() + more) * NOTE_LEN;
        let started = running.into_iter().map(Note::Started);
        let notes: Vec<_> = started.map(Note::to_bytes).collect();
        let notes = notes.into_flattened();
        let bytes = notes.len();
        let renewed = MappedFile::fill(next, notes, room.max(BYTES_MIN))
            .and_then(|file| fs::rename(&path, &self.path).map(|()| file));
        (self.file, self.bytes) = (renewed?, bytes);
        self.ended.clear();
        // For want of something it is tried again when it is needed.
        self.next = match open_empty(&path) {
            Err(error) if Shortage::of_io(&error).is_some() => None,
            next => Some(next?),
        };
        Ok(())
    }
}

/// Where the file is written that takes the place of the one at `path`.
fn next_to(path: &Path) -> PathBuf {
    let mut path = path.to_owned().into_os_string();
    path.push("-new");
    PathBuf::from(path)
}

/// Opens or creates a file, and empties it.
fn open_empty(path: &Path) -> io::Result<File> {
    let file = files::open(path, OpenOptions::new().read(true).write(true))?;
    file.set_len(0)?;
    Ok(file)
}

/// Returns what has started by these notes, and was not handed back.
fn running(notes: &[u8]) -> HashSet<Start> {
    let (notes, _) = notes.as_chunks::<NOTE_LEN>();
    let mut running = HashSet::new();
    for note in notes.iter().filter_map(Note::from_bytes) {
        match note {
            Note::Started(start) => running.insert(start),
            Note::HandedBack(start) => running.remove(&start),
        };
    }
    running
}

/// Returns the events that an operation releases.
pub(super) fn released(op: &StoreOp) -> Vec<EventId> {
    let StoreOp::Settle { settlements, .. } = op else {
        return Vec::new();
    };
    let releases = settlements
        .iter()
        .filter(|it| it.verdict == AttemptOutcome::Release);
    releases.map(|it| it.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(number: u16) -> Start {
        Start {
            id: EventId::from_bytes([7; 16]),
            attempt: number,
            due: Timestamp::from_millis(5),
        }
    }

    #[test]
    fn what_has_ended_is_remembered_up_to_a_bound_and_what_runs_stays_noted() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("starts");
        let mut starts = Starts::begin(&path).expect("a file");
        let most = BYTES_MIN / NOTE_LEN;
        starts.note([start(0), start(1)].into_iter()).expect("room");
        for number in 1..=3 * u16::try_from(most).expect("a small number") {
            starts.ended(&[start(number)]);
            assert!(starts.ended.len() <= most, "{}", starts.ended.len());
        }
        let running = Starts::read(&path).expect("the file");
        assert_eq!(running, HashSet::from([start(0)]));

        drop(directory); // no file can be written in its place
        let many: Vec<_> = (1..=2 * u16::try_from(most).expect("a small number"))
            .map(start)
            .collect();
        starts.ended(&many);
        assert_eq!(starts.ended, []);
    }

    /// A hole in their place ends the process at the first note that finds no room for a page.
    #[test]
    fn notes_that_are_cut_and_cannot_be_written_anew_are_written_by_calls() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("starts");
        let mut starts = Starts::begin(&path).expect("a file");
        starts.note([start(0)].into_iter()).expect("room");
        let file = File::options().write(true).open(&path).expect("the file");
        file.set_len(0).expect("it is cut");
        fs::remove_file(next_to(&path)).expect("the next file");
        fs::create_dir(next_to(&path)).expect("nothing takes the place of the old one");
        for number in 1..=2 {
            let put_back = starts.put_back();
            assert_eq!(
                put_back.map(|it| it.is_err()),
                (number == 1).then_some(true)
            );
            starts.note([start(number)].into_iter()).expect("a note");
            let len = file.metadata().expect("its length").len();
            assert_eq!(len, u64::from(number) * NOTE_LEN as u64);
        }
        let running = Starts::read(&path).expect("the file");
        assert_eq!(running, HashSet::from([start(1), start(2)]));
        // Cut again, beyond what a call has written.
        file.set_len(NOTE_LEN as u64).expect("it is cut");
        fs::remove_dir(next_to(&path)).expect("there is a place");
        assert!(starts.put_back().is_some_and(|it| it.is_ok()));
        assert_eq!(Starts::read(&path).expect("the file"), HashSet::new());
    }
}
