use super::{contract, delivery, edit, test};
use crate::mutant::{Mutant, Promise::NeverEarly};

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "due-rounded-down",
        breaks: NeverEarly,
        bug: "a fraction of a millisecond is cut off a due time",
        edits: &[edit(
            "src/time.rs",
            "Self(micros.div_ceil(1_000))",
            "Self(micros / 1_000)",
        )],
        caught_by: contract("a_fraction_of_a_millisecond_rounds_up"),
        masked_by: None,
    },
    Mutant {
        name: "redis-due-rounded-down",
        breaks: NeverEarly,
        bug: "Redis: the push script cuts the fraction off",
        edits: &[edit(
            "src/store/redis/lua/push.lua",
            "math.ceil((now + sub(when, 2)) / 1000)",
            "math.floor((now + sub(when, 2)) / 1000)",
        )],
        caught_by: contract("a_fraction_of_a_millisecond_rounds_up"),
        masked_by: None,
    },
    Mutant {
        name: "early-by-one-ms",
        breaks: NeverEarly,
        bug: "an event counts as due a millisecond before its time",
        edits: &[edit(
            "src/core/reference/waiting.rs",
            "(first.due.as_micros() <= until_us).then",
            "(first.due.as_micros() <= until_us + 1_000).then",
        )],
        caught_by: contract("nothing_is_moved_before_it_is_due"),
        masked_by: None,
    },
    Mutant {
        name: "redis-early-by-one-ms",
        breaks: NeverEarly,
        bug: "Redis: the move script takes what is due in the next millisecond",
        edits: &[edit(
            "src/store/redis/lua/move_due.lua",
            r#""-inf", now_ms,"#,
            r#""-inf", now_ms + 1,"#,
        )],
        caught_by: contract("nothing_is_moved_before_it_is_due"),
        masked_by: None,
    },
    Mutant {
        name: "read-ahead-not-held",
        breaks: NeverEarly,
        bug: "what was read ahead is published as soon as it is there",
        edits: &[edit(
            "src/core/prefetch.rs",
            "if !clock.has_reached(now, first.key().0) {",
            "if false && !clock.has_reached(now, first.key().0) {",
        )],
        caught_by: delivery("what_is_read_ahead_is_held_until_its_time"),
        masked_by: None,
    },
    Mutant {
        name: "read-ahead-handed-back-as-ready",
        breaks: NeverEarly,
        bug: "what was read ahead and is handed back counts as due",
        edits: &[edit(
            "src/core/reference/settle.rs",
            "let place = if entry.due.as_micros() > self.now_us {",
            "let place = if false {",
        )],
        caught_by: contract("what_was_read_ahead_and_handed_back_waits_for_its_due_time"),
        masked_by: None,
    },
    Mutant {
        name: "redis-read-ahead-reaped-as-ready",
        breaks: NeverEarly,
        bug: "Redis: what a dead node had read ahead counts as due",
        edits: &[
            edit(
                "src/store/redis/lua/waiting.lua",
                "if due_ms > now_ms then -- it was prefetched",
                "if false then",
            ),
            edit(
                "src/store/redis/lua/take_back.lua",
                "wait(id, it, number_at(it.due, 1))",
                "wait(id, it, now_ms)",
            ),
        ],
        caught_by: contract("what_was_read_ahead_and_lost_waits_for_its_due_time"),
        masked_by: None,
    },
    Mutant {
        name: "store-time-from-sending",
        breaks: NeverEarly,
        bug: "a node counts the store's time from when it asked, not from when it was answered",
        edits: &[edit(
            "src/core/clock.rs",
            "(self.base_us, self.at) = (answer_us, now);",
            "(self.base_us, self.at) = (answer_us, sent);",
        )],
        caught_by: test("simulation", "no_seed_breaks_a_promise"),
        masked_by: None,
    },
    Mutant {
        name: "clock-goes-back",
        breaks: NeverEarly,
        bug: "a bucket's clock goes back with the machine's",
        edits: &[edit(
            "src/core/reference/mod.rs",
            "self.now_us = self.now_us.max(now_us);",
            "self.now_us = now_us;",
        )],
        caught_by: test("simulation", "no_seed_breaks_a_promise"),
        masked_by: None,
    },
    Mutant {
        name: "retry-delay-lost",
        breaks: NeverEarly,
        bug: "a failed attempt is due again at once, whatever its backoff",
        edits: &[edit(
            "src/core/reference/settle.rs",
            "When::from(delay.min(DELAY_MAX)).due(self.now_us);",
            "When::from(delay.min(DELAY_MAX) * 0).due(self.now_us);",
        )],
        caught_by: contract("a_failed_attempt_counts_and_is_due_again_after_its_delay"),
        masked_by: None,
    },
    Mutant {
        name: "glitch-believed",
        breaks: NeverEarly,
        bug: "a wall clock that is a day ahead for three seconds is believed at once",
        edits: &[edit(
            "src/core/clock.rs",
            "const BELIEVED_AFTER: Duration = Duration::from_secs(10);",
            "const BELIEVED_AFTER: Duration = Duration::ZERO;",
        )],
        caught_by: contract("a_glitch_of_the_clock_changes_no_due_time"),
        masked_by: None,
    },
];
