//! Outcomes and causes as the small numbers that stand for them in the file.
//!
//! A number stays what it is for ever; the tables `outcomes` and `causes` say the same to other
//! tools. A new word takes the next number, and a step in `schema` that adds it to its table.

use crate::record::{Cause, Outcome};

/// The outcome that most records have: what is not this one has indexes of its own.
pub(super) const ACKED: i64 = 0;

/// The number of an outcome.
pub(super) fn of_outcome(outcome: Outcome) -> i64 {
    match outcome {
        Outcome::Acked => ACKED,
        Outcome::Retried => 1,
        Outcome::Snoozed => 2,
        Outcome::Buried => 3,
        Outcome::Discarded => 4,
        Outcome::Cancelled => 5,
        Outcome::Expired => 6,
        Outcome::LeaseLost => 7,
        Outcome::Revived => 8,
        Outcome::Edited => 9,
        Outcome::Dropped => 10,
        Outcome::Interrupted => 11,
    }
}

/// The number of a cause.
pub(super) fn of_cause(cause: Cause) -> i64 {
    match cause {
        Cause::Failed => 0,
        Cause::TimedOut => 1,
        Cause::Panicked => 2,
        Cause::Undecodable => 3,
        Cause::Interrupted => 4,
        Cause::LeaseLost => 5,
        Cause::TooLate => 6,
        Cause::Undecryptable => 7,
    }
}

/// The outcome of a number, if it is one.
pub(super) fn outcome(number: i64) -> Option<Outcome> {
    Outcome::ALL
        .into_iter()
        .find(|outcome| of_outcome(*outcome) == number)
}

/// The cause of a number, if it is one.
pub(super) fn cause(number: i64) -> Option<Cause> {
    Cause::ALL
        .into_iter()
        .find(|cause| of_cause(*cause) == number)
}
