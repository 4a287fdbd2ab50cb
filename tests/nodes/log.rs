//! The history that all processes of a site write, in a file that outlives them.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use duly::EventId;
use duly::records::NodeId;
use duly_conformance::history::{Entry, EntryKind, lines};

use super::process::now_us;

/// The history, open for appending.
#[derive(Debug)]
pub(crate) struct Log(File);

impl Log {
    pub(crate) fn open(folder: &Path) -> Self {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(folder.join("log"));
        Self(file.expect("the log opens"))
    }

    /// What happens now to an event.
    pub(crate) fn of(&self, id: EventId, what: EntryKind) {
        self.add(Some(id), what);
    }

    /// What happened to an event then, by the store's clock.
    pub(crate) fn at(&self, store_us: u64, id: EventId, what: EntryKind) {
        self.write(store_us, Some(id), what);
    }

    /// What happens now.
    pub(crate) fn add(&self, id: Option<EventId>, what: EntryKind) {
        self.write(now_us(), id, what);
    }

    /// One `write`, so that no other process writes in between; what a kill leaves of it is
    /// skipped. Every store here goes by this machine's clock.
    fn write(&self, store_us: u64, id: Option<EventId>, what: EntryKind) {
        let entry = Entry {
            at_us: now_us(),
            store_us,
            id,
            what,
        };
        let mut file = &self.0;
        file.write_all(entry.to_line().as_bytes())
            .expect("the log is written");
    }
}

/// What has been read of a history that goes on; each look reads only what is new.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    entries: Vec<Entry>,
    bytes: u64,
}

impl Reader {
    /// Every entry, in the order in which they were written.
    pub(crate) fn entries(&mut self, folder: &Path) -> &[Entry] {
        if let Ok(mut file) = File::open(folder.join("log")) {
            let mut new = Vec::new();
            file.seek(SeekFrom::Start(self.bytes))
                .expect("it has a position");
            file.read_to_end(&mut new).expect("it can be read");
            let whole = new.iter().rposition(|byte| *byte == b'\n');
            let whole = whole.map_or(0, |at| at + 1);
            let entries = lines(&new[..whole]).map(|entry| entry.expect("an entry"));
            self.entries.extend(entries);
            self.bytes += whole as u64;
        }
        &self.entries
    }
}

/// A start of a handler, in a history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) id: EventId,
    pub(crate) at_us: u64,
    pub(crate) node: NodeId,
    pub(crate) attempt: u16,
}

/// Every start, in the order in which they were written.
pub(crate) fn starts(entries: &[Entry]) -> impl Iterator<Item = Start> {
    entries.iter().filter_map(|entry| match entry.what {
        EntryKind::Started { lease, attempt, .. } => Some(Start {
            id: entry.id?,
            at_us: entry.at_us,
            node: lease.node,
            attempt,
        }),
        _ => None,
    })
}

/// As which node a process takes part, once it does.
pub(crate) fn node_of(entries: &[Entry], process: u32) -> Option<NodeId> {
    entries.iter().find_map(|entry| match entry.what {
        EntryKind::Joined { node, process: of } if of == process => Some(node),
        _ => None,
    })
}

/// How many handlers have started in a process.
pub(crate) fn starts_of(entries: &[Entry], process: u32) -> usize {
    let node = node_of(entries, process);
    let own = starts(entries).filter(|start| Some(start.node) == node);
    own.count()
}
