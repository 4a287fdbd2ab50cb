//! The last actions of the program of a bus that others see, and those that wait for their line of the
//! audit.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;

use crate::time::Mono;

/// The same action on the same target has another line after so long: a program may repeat it often.
const AGAIN_AFTER: Duration = Duration::from_secs(600);
/// So many of the last actions are known; of more, the oldest is forgotten.
const KNOWN_MAX: usize = 256;
/// So many lines wait at most, as the store may be slow or away.
const WAITING_MAX: usize = 64;
/// The longest target, in bytes: that of a line.
const TARGET_BYTES_MAX: usize = 1_024;

/// Who adds what is done by a handle to the audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bus) enum AuditedBy {
    /// The bus, in the name of its program.
    Bus,
    /// The caller, who knows for whom it is.
    Caller,
}

/// What a program did to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::bus) struct ProgramAction {
    pub(in crate::bus) action: &'static str,
    pub(in crate::bus) target: String,
    /// Who did it, as the program says; `None`: itself.
    pub(in crate::bus) by: Option<String>,
}

impl ProgramAction {
    pub(in crate::bus) fn new(action: &'static str, target: impl Into<String>) -> Self {
        let mut target = target.into();
        target.truncate(target.floor_char_boundary(TARGET_BYTES_MAX));
        target.shrink_to_fit();
        Self {
            action,
            target,
            by: None,
        }
    }
}

/// Whether an action has a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bus) enum LineStatus {
    /// It waits to be written.
    Waits,
    /// The same has one already.
    Repeats,
    /// Too many wait.
    Lost,
}

/// The last actions of the program of a bus.
#[derive(Debug, Default)]
pub(in crate::bus) struct ProgramActions {
    lists: Mutex<Lists>,
    /// Whoever writes a line has it, so that lines are in the order of their actions.
    pub(in crate::bus) writer: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Lists {
    /// The oldest first.
    known: VecDeque<(Mono, ProgramAction)>,
    waiting: VecDeque<ProgramAction>,
}

impl ProgramActions {
    /// Returns whether the same was done lately.
    pub(in crate::bus) fn has(&self, now: Mono, action: &ProgramAction) -> bool {
        self.lists.lock().has(now, action)
    }

    /// Adds an action whose line is to be written, unless the same was done lately; or `always`.
    pub(in crate::bus) fn add(&self, now: Mono, action: ProgramAction, always: bool) -> LineStatus {
        let mut lists = self.lists.lock();
        if !always && lists.has(now, &action) {
            return LineStatus::Repeats;
        }
        if lists.waiting.len() >= WAITING_MAX {
            return LineStatus::Lost;
        }
        lists.known.retain(|(_, known)| *known != action);
        if lists.known.len() >= KNOWN_MAX {
            lists.known.pop_front();
        }
        lists.known.push_back((now, action.clone()));
        lists.waiting.push_back(action);
        LineStatus::Waits
    }

    /// Returns the action whose line is to be written next.
    pub(in crate::bus) fn first(&self) -> Option<ProgramAction> {
        self.lists.lock().waiting.front().cloned()
    }

    /// Removes the first action, as its line is written, or could not be: then the same may have one
    /// again.
    pub(in crate::bus) fn remove_first(&self, is_written: bool) {
        let mut lists = self.lists.lock();
        let first = lists.waiting.pop_front();
        if !is_written {
            lists
                .known
                .retain(|(_, known)| Some(known) != first.as_ref());
        }
    }
}

impl Lists {
    fn has(&mut self, now: Mono, action: &ProgramAction) -> bool {
        self.known.retain(|(at, _)| now.since(*at) < AGAIN_AFTER);
        self.known.iter().any(|(_, known)| known == action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(actions: &ProgramActions, ms: u64, action: &'static str, target: &str) -> LineStatus {
        let now = Mono::from_nanos(ms * 1_000_000);
        let status = actions.add(now, ProgramAction::new(action, target), false);
        if status == LineStatus::Waits {
            actions.remove_first(true);
        }
        status
    }

    #[test]
    fn the_same_has_a_line_once_in_a_while_and_each_other_action_its_own() {
        let actions = ProgramActions::default();
        let add = |ms, action, target: &str| add(&actions, ms, action, target);
        assert_eq!(add(0, "rate", "a"), LineStatus::Waits);
        assert_eq!(add(1, "workers", "a"), LineStatus::Waits);
        assert_eq!(add(2, "rate", "b"), LineStatus::Waits);
        assert_eq!(add(3, "rate", "a"), LineStatus::Repeats);
        assert_eq!(add(599_999, "workers", "a"), LineStatus::Repeats);
        assert_eq!(add(600_000, "rate", "a"), LineStatus::Waits);
        for number in 0..KNOWN_MAX {
            assert_eq!(
                add(600_001, "rate", &format!("c{number}")),
                LineStatus::Waits
            );
        }
        assert_eq!(
            add(600_002, "rate", "a"),
            LineStatus::Waits,
            "forgotten for others"
        );
        let of = |by: &str| ProgramAction {
            by: Some(by.into()),
            ..ProgramAction::new("rate", "a")
        };
        let now = Mono::from_nanos(600_003_000_000);
        assert_eq!(actions.add(now, of("ann"), false), LineStatus::Waits);
        assert_eq!(actions.add(now, of("bob"), false), LineStatus::Waits);
        assert_eq!(actions.add(now, of("ann"), false), LineStatus::Repeats);
        assert_eq!(actions.add(now, of("ann"), true), LineStatus::Waits);
    }

    #[test]
    fn what_waits_is_bounded_and_what_could_not_be_written_may_be_again() {
        let actions = ProgramActions::default();
        let add = |number: usize| {
            let action = ProgramAction::new("rate", number.to_string());
            actions.add(Mono::from_nanos(1), action, false)
        };
        for number in 0..WAITING_MAX {
            assert_eq!(add(number), LineStatus::Waits);
        }
        assert_eq!(add(WAITING_MAX), LineStatus::Lost);
        actions.remove_first(false);
        actions.remove_first(true);
        assert_eq!([add(0), add(1)], [LineStatus::Waits, LineStatus::Repeats]);
        assert_eq!(
            add(WAITING_MAX),
            LineStatus::Waits,
            "what was lost is not known"
        );
        let order: Vec<_> = std::iter::from_fn(|| {
            let first = actions.first()?;
            actions.remove_first(true);
            Some(first.target)
        })
        .collect();
        let expected = (2..WAITING_MAX).chain([0, WAITING_MAX]);
        assert_eq!(order, expected.map(|it| it.to_string()).collect::<Vec<_>>());
        let long = ProgramAction::new("rate", "é".repeat(2_000));
        assert_eq!(long.target.len(), TARGET_BYTES_MAX);
    }
}
