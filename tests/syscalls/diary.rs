//! What a child asked for, what it was answered and what it started, in a file that outlives it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use duly::EventId;
use duly::records::Outcome;
use serde::{Deserialize, Serialize};

/// What an event's handler does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    Succeeds,
    FailsOnce,
    PanicsOnce,
    SnoozesOnce,
    /// Runs until the script lets it go on.
    Waits,
    FailsUntilRevived,
    Buries,
    Discards,
}

/// What can be asked of an event that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Ask {
    Push,
    Cancel,
    Reschedule,
    Update,
    Revive,
    Drop,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// It is so; and the event is due then, in milliseconds since the epoch, where that was said.
    Yes { due_ms: Option<u64> },
    /// It is not so, as it was not what was asked about.
    No(String),
    /// An error that says that nothing happened, by its kind.
    Refused(String),
    /// An error that says that nobody knows.
    Unknown,
}

/// A line of the diary.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Line {
    /// A push is about to be sent, of an event that takes the place of another or of none.
    Pushing {
        id: EventId,
        task: Task,
        replaces: Option<EventId>,
        far: bool,
    },
    /// Something else is about to be asked.
    Asking { id: EventId, ask: Ask },
    /// The answer to one of these.
    Answered {
        id: EventId,
        ask: Ask,
        answer: Answer,
    },
    /// A rate of the queue that nobody uses was set: asked for, and then answered.
    Rate { rate: f64, answer: Option<Answer> },
    /// The first line of a handler runs; unless the process dies, its attempt will end so.
    Started {
        id: EventId,
        attempt: u16,
        at_us: u64,
        task: Task,
        ends: Outcome,
    },
    /// The store is open.
    Opened,
    /// The store could not be opened, by the error's kind.
    NotOpened(String),
    /// The script came to its end; with the kind of the error of the shutdown.
    Ended(Option<String>),
}

/// The diary, open for appending.
#[derive(Debug)]
pub(crate) struct Diary(File);

impl Diary {
    pub(crate) const NAME: &str = "diary";

    pub(crate) fn open(folder: &Path) -> Self {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true);
        Self(file.open(folder.join(Self::NAME)).expect("the diary opens"))
    }

    /// One `write`, which a kill does not cut in two.
    pub(crate) fn add(&self, line: &Line) {
        let mut text = serde_json::to_string(line).expect("it is written as text");
        text.push('\n');
        let mut file = &self.0;
        file.write_all(text.as_bytes())
            .expect("the diary is written");
    }

    /// Every line, in the order in which they were written.
    pub(crate) fn read(folder: &Path) -> Vec<Line> {
        let text = std::fs::read_to_string(folder.join(Self::NAME)).unwrap_or_default();
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).expect("a line of the diary"))
            .collect()
    }
}
