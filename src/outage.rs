//! A rate-limited log of outages.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::panics;

/// The most lines of one log within [`WINDOW`], for a failure that comes and goes.
const LINES_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);

/// The outages of one component, for example the operations of a node on its store; `K` identifies
/// its parts, for example the buckets.
///
/// It logs the first failure, each new kind of error, and the end with the number of failures.
/// Everything else is logged at the level `debug`.
#[derive(Debug)]
pub(crate) struct Outage<K = ()> {
    what: &'static str,
    /// Whether any part fails; avoids the lock while none does.
    is_on: AtomicBool,
    state: Mutex<State<K>>,
}

#[derive(Debug)]
struct State<K> {
    /// The failing parts and their errors.
    failing: BTreeMap<K, (ErrorKind, String)>,
    /// The kinds of errors that have been logged.
    logged: Vec<ErrorKind>,
    failures: u64,
    window: Option<Instant>,
    lines: u32,
}

/// What is logged of a failure.
enum Line {
    First,
    /// The first of another kind, after so many failures.
    Changed(u64),
    /// One like those before, or one too many.
    Again,
}

impl<K: Ord> Outage<K> {
    /// Creates the log of `what`, which every line names.
    pub(crate) const fn of(what: &'static str) -> Self {
        let state = State {
            failing: BTreeMap::new(),
            logged: Vec::new(),
            failures: 0,
            window: None,
            lines: 0,
        };
        Self {
            what,
            is_on: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    /// Notes the failure of a part.
    pub(crate) fn failed(&self, part: K, error: &Error) {
        let (what, kind) = (self.what, error.kind());
        let line = self.note(part, error);
        // Without the lock: a subscriber is the program's code, which may come back here.
        panics::reported(|| match (line, kind) {
            (Line::Again, _) => tracing::debug!(what, kind = kind.name(), %error, "still failing"),
            (_, ErrorKind::Invalid | ErrorKind::Corrupt | ErrorKind::Closed) => {
                tracing::error!(what, kind = kind.name(), %error, "store outage, see the error");
            }
            (Line::First, _) => tracing::warn!(what, kind = kind.name(), %error, "store outage"),
            (Line::Changed(failures), _) => {
                tracing::warn!(what, kind = kind.name(), %error, failures, "store outage changed");
            }
        });
    }

    fn note(&self, part: K, error: &Error) -> Line {
        let (kind, why) = (error.kind(), error.to_string());
        let mut state = self.state();
        self.is_on.store(true, Ordering::Release);
        state.failures += 1;
        state.failing.insert(part, (kind, why));
        let is_first = state.logged.is_empty();
        if state.logged.contains(&kind) || !state.may_log() {
            return Line::Again;
        }
        state.logged.push(kind);
        match state.failures {
            _ if is_first => Line::First,
            failures => Line::Changed(failures),
        }
    }

    /// Notes the success of a part.
    pub(crate) fn succeeded(&self, part: &K) {
        if !self.is_on.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.state();
        if state.failing.remove(part).is_none() || !state.failing.is_empty() {
            return;
        }
        self.is_on.store(false, Ordering::Release);
        let (what, failures) = (self.what, std::mem::take(&mut state.failures));
        // Log the end only if the outage was logged.
        let was_logged = !std::mem::take(&mut state.logged).is_empty();
        drop(state);
        if was_logged {
            panics::reported(|| tracing::info!(what, failures, "store outage ended"));
        }
    }

    /// Returns why a part fails, if it does.
    pub(crate) fn why(&self, part: &K) -> Option<(ErrorKind, String)> {
        if !self.is_on.load(Ordering::Acquire) {
            return None;
        }
        self.state().failing.get(part).cloned()
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        // Every change under the lock leaves the state consistent.
        self.state.lock()
    }
}

impl<K> State<K> {
    fn may_log(&mut self) -> bool {
        let now = Instant::now();
        if self.window.is_none_or(|since| now - since >= WINDOW) {
            (self.window, self.lines) = (Some(now), 0);
        }
        self.lines += 1;
        self.lines <= LINES_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;

    /// Records each line above the level `debug`.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    impl Subscriber for Lines {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= Level::INFO
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let mut words = Words::default();
            event.record(&mut words);
            self.0.lock().push(words.0);
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[derive(Default)]
    struct Words(String);

    impl Visit for Words {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            if ["message", "failures"].contains(&field.name()) {
                self.0 += &format!("{value:?} ");
            }
        }
    }

    fn logged(does: impl FnOnce()) -> Vec<String> {
        let lines = Lines::default();
        // Where there is one subscriber only, a line that another thread reaches first, which has
        // none, is disabled for all.
        let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
        tracing::subscriber::with_default(lines.clone(), does);
        let logged = lines.0.lock().clone();
        logged.iter().map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn the_first_the_change_and_the_end_with_a_count_are_logged() {
        let outage = Outage::of("a test");
        let error = |kind| Error::new(kind, "words");
        let lines = logged(|| {
            for round in 0..500 {
                for part in 0..10 {
                    let kind = [ErrorKind::Unavailable, ErrorKind::Unknown][round % 2];
                    outage.failed(part, &error(kind));
                }
            }
            assert_eq!(outage.why(&3).unwrap().0, ErrorKind::Unknown);
            (0..10).for_each(|part| outage.succeeded(&part));
            assert_eq!(outage.why(&3), None);
        });
        assert_eq!(
            lines,
            [
                "store outage",
                "store outage changed 11",
                "store outage ended 5000"
            ]
        );
    }

    /// Asks for the state of an outage at each line of it, as a layer may.
    struct Asks(Arc<Outage>, Arc<Mutex<usize>>);

    impl Subscriber for Asks {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {
            assert!(
                self.0.state.try_lock().is_some(),
                "it would wait for itself"
            );
            *self.1.lock() += usize::from(self.0.why(&()).is_some());
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn a_layer_may_ask_for_the_outage_that_it_is_told_of() {
        let (outage, calls) = (Arc::new(Outage::of("a test")), Arc::default());
        let layer = Asks(Arc::clone(&outage), Arc::clone(&calls));
        let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
        tracing::subscriber::with_default(layer, || {
            for kind in [
                ErrorKind::Unavailable,
                ErrorKind::Unavailable,
                ErrorKind::Unknown,
            ] {
                outage.failed((), &Error::new(kind, "words"));
            }
            outage.succeeded(&());
        });
        assert_eq!(*calls.lock(), 3, "and no more at its end");
    }

    #[test]
    fn what_comes_and_goes_all_the_time_is_logged_a_bounded_number_of_times() {
        let outage = Outage::of("a test");
        let lines = logged(|| {
            for _ in 0..1_000 {
                outage.failed((), &Error::new(ErrorKind::Unavailable, "words"));
                outage.succeeded(&());
            }
        });
        assert_eq!(lines.len(), 2 * LINES_MAX as usize);
    }
}
