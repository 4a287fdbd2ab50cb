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

/// The promises, their names, and all of them.
macro_rules! promises {
    ($($(#[$docs:meta])* $promise:ident: $name:literal,)+) => {
        /// The promises of `src/docs/delivery.md` in their order, and those that stand in other guides.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Promise {
            $($(#[$docs])* $promise,)+
        }

        impl Promise {
            pub(crate) const ALL: &[(Self, &str)] = &[$((Self::$promise, $name),)+];
        }
    };
}

promises! {
    Accepted: "accepted",
    NeverEarly: "never early",
    Cancel: "the truth about a cancel",
    Attempts: "bounded attempts",
    Records: "records",
    Full: "full is not lost",
    Apart: "queues apart",
    Stopping: "stopping",
    LostWorkers: "lost workers",
    Ids: "ids",
    Doubt: "doubt",
    Pulled: "pulled events",
    /// An event starts when it is due, where there is a free worker.
    Punctual: "seldom late",
    /// What an operator sets of a queue, or does to dead letters, is as he said.
    Controls: "an operator's word",
    /// An explanation of an event is true.
    Explained: "a true explanation",
    /// A payload is read by its handler, and by nobody who lacks its key.
    Payloads: "payloads",
    /// Spans, lines of the log and the trace that an event carries are as the guide says.
    Traced: "followed on its way",
    /// What metrics tell is so.
    Metrics: "true metrics",
    /// An event of a transaction exists if and only if that commits, and its effect happens once.
    InTransaction: "in your transaction",
    /// A server goes on under strain, and one of its tenants does another no harm.
    Served: "a server under strain",
    /// Each instant of a schedule is one event.
    Occurrences: "schedules",
}

impl Promise {
    /// Its number in the guide on delivery, if it has one, and its name.
    pub(crate) fn title(self) -> String {
        let (_, name) = Self::ALL[self as usize];
        if self <= Self::Pulled {
            format!("{} {name}", self as usize + 1)
        } else {
            name.to_owned()
        }
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
