//! The actions: their names, what they need, and what is said of them.

use crate::access::Role;
use crate::error::{PageError, Result};

/// Something a user can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Pause,
    Resume,
    Rate,
    Cancel,
    RunNow,
    Reschedule,
    Revive,
    Drop,
    ReviveAll,
    DropAll,
    CancelAll,
    RunAll,
    RescheduleAll,
    ReviveChosen,
    DropChosen,
    CancelChosen,
    RunChosen,
    RescheduleChosen,
    Purge,
    Replay,
    Stop,
    PauseSchedule,
    ResumeSchedule,
    RunSchedule,
    RemoveSchedule,
}

/// An action, its name in an address, the title of the question, the text of its button, and its name
/// in the audit.
type Row = (
    Action,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

#[rustfmt::skip] // a table
const TABLE: [Row; 25] = [
    (Action::Pause, "pause", "Pause this queue?", "Pause", "queue paused"),
    (Action::Resume, "resume", "Resume this queue?", "Resume", "queue resumed"),
    (Action::Rate, "rate", "Set the rate of this queue", "Set rate", "rate of queue set"),
    (Action::Cancel, "cancel", "Cancel this event?", "Cancel the event", "event cancelled"),
    (Action::RunNow, "run-now", "Run this event now?", "Run now", "event rescheduled"),
    (Action::Reschedule, "reschedule", "Reschedule this event", "Reschedule", "event rescheduled"),
    (Action::Revive, "revive", "Revive this dead letter?", "Revive", "dead letters revived"),
    (Action::Drop, "drop", "Drop this dead letter?", "Drop for good", "dead letters dropped"),
    (Action::ReviveAll, "revive-all", "Revive dead letters?", "Revive", "dead letters revived"),
    (Action::DropAll, "drop-all", "Drop dead letters?", "Drop for good", "dead letters dropped"),
    (Action::CancelAll, "cancel-all", "Cancel events?", "Cancel them for good", "events cancelled"),
    (Action::RunAll, "run-all", "Run events now?", "Run them now", "events rescheduled"),
    (Action::RescheduleAll, "reschedule-all", "Reschedule events", "Reschedule them", "events rescheduled"),
    (Action::ReviveChosen, "revive-chosen", "Revive these dead letters?", "Revive", "dead letters revived"),
    (Action::DropChosen, "drop-chosen", "Drop these dead letters?", "Drop for good", "dead letters dropped"),
    (Action::CancelChosen, "cancel-chosen", "Cancel these events?", "Cancel them for good", "events cancelled"),
    (Action::RunChosen, "run-chosen", "Run these events now?", "Run them now", "events rescheduled"),
    (Action::RescheduleChosen, "reschedule-chosen", "Reschedule these events", "Reschedule them", "events rescheduled"),
    (Action::Purge, "purge", "Purge this queue?", "Cancel all of them", "queue purged"),
    (Action::Replay, "replay", "Push these events once more?", "Push them once more", "records replayed"),
    (Action::Stop, "stop", "Stop this sweep?", "Stop", "sweep stopped"),
    (Action::PauseSchedule, "pause-schedule", "Pause this schedule?", "Pause", "schedule paused"),
    (Action::ResumeSchedule, "resume-schedule", "Resume this schedule?", "Resume", "schedule resumed"),
    (Action::RunSchedule, "run-schedule", "Run this schedule now?", "Run now", "schedule run"),
    (Action::RemoveSchedule, "remove-schedule", "Remove this schedule?", "Remove for good", "schedule removed"),
];

impl Action {
    pub(super) fn parse(name: &str) -> Result<Self> {
        let found = TABLE.iter().find(|(_, known, ..)| *known == name);
        let (action, ..) = found.ok_or_else(|| PageError::not_found("there is no such action"))?;
        Ok(*action)
    }

    fn row(self) -> Row {
        let found = TABLE.into_iter().find(|(action, ..)| *action == self);
        found.unwrap_or(TABLE[0])
    }

    pub(super) fn name(self) -> &'static str {
        self.row().1
    }

    pub(super) fn title(self) -> &'static str {
        self.row().2
    }

    pub(super) fn button(self) -> &'static str {
        self.row().3
    }

    /// Its name in the audit.
    pub(super) fn audited(self) -> &'static str {
        self.row().4
    }

    pub(super) fn role(self) -> Role {
        match self {
            // What somebody else has begun needs more.
            Self::Stop => Role::View,
            Self::Cancel
            | Self::RunNow
            | Self::Reschedule
            | Self::RunSchedule
            | Self::CancelAll
            | Self::RunAll
            | Self::RescheduleAll
            | Self::CancelChosen
            | Self::RunChosen
            | Self::RescheduleChosen => Role::Operate,
            _ => Role::Admin,
        }
    }

    /// What will happen.
    pub(super) fn effect(self) -> &'static str {
        match self {
            Self::Pause => {
                "No handler of it starts on any node until it is resumed. Running handlers finish, \
                 and pushes are accepted."
            }
            Self::Resume => "Its handlers start again on every node within a quarter of a second.",
            Self::Rate => "At most so many handlers start in a second, over all nodes.",
            Self::Cancel => "It will not run. This cannot be undone.",
            Self::RunNow => "It becomes due now, and runs as soon as a worker is free.",
            Self::Reschedule => "It becomes due so long from now, or at the time.",
            Self::Revive => "It becomes ready again, with all its attempts, unless it has expired.",
            Self::Drop => "It is removed, with its payload. This cannot be undone.",
            Self::ReviveAll => {
                "They become ready again, with all their attempts, in the background at this rate; \
                 those whose expiry has passed stay dead; the page of dead letters shows how far it is, and stops it."
            }
            Self::DropAll => {
                "They are removed, with their payloads, in the background at this rate. This cannot \
                 be undone."
            }
            Self::CancelAll => {
                "Those that wait will not run, cancelled in the background at this rate; the page \
                 of events shows how far it is, and stops it. What runs, or is dead, stays as it is. \
                 This cannot be undone."
            }
            Self::RunAll => {
                "Those that wait become due now, in the background at this rate, and run as workers \
                 are free."
            }
            Self::RescheduleAll => {
                "Those that wait become due together, so long from now or at the time, in the background at this rate; \
                 what is changed later than that is due at once."
            }
            Self::ReviveChosen => {
                "They become ready again, with all their attempts; those whose expiry has passed \
                 stay dead."
            }
            Self::DropChosen => "They are removed, with their payloads. This cannot be undone.",
            Self::CancelChosen => {
                "Those that still wait will not run. What runs by then, or is over, stays as it is. \
                 This cannot be undone."
            }
            Self::RunChosen => "Those that still wait become due now, and run as workers are free.",
            Self::RescheduleChosen => {
                "Those that still wait become due so long from now, or at the time."
            }
            Self::Purge => {
                "What waits in it now will not run, cancelled in the background at this rate; the \
                 page of events shows how far it is, and stops it. What runs, dead letters and what \
                 is pushed after it has begun stay. This cannot be undone."
            }
            Self::Replay => {
                "What had ended runs once more: each as a new event, due now, with the payload and \
                 the key of its record, in the background at this rate. Under a name that was used \
                 before, what was pushed under it is not pushed again."
            }
            Self::Stop => "What it has done stays done; the rest stays as it is.",
            Self::PauseSchedule => {
                "It pushes nothing until it is resumed, and what it has pushed that is to come is \
                 taken back. Occurrences that are due run."
            }
            Self::ResumeSchedule => "It goes on, and makes up for what it missed as it says.",
            Self::RunSchedule => {
                "An occurrence of it is pushed and due now, beside those of its calendar."
            }
            Self::RemoveSchedule => {
                "It ends, and what it has pushed that is to come is taken back. One that a program \
                 declares comes back while the program runs."
            }
        }
    }

    pub(super) fn is_dangerous(self) -> bool {
        matches!(
            self,
            Self::Cancel
                | Self::CancelAll
                | Self::CancelChosen
                | Self::Purge
                | Self::Drop
                | Self::DropAll
                | Self::DropChosen
                | Self::RemoveSchedule
        )
    }

    /// What is done to each of those that are chosen on a page; `None` for other actions.
    pub(super) fn of_each(self) -> Option<Self> {
        Some(match self {
            Self::ReviveChosen => Self::Revive,
            Self::DropChosen => Self::Drop,
            Self::CancelChosen => Self::Cancel,
            Self::RunChosen => Self::RunNow,
            Self::RescheduleChosen => Self::Reschedule,
            _ => return None,
        })
    }

    /// Whether it is done to dead letters.
    pub(super) fn is_of_dead(self) -> bool {
        matches!(
            self,
            Self::Revive | Self::Drop | Self::ReviveChosen | Self::DropChosen
        )
    }

    /// Whether it is a sweep over events.
    pub(super) fn is_of_events(self) -> bool {
        matches!(self, Self::CancelAll | Self::RunAll | Self::RescheduleAll)
    }

    pub(super) fn is_of_schedule(self) -> bool {
        matches!(
            self,
            Self::PauseSchedule | Self::ResumeSchedule | Self::RunSchedule | Self::RemoveSchedule
        )
    }
}
