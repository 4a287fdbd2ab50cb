use super::{drop, embedded, put, store_contract};
use crate::mutant::{Mutant, Promise::Cancel};

pub(crate) const MUTANTS: &[Mutant] = &[
    Cancel.bug(
        "cancel-of-leased-is-done",
        "a cancel of a leased event answers that it is cancelled",
        &[put(
            "Bucket::cancel",
            "«» $state => CancelOutcome::TooLate",
            "State::Leased => CancelOutcome::Cancelled,",
        )],
        store_contract("a_cancel_of_a_leased_event_is_too_late"),
    ),
    Cancel.bug(
        "lost-lease-hidden",
        "a cancel after a lost lease does not say that an attempt may still run",
        &[drop("Bucket::take_back", "set_maybe_running")],
        store_contract("a_cancel_after_a_lost_lease_says_that_somebody_may_run"),
    ),
    Cancel.bug(
        "redis-lost-lease-forgotten",
        "Redis: a later attempt makes the script forget that a lease was lost",
        &[put(
            "lua::conclude",
            "$it.settled «= $settled»",
            ", $it.lost = $settled, false",
        )],
        store_contract("a_lost_lease_is_not_forgotten_by_a_later_attempt"),
    ),
    Cancel.bug(
        "update-of-what-runs",
        "an update of an event whose handler runs answers that it is changed",
        &[put(
            "Bucket::update",
            "«$entry.is_leased() ||» $dead_only",
            "",
        )],
        store_contract("a_change_of_what_is_leased_or_over_is_too_late"),
    ),
    Cancel.bug(
        "redis-cancelled-and-still-due",
        "Redis: a cancelled event stays in the delay set",
        &[drop("lua::cancel", r#""ZREM", DELAY"#)],
        store_contract("a_cancelled_event_is_never_started"),
    ),
    Cancel.bug(
        "cancel-answered-before-the-commit",
        "embedded: a cancel is answered before it is on disk",
        &[put(
            "Shared::decide",
            "$op.waits()«»",
            "&& !matches!(op, StoreOp::Cancel { .. })",
        )],
        embedded("no_change_is_answered_that_could_not_be_written"),
    ),
];
