//! Which handlers have started: noted before their first line, without a sync.
//!
//! A note outlives the process, not the machine. After a start, an event that was not settled and
//! has a note for its current attempt has used that attempt up: its handler may have killed the
//! process. One without a note was merely leased and loses nothing.
//!
//! A note is 32 bytes: event id (16), due time of the attempt in ms (8), attempt (2), zero (2),
//! the low half of the xxh3-64 of these (4); numbers little-endian. The due time tells an attempt
//! from the same one after a snooze, which is due later. A note whose checksum does not hold, as
//! after a power cut, is no note.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::event::EventId;
use crate::record::Record;
use crate::sqlite::files;
use crate::time::Timestamp;

const NOTE_LEN: usize = 32;

/// The file is written anew when it is longer than this and than twice what is running.
const BYTES_MIN: u64 = 1 << 20;

/// One attempt whose handler started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Start {
    /// The event.
    pub id: EventId,
    /// From 1.
    pub attempt: u16,
    /// When the attempt was due.
    pub due: Timestamp,
}

impl Start {
    /// The start of the attempt that a record is about.
    pub(super) fn of(record: &Record) -> Self {
        Self {
            id: record.id,
            attempt: record.attempt,
            due: record.due,
        }
    }

    fn to_bytes(self) -> [u8; NOTE_LEN] {
        let mut bytes = [0; NOTE_LEN];
        bytes[..16].copy_from_slice(&self.id.to_bytes());
        bytes[16..24].copy_from_slice(&self.due.as_millis().to_le_bytes());
        bytes[24..26].copy_from_slice(&self.attempt.to_le_bytes());
        let sum = xxh3_64(&bytes[..28]).to_le_bytes();
        bytes[28..].copy_from_slice(&sum[..4]);
        bytes
    }

    /// Reads the bytes of a note; `None` when their checksum does not hold.
    pub fn from_bytes(bytes: &[u8; NOTE_LEN]) -> Option<Self> {
        let id = EventId::from_bytes(*bytes.first_chunk()?);
        let due = Timestamp::from_millis(u64::from_le_bytes(*bytes[16..].first_chunk()?));
        let attempt = u16::from_le_bytes(*bytes[24..].first_chunk()?);
        let start = Self { id, attempt, due };
        (start.to_bytes() == *bytes).then_some(start)
    }
}

/// The file of notes, open.
#[derive(Debug)]
pub(super) struct Starts {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// Started, and the data file does not say how it ended; bounded by the handlers that run at
    /// once and the outcomes that wait to be written.
    running: HashSet<Start>,
}

impl Starts {
    /// Reads what the process before noted.
    pub(super) fn read(path: &Path) -> io::Result<HashSet<Start>> {
        let mut bytes = Vec::new();
        match File::open(path) {
            Ok(mut file) => file.read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        let (notes, _) = bytes.as_chunks::<NOTE_LEN>();
        Ok(notes.iter().filter_map(Start::from_bytes).collect())
    }

    /// Begins anew; call only when what [`read`](Self::read) answered is in the data file.
    pub(super) fn begin(path: &Path) -> io::Result<Self> {
        let file = files::open(path, OpenOptions::new().append(true))?;
        file.set_len(0)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            bytes: 0,
            running: HashSet::new(),
        })
    }

    /// Notes that these start, in one write.
    pub(super) fn note(&mut self, starts: &[Start]) -> io::Result<()> {
        if self.bytes > BYTES_MIN.max(2 * (self.running.len() * NOTE_LEN) as u64) {
            self.compact()?;
        }
        let bytes: Vec<u8> = starts.iter().flat_map(|start| start.to_bytes()).collect();
        if let Err(error) = self.file.write_all(&bytes) {
            // Half a note would shift every later one.
            self.file.set_len(self.bytes)?;
            return Err(error);
        }
        self.bytes += bytes.len() as u64;
        self.running.extend(starts);
        Ok(())
    }

    /// How these ended is in the data file. The next attempt of the same event may run already.
    pub(super) fn ended(&mut self, starts: &[Start]) {
        for start in starts {
            self.running.remove(start);
        }
    }

    /// Writes a new file of what is running and puts it in the place of the old one: whoever dies
    /// on the way leaves one of the two whole.
    fn compact(&mut self) -> io::Result<()> {
        let mut path = self.path.clone().into_os_string();
        path.push("-new");
        let _ = fs::remove_file(&path); // left over from a process that died here
        let mut file = files::open(Path::new(&path), OpenOptions::new().append(true))?;
        let bytes: Vec<u8> = self
            .running
            .iter()
            .flat_map(|start| start.to_bytes())
            .collect();
        file.write_all(&bytes)?;
        fs::rename(&path, &self.path)?;
        self.file = file;
        self.bytes = bytes.len() as u64;
        Ok(())
    }
}
