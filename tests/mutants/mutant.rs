//! What a mutant is: a deliberate bug, the promise it breaks, and the test that has to notice.

use crate::plant::Edit;

/// A deliberate bug in the real code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mutant {
    /// What it is called on the command line.
    pub(crate) name: &'static str,
    pub(crate) breaks: Promise,
    /// The bug, in one sentence.
    pub(crate) bug: &'static str,
    pub(crate) edits: &'static [Edit],
    /// The test that goes red, over one store at least.
    pub(crate) caught_by: Test,
    /// The second defence that hides the bug, where there is one.
    pub(crate) masked_by: Option<Masked>,
}

/// A test, by its function; a suite runs it over several stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Test {
    /// The folder or file in `tests`, or `lib` for the tests within `src`.
    pub(crate) target: &'static str,
    pub(crate) name: &'static str,
}

/// A second defence: with it the bug stays without effect, and without both the test goes red.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Masked {
    /// What it is, in words.
    pub(crate) by: &'static str,
    /// How it is taken away.
    pub(crate) edits: &'static [Edit],
}

/// The promises of `src/docs/delivery.md` in their order, and those that stand in other guides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Promise {
    Accepted = 1,
    NeverEarly,
    Cancel,
    Attempts,
    Records,
    Full,
    Apart,
    Stopping,
    LostWorkers,
    Ids,
    Doubt,
    Pulled,
    /// An event starts when it is due, where there is a free worker.
    Punctual,
    /// What an operator sets of a queue, or does to dead letters, is as he said.
    Controls,
    /// An explanation of an event is true.
    Explained,
    /// A payload is read by its handler, and by nobody who lacks its key.
    Payloads,
    /// Spans, lines of the log and the trace that an event carries are as the guide says.
    Traced,
    /// What metrics tell is so.
    Metrics,
    /// An event of a transaction exists if and only if that commits, and its effect happens once.
    InTransaction,
    /// A server goes on under strain, and one of its tenants does another no harm.
    Served,
    /// Each instant of a schedule is one event.
    Occurrences,
}

impl Promise {
    /// Its number in the guide, if it has one, and its name.
    pub(crate) fn title(self) -> String {
        let name = match self {
            Self::Accepted => "accepted",
            Self::NeverEarly => "never early",
            Self::Cancel => "the truth about a cancel",
            Self::Attempts => "bounded attempts",
            Self::Records => "records",
            Self::Full => "full is not lost",
            Self::Apart => "queues apart",
            Self::Stopping => "stopping",
            Self::LostWorkers => "lost workers",
            Self::Ids => "ids",
            Self::Doubt => "doubt",
            Self::Pulled => "pulled events",
            Self::Punctual => return "seldom late".to_owned(),
            Self::Controls => return "an operator's word".to_owned(),
            Self::Explained => return "a true explanation".to_owned(),
            Self::Payloads => return "payloads".to_owned(),
            Self::Traced => return "followed on its way".to_owned(),
            Self::Metrics => return "true metrics".to_owned(),
            Self::InTransaction => return "in your transaction".to_owned(),
            Self::Served => return "a server under strain".to_owned(),
            Self::Occurrences => return "schedules".to_owned(),
        };
        format!("{} {name}", self as u8)
    }
}

impl Promise {
    /// A bug that breaks it.
    pub(crate) const fn bug(
        self,
        name: &'static str,
        bug: &'static str,
        edits: &'static [Edit],
        caught_by: Test,
    ) -> Mutant {
        Mutant {
            name,
            breaks: self,
            bug,
            edits,
            caught_by,
            masked_by: None,
        }
    }
}

impl Mutant {
    /// With a second defence that hides it, and how that one is taken away.
    pub(crate) const fn masked_by(self, by: &'static str, edits: &'static [Edit]) -> Self {
        Self {
            masked_by: Some(Masked { by, edits }),
            ..self
        }
    }

    /// Its row in the table of `src/docs/proof.md`.
    pub(crate) fn row(&self) -> String {
        let Test { target, name } = self.caught_by;
        let masked = self.masked_by.map_or("", |masked| masked.by);
        format!(
            "| {} | {} | {} | `{name}` in `{target}` | {masked} |",
            self.name,
            self.bug,
            self.breaks.title()
        )
    }
}
