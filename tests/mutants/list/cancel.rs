use super::{contract, edit, test};
use crate::mutant::{Mutant, Promise::Cancel};

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "cancel-of-leased-is-done",
        breaks: Cancel,
        bug: "a cancel of a leased event answers that it is cancelled",
        edits: &[edit(
            "src/core/reference/change.rs",
            "state => Cancelled::TooLate(state),\n        }\n    }",
            "State::Leased => Cancelled::Cancelled,\n            state => Cancelled::TooLate(state),\n        }\n    }",
        )],
        caught_by: contract("a_cancel_of_a_leased_event_is_too_late"),
        masked_by: None,
    },
    Mutant {
        name: "lost-lease-hidden",
        breaks: Cancel,
        bug: "a cancel after a lost lease does not say that an attempt may still run",
        edits: &[edit(
            "src/core/reference/reap.rs",
            "        entry.set_maybe_running();\n",
            "",
        )],
        caught_by: contract("a_cancel_after_a_lost_lease_says_that_somebody_may_run"),
        masked_by: None,
    },
    Mutant {
        name: "redis-lost-lease-forgotten",
        breaks: Cancel,
        bug: "Redis: a later attempt makes the script forget that a lease was lost",
        edits: &[edit(
            "src/store/redis/lua/settle.lua",
            "  it.settled = settled\n  local is_free",
            "  it.settled, it.lost = settled, false\n  local is_free",
        )],
        caught_by: contract("a_lost_lease_is_not_forgotten_by_a_later_attempt"),
        masked_by: None,
    },
    Mutant {
        name: "update-of-what-runs",
        breaks: Cancel,
        bug: "an update of an event whose handler runs answers that it is changed",
        edits: &[edit(
            "src/core/reference/change.rs",
            "if entry.is_leased() || dead_only",
            "if dead_only",
        )],
        caught_by: contract("a_change_of_what_is_leased_or_over_is_too_late"),
        masked_by: None,
    },
    Mutant {
        name: "redis-cancelled-and-still-due",
        breaks: Cancel,
        bug: "Redis: a cancelled event stays in the delay set",
        edits: &[edit(
            "src/store/redis/lua/ending.lua",
            "    call(\"ZREM\", DELAY, id)\n",
            "",
        )],
        caught_by: contract("a_cancelled_event_is_never_started"),
        masked_by: None,
    },
    Mutant {
        name: "cancel-answered-before-the-commit",
        breaks: Cancel,
        bug: "embedded: a cancel is answered before it is on disk",
        edits: &[edit(
            "src/store/embedded/shared.rs",
            "                | StoreOp::Cancel { .. }\n",
            "",
        )],
        caught_by: test(
            "embedded",
            "no_change_is_answered_that_could_not_be_written",
        ),
        masked_by: None,
    },
];
