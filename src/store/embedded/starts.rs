//! Which handlers have started: noted before their first line, without a sync.
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
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::core::op::{AttemptOutcome, Delivery, Reply, StoreOp};
use crate::core::reference::Bucket;
use crate::event::{EventId, State};
use crate::record::Record;
use crate::sqlite::files;
use crate::store::embedded::ledger::Scribe;
use crate::store::embedded::shared::Shared;
use crate::store::embedded::stop::Stop;
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
    file: File,
    bytes: u64,
    /// Started, not handed back, and the data file does not say how it ended; bounded by the handlers that run at
    /// once and the outcomes that wait to be written.
    running: HashSet<Start>,
}

impl Starts {
    /// Reads what the process before had started and not handed back.
    pub(super) fn read(path: &Path) -> io::Result<HashSet<Start>> {
        let mut bytes = Vec::new();
        match File::open(path) {
            Ok(mut file) => file.read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        let (notes, _) = bytes.as_chunks::<NOTE_LEN>();
        let mut running = HashSet::new();
        for note in notes.iter().filter_map(Note::from_bytes) {
            match note {
                Note::Started(start) => running.insert(start),
                Note::HandedBack(start) => running.remove(&start),
            };
        }
        Ok(running)
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
    pub(super) fn note(
        &mut self,
        starts: impl ExactSizeIterator<Item = Start> + Clone,
    ) -> io::Result<()> {
        self.append(starts.clone().map(Note::Started))?;
        self.running.extend(starts);
        Ok(())
    }

    /// Notes that these are handed back, in one write; those that were not noted stay so.
    fn hand_back(&mut self, mut starts: Vec<Start>) -> io::Result<()> {
        starts.retain(|start| self.running.contains(start));
        if starts.is_empty() {
            return Ok(());
        }
        self.append(starts.iter().copied().map(Note::HandedBack))?;
        self.ended(&starts);
        Ok(())
    }

    fn append(&mut self, notes: impl Iterator<Item = Note>) -> io::Result<()> {
        if self.bytes > BYTES_MIN.max(2 * (self.running.len() * NOTE_LEN) as u64) {
            self.compact()?;
        }
        let bytes: Vec<u8> = notes.flat_map(Note::to_bytes).collect();
        if let Err(error) = self.file.write_all(&bytes) {
            // Half a note would shift every later one.
            self.file.set_len(self.bytes)?;
            return Err(error);
        }
        self.bytes += bytes.len() as u64;
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
        let running = self.running.iter();
        let bytes: Vec<u8> = running
            .flat_map(|start| Note::Started(*start).to_bytes())
            .collect();
        file.write_all(&bytes)?;
        fs::rename(&path, &self.path)?;
        self.file = file;
        self.bytes = bytes.len() as u64;
        Ok(())
    }
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

impl Shared {
    /// Notes that these events were released, before anyone can lease one of them again. Where that
    /// fails, their attempts count if the process ends now.
    pub(super) fn hand_back(&self, bucket: &mut Bucket<i64>, now_us: u64, ids: &[EventId]) {
        let starts = ids.iter().filter_map(|id| {
            let mut scribe = Scribe::new(&self.cache);
            let found = bucket.apply(now_us, StoreOp::Get { id: *id }, &mut scribe);
            match found.ok()?.reply {
                Reply::Found(Some(it)) if matches!(it.state, State::Scheduled | State::Ready) => {
                    Some(Start {
                        id: *id,
                        attempt: it.tries.saturating_add(1),
                        due: it.due,
                    })
                }
                _ => None,
            }
        });
        let starts = starts.collect();
        let noted = self.starts().hand_back(starts);
        match noted {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                tracing::warn!(%error, "releases not noted");
            }
            Err(error) => self.stop(Stop::new("a release could not be noted", error)),
        }
    }
}
