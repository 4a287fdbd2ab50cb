//! Two images of everything: what a read sees, and what would be there after a power cut.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::ops::Range;

use fastrand::Rng;

/// The number of the root folder.
pub(crate) const ROOT: u64 = 1;
/// A power cut takes a sector or leaves it, never a part of it.
const SECTOR: usize = 512;

/// When a new, renamed or removed name outlives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// With a sync of the file that it names, and everything that came before it: as ext4 and XFS.
    WithFiles,
    /// Only with a sync of the folder that it lies in: all that POSIX promises.
    ByFolder,
}

/// A file or a folder.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    File(File),
    Folder(Folder),
}

/// The bytes of a file, live and durable.
#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    pub(crate) live: Vec<u8>,
    durable: Vec<u8>,
    /// What was written since the last sync.
    dirty: Vec<Range<usize>>,
    /// The shortest it was since the last sync, when it was cut.
    cut_to: Option<usize>,
}

/// The entries of a folder, live and durable.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folder {
    pub(crate) live: BTreeMap<OsString, u64>,
    durable: BTreeMap<OsString, u64>,
}

/// One change of names that is not durable yet; a rename is one change of two.
#[derive(Clone, Debug)]
struct Naming {
    /// How many were made before it.
    number: u64,
    /// In which folder what name leads where from now on.
    names: Vec<(u64, OsString, Option<u64>)>,
}

impl Naming {
    fn is_in(&self, folder: u64) -> bool {
        self.names.iter().any(|(of, ..)| *of == folder)
    }

    fn names(&self, node: u64) -> bool {
        self.names.iter().any(|(.., to)| *to == Some(node))
    }
}

/// The whole disk.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    names: Names,
    nodes: BTreeMap<u64, Node>,
    /// In the order in which they were made.
    namings: Vec<Naming>,
    /// How many were ever made.
    named: u64,
    next: u64,
}

impl Image {
    pub(crate) fn new(names: Names) -> Self {
        Self {
            names,
            nodes: BTreeMap::from([(ROOT, Node::Folder(Folder::default()))]),
            namings: Vec::new(),
            named: 0,
            next: ROOT + 1,
        }
    }

    pub(crate) fn node(&self, number: u64) -> Option<&Node> {
        self.nodes.get(&number)
    }

    pub(crate) fn folder(&self, number: u64) -> Option<&Folder> {
        match self.nodes.get(&number)? {
            Node::Folder(folder) => Some(folder),
            Node::File(_) => None,
        }
    }

    pub(crate) fn file(&self, number: u64) -> Option<&File> {
        match self.nodes.get(&number)? {
            Node::File(file) => Some(file),
            Node::Folder(_) => None,
        }
    }

    fn file_mut(&mut self, number: u64) -> Option<&mut File> {
        match self.nodes.get_mut(&number)? {
            Node::File(file) => Some(file),
            Node::Folder(_) => None,
        }
    }

    pub(crate) fn find(&self, folder: u64, name: &OsStr) -> Option<u64> {
        self.folder(folder)?.live.get(name).copied()
    }

    /// How many bytes the files hold that a name leads to.
    pub(crate) fn bytes(&self) -> usize {
        let reached = self.reached();
        let files = reached.iter().filter_map(|number| self.file(*number));
        files.map(|file| file.live.len()).sum()
    }

    /// Makes a file or a folder, and answers its number.
    pub(crate) fn make(&mut self, folder: u64, name: &OsStr, node: Node) -> u64 {
        let number = self.next;
        self.next += 1;
        self.nodes.insert(number, node);
        self.name(vec![(folder, name.to_owned(), Some(number))]);
        number
    }

    /// Takes a name away; what it named goes with the last handle of it, which nobody counts.
    pub(crate) fn remove(&mut self, folder: u64, name: &OsStr) -> bool {
        let there = self.find(folder, name).is_some();
        if there {
            self.name(vec![(folder, name.to_owned(), None)]);
        }
        there
    }

    pub(crate) fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr)) -> bool {
        let Some(number) = self.find(from.0, from.1) else {
            return false;
        };
        self.name(vec![
            (from.0, from.1.to_owned(), None),
            (to.0, to.1.to_owned(), Some(number)),
        ]);
        true
    }

    fn name(&mut self, names: Vec<(u64, OsString, Option<u64>)>) {
        for (folder, name, to) in &names {
            if let Some(Node::Folder(folder)) = self.nodes.get_mut(folder) {
                set(&mut folder.live, name, *to);
            }
        }
        self.namings.push(Naming {
            number: self.named,
            names,
        });
        self.named += 1;
    }

    pub(crate) fn write(&mut self, number: u64, at: usize, bytes: &[u8]) {
        let Some(file) = self.file_mut(number) else {
            return;
        };
        let end = at + bytes.len();
        if file.live.len() < end {
            file.live.resize(end, 0);
        }
        file.live[at..end].copy_from_slice(bytes);
        match file.dirty.last_mut() {
            Some(last) if last.end == at => last.end = end,
            _ => file.dirty.push(at..end),
        }
    }

    pub(crate) fn resize(&mut self, number: u64, len: usize) {
        let Some(file) = self.file_mut(number) else {
            return;
        };
        if len < file.live.len() {
            file.cut_to = Some(file.cut_to.map_or(len, |before| before.min(len)));
        }
        file.live.resize(len, 0);
    }

    /// What a sync of a file does.
    pub(crate) fn sync(&mut self, number: u64) {
        if let Some(file) = self.file_mut(number) {
            if let Some(len) = file.cut_to.take() {
                file.durable.truncate(len);
            }
            file.durable.resize(file.live.len(), 0);
            for range in std::mem::take(&mut file.dirty) {
                let range = range.start.min(file.live.len())..range.end.min(file.live.len());
                file.durable[range.clone()].copy_from_slice(&file.live[range]);
            }
        }
        if self.names == Names::WithFiles {
            let last = self.namings.iter().rposition(|naming| naming.names(number));
            self.keep_names_until(last);
        }
    }

    /// A sync that failed: what it should have kept passes for kept, and is not.
    pub(crate) fn forget_dirty(&mut self, number: u64) {
        if let Some(file) = self.file_mut(number) {
            file.dirty.clear();
        }
    }

    /// How many namings there were until now.
    pub(crate) fn named(&self) -> u64 {
        self.named
    }

    /// Whether a power cut would take names in a folder that are older than so many namings.
    pub(crate) fn has_unsynced_names(&self, folder: u64, before: u64) -> bool {
        let old = |naming: &Naming| naming.number < before && naming.is_in(folder);
        self.namings.iter().any(old)
    }

    /// What a sync of a folder does.
    pub(crate) fn sync_folder(&mut self, number: u64) {
        match self.names {
            Names::WithFiles => {
                let last = self.namings.iter().rposition(|naming| naming.is_in(number));
                self.keep_names_until(last);
            }
            Names::ByFolder => {
                let namings = std::mem::take(&mut self.namings);
                let (kept, left) = namings.into_iter().partition(|naming| naming.is_in(number));
                self.namings = left;
                self.keep_names(kept);
            }
        }
    }

    fn keep_names_until(&mut self, last: Option<usize>) {
        if let Some(last) = last {
            let kept = self.namings.drain(..=last).collect();
            self.keep_names(kept);
        }
    }

    fn keep_names(&mut self, namings: Vec<Naming>) {
        for (folder, name, to) in namings.into_iter().flat_map(|naming| naming.names) {
            if let Some(Node::Folder(folder)) = self.nodes.get_mut(&folder) {
                set(&mut folder.durable, &name, to);
            }
        }
    }

    /// The power is gone: what was not synced is lost. With `tear`, every sector and every name of
    /// it survives with a chance of one half.
    pub(crate) fn lose(&mut self, tear: Option<Rng>) {
        let namings = std::mem::take(&mut self.namings);
        if let Some(mut random) = tear {
            let kept = match self.names {
                // Such file systems keep names in a log of their own, so they survive in order.
                Names::WithFiles => {
                    let kept = random.usize(..=namings.len());
                    namings.into_iter().take(kept).collect()
                }
                Names::ByFolder => {
                    let survives = |_: &Naming| random.bool();
                    namings.into_iter().filter(survives).collect()
                }
            };
            self.keep_names(kept);
            let mut random = random.fork();
            for node in self.nodes.values_mut() {
                if let Node::File(file) = node {
                    file.tear(&mut random);
                }
            }
        }
        for node in self.nodes.values_mut() {
            match node {
                Node::File(file) => {
                    file.live.clone_from(&file.durable);
                    file.dirty.clear();
                    file.cut_to = None;
                }
                Node::Folder(folder) => folder.live.clone_from(&folder.durable),
            }
        }
        self.sweep();
    }

    /// Drops what no name leads to.
    fn sweep(&mut self) {
        let reached = self.reached();
        self.nodes.retain(|number, _| reached.contains(number));
    }

    fn reached(&self) -> BTreeSet<u64> {
        let (mut reached, mut todo) = (BTreeSet::new(), vec![ROOT]);
        while let Some(number) = todo.pop() {
            if reached.insert(number)
                && let Some(folder) = self.folder(number)
            {
                todo.extend(folder.live.values());
            }
        }
        reached
    }
}

impl File {
    fn tear(&mut self, random: &mut Rng) {
        if let Some(len) = self.cut_to
            && random.bool()
        {
            self.durable.truncate(len);
        }
        let sectors: BTreeSet<usize> = self
            .dirty
            .iter()
            .flat_map(|range| range.start / SECTOR..range.end.div_ceil(SECTOR))
            .collect();
        for sector in sectors.into_iter().filter(|_| random.bool()) {
            let from = sector * SECTOR;
            let end = (from + SECTOR).min(self.live.len());
            if from >= end {
                continue; // it was cut off since
            }
            if self.durable.len() < end {
                self.durable.resize(end, 0);
            }
            self.durable[from..end].copy_from_slice(&self.live[from..end]);
        }
    }
}

fn set(entries: &mut BTreeMap<OsString, u64>, name: &OsStr, to: Option<u64>) {
    match to {
        Some(number) => entries.insert(name.to_owned(), number),
        None => entries.remove(name),
    };
}
