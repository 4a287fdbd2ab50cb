use super::{contract, delivery, edit, test};
use crate::mutant::{Masked, Mutant, Promise::Attempts};

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "one-attempt-too-many",
        breaks: Attempts,
        bug: "the store grants one attempt more than allowed",
        edits: &[edit(
            "src/core/reference/settle.rs",
            "let last = tries >= entry.attempts;",
            "let last = tries > entry.attempts;",
        )],
        caught_by: contract("the_last_attempt_ends_in_a_dead_letter"),
        masked_by: None,
    },
    Mutant {
        name: "redis-one-attempt-too-many",
        breaks: Attempts,
        bug: "Redis: the settle script grants one attempt more than allowed",
        edits: &[edit(
            "src/store/redis/lua/settle.lua",
            "attempt < allowed then",
            "attempt <= allowed then",
        )],
        caught_by: contract("the_last_attempt_ends_in_a_dead_letter"),
        masked_by: None,
    },
    Mutant {
        name: "last-failure-asks-for-a-retry",
        breaks: Attempts,
        bug: "a handler's last failure is settled as one to be tried again",
        edits: &[edit(
            "src/flow/handlers/executor.rs",
            "if attempt >= attempts {",
            "if attempt > attempts {",
        )],
        caught_by: delivery("after_the_last_attempt_comes_no_other"),
        masked_by: Some(Masked {
            by: "the store counts by itself and buries it",
            edits: &[edit(
                "src/core/reference/settle.rs",
                "let last = tries >= entry.attempts;",
                "let last = tries > entry.attempts;",
            )],
        }),
    },
    Mutant {
        name: "snooze-counts",
        breaks: Attempts,
        bug: "a snooze uses up an attempt",
        edits: &[edit(
            "src/core/reference/settle.rs",
            "self.again(id, delay, tries - 1, ending, sink);",
            "self.again(id, delay, tries, ending, sink);",
        )],
        caught_by: contract("snooze_and_release_do_not_count"),
        masked_by: None,
    },
    Mutant {
        name: "release-counts",
        breaks: Attempts,
        bug: "handing an event back before it started uses up an attempt",
        edits: &[edit(
            "src/core/reference/settle.rs",
            "        *front += 1;\n        entry.go(place);",
            "        *front += 1;\n        entry.tries += 1;\n        entry.go(place);",
        )],
        caught_by: contract("snooze_and_release_do_not_count"),
        masked_by: None,
    },
    Mutant {
        name: "announced-start-not-counted",
        breaks: Attempts,
        bug: "what a dead node had announced to start is taken for never started",
        edits: &[edit(
            "src/core/reference/node.rs",
            "started || lease.deadline.is_some()",
            "!started && lease.deadline.is_some()",
        )],
        caught_by: contract("what_never_started_is_handed_back_without_an_attempt"),
        masked_by: None,
    },
    Mutant {
        name: "redis-announced-start-not-counted",
        breaks: Attempts,
        bug: "Redis: the last of what a dead node had announced is taken for never started",
        edits: &[edit(
            "src/store/redis/lua/take_back.lua",
            "place <= node.first",
            "place < node.first",
        )],
        caught_by: contract("what_never_started_is_handed_back_without_an_attempt"),
        masked_by: None,
    },
    Mutant {
        name: "announcement-shrinks",
        breaks: Attempts,
        bug: "a later and smaller announcement of starts takes the place of a greater one",
        edits: &[edit(
            "src/core/reference/node.rs",
            "known.started = known.started.max(mark);",
            "known.started = mark;",
        )],
        caught_by: contract("an_announcement_never_shrinks"),
        masked_by: None,
    },
    Mutant {
        name: "redis-announcement-forgotten",
        breaks: Attempts,
        bug: "Redis: a settle without settlements announces nothing",
        edits: &[edit(
            "src/store/redis/lua/settle.lua",
            "  if announce_starts(node) then\n    keep_node(me, node)\n  end\n  keep_counts()",
            "  keep_counts()",
        )],
        caught_by: contract("a_settle_announces_starts"),
        masked_by: None,
    },
    Mutant {
        name: "lost-lease-not-counted",
        breaks: Attempts,
        bug: "an attempt whose lease was lost is not counted",
        edits: &[edit(
            "src/core/reference/reap.rs",
            "entry.tries = entry.tries.saturating_add(1);",
            "",
        )],
        caught_by: contract("what_a_silent_node_held_is_ready_again_and_has_used_an_attempt"),
        masked_by: None,
    },
    Mutant {
        name: "start-not-noted",
        breaks: Attempts,
        bug: "embedded: the note of a start is not written",
        edits: &[edit(
            "src/store/embedded/mod.rs",
            "let mut noted = notes.note(starts.clone());",
            "let mut noted = notes.note(starts.clone().take(0));",
        )],
        caught_by: test(
            "embedded",
            "a_handler_that_kills_its_process_uses_an_attempt_and_ends_as_a_dead_letter",
        ),
        masked_by: None,
    },
    Mutant {
        name: "full-notes-renewed-without-what-runs",
        breaks: Attempts,
        bug: "embedded: when the notes of starts are written anew, what still runs is not among them",
        edits: &[edit(
            "src/store/embedded/starts.rs",
            "let started = running.into_iter().map(Note::Started);",
            "let started = running.into_iter().take(0).map(Note::Started);",
        )],
        caught_by: test("embedded", "the_notes_do_not_grow_with_what_is_over"),
        masked_by: None,
    },
    Mutant {
        name: "starts-not-read",
        breaks: Attempts,
        bug: "embedded: an open does not count the attempts that were noted",
        edits: &[edit(
            "src/store/embedded/unsettled.rs",
            "self.begun_of.remove(&restored.id)",
            "self.begun_of.remove(&restored.id).filter(|_| false)",
        )],
        caught_by: test(
            "embedded",
            "a_handler_that_kills_its_process_uses_an_attempt_and_ends_as_a_dead_letter",
        ),
        masked_by: None,
    },
    Mutant {
        name: "ended-starts-count",
        breaks: Attempts,
        bug: "embedded: a start whose end is on record counts at an open",
        edits: &[edit(
            "src/store/embedded/unsettled.rs",
            "        self.begun.remove(&Start::of(record));\n",
            "",
        )],
        caught_by: test("embedded", "a_snoozed_attempt_is_not_counted"),
        masked_by: None,
    },
    Mutant {
        name: "release-stays-started",
        breaks: Attempts,
        bug: "embedded: what its holder released counts at an open",
        edits: &[edit(
            "src/store/embedded/starts.rs",
            "Note::HandedBack(start) => running.remove(&start),",
            "Note::HandedBack(_) => true,",
        )],
        caught_by: test(
            "embedded",
            "a_lease_that_its_holder_released_is_not_counted",
        ),
        masked_by: None,
    },
    Mutant {
        name: "revive-ends-no-start",
        breaks: Attempts,
        bug: "embedded: a start from before a revive counts where its record is damaged",
        edits: &[edit(
            "src/store/embedded/unsettled.rs",
            "revived.unwrap_or(Timestamp::EPOCH)",
            "revived.unwrap_or(Timestamp::EPOCH).min(Timestamp::EPOCH)",
        )],
        caught_by: test(
            "embedded",
            "what_started_before_a_revive_is_over_although_its_record_is_damaged",
        ),
        masked_by: None,
    },
    Mutant {
        name: "start-not-told-to-the-store",
        breaks: Attempts,
        bug: "a handler is started without the store being told",
        edits: &[edit(
            "src/flow/handlers/deps.rs",
            "self.store.starting(queue, &[delivery])",
            "self.store.starting(queue, &[])",
        )],
        caught_by: delivery("each_start_is_noted_before_its_handler_runs"),
        masked_by: None,
    },
    Mutant {
        name: "notes-in-place-before-they-are-written",
        breaks: Attempts,
        bug: "embedded: the new file of notes takes the place of the old one before it is filled",
        edits: &[
            edit(
                "src/store/embedded/starts.rs",
                "MappedFile::fill(next, notes, room.max(BYTES_MIN))",
                "MappedFile::fill(next, Vec::new(), room.max(BYTES_MIN))",
            ),
            edit(
                "src/store/embedded/starts.rs",
                ".and_then(|file| fs::rename(&path, &self.path).map(|()| file));",
                ".and_then(|file| fs::rename(&path, &self.path).map(|()| file))\n            \
                 .and_then(|file| file.write(&notes, 0).map(|()| file));",
            ),
        ],
        caught_by: test(
            "syscalls",
            "killed_at_any_call_of_the_script_nothing_is_lost_early_or_unrecorded",
        ),
        masked_by: None,
    },
];
