//! What happened, line by line, in a file that outlives who wrote it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use duly::EventId;

/// A line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A push is about to be sent.
    Pushing { id: EventId, payload: u64 },
    /// It was answered: the event is due then, in milliseconds since the epoch.
    Pushed { id: EventId, due_ms: u64 },
    /// It was answered with an error that says that nothing happened.
    Refused { id: EventId },
    /// It was answered with an error that says that nobody knows.
    Unknown { id: EventId },
    /// A cancel was answered with *cancelled*.
    Cancelled { id: EventId },
    /// The first line of a handler runs, at this time in microseconds since the epoch by the
    /// machine's clock, in the process with this id.
    Started {
        id: EventId,
        attempt: u64,
        at_us: u64,
        process: u64,
    },
}

/// The log, open for appending.
#[derive(Debug)]
pub(crate) struct Log(File);

impl Log {
    pub(crate) fn open(folder: &Path) -> Self {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(folder.join("log"));
        Self(file.expect("the log opens"))
    }

    /// One `write`, which a kill does not cut in two, nor another process's lines.
    pub(crate) fn add(&self, line: Line) {
        let text = match line {
            Line::Pushing { id, payload } => format!("pushing {id} {payload} 0 0\n"),
            Line::Pushed { id, due_ms } => format!("pushed {id} {due_ms} 0 0\n"),
            Line::Refused { id } => format!("refused {id} 0 0 0\n"),
            Line::Unknown { id } => format!("unknown {id} 0 0 0\n"),
            Line::Cancelled { id } => format!("cancelled {id} 0 0 0\n"),
            Line::Started {
                id,
                attempt,
                at_us,
                process,
            } => format!("started {id} {attempt} {at_us} {process}\n"),
        };
        let mut file = &self.0;
        file.write_all(text.as_bytes()).expect("the log is written");
    }
}

/// Every line, in the order in which they were written.
pub(crate) fn read(folder: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    text[..whole].lines().map(parse).collect()
}

fn parse(line: &str) -> Line {
    let words: Vec<_> = line.split(' ').collect();
    let [what, id, first, second, third] = words[..] else {
        panic!("not a line of the log: {line:?}");
    };
    let id = id.parse().expect("an id");
    let number = |text: &str| text.parse().expect("a number");
    match what {
        "pushing" => Line::Pushing {
            id,
            payload: number(first),
        },
        "pushed" => Line::Pushed {
            id,
            due_ms: number(first),
        },
        "refused" => Line::Refused { id },
        "unknown" => Line::Unknown { id },
        "cancelled" => Line::Cancelled { id },
        "started" => Line::Started {
            id,
            attempt: number(first),
            at_us: number(second),
            process: number(third),
        },
        _ => panic!("not a line of the log: {line:?}"),
    }
}

/// How many handlers have started in a process.
pub(crate) fn starts_of(lines: &[Line], id: u32) -> usize {
    let id = u64::from(id);
    let own = lines
        .iter()
        .filter(|line| matches!(line, Line::Started { process, .. } if *process == id));
    own.count()
}
