use super::{delivery, drop, embedded, put, store_contract, syscalls};
use crate::mutant::{Mutant, Promise::Attempts};

pub(crate) const MUTANTS: &[Mutant] = &[
    Attempts.bug(
        "one-attempt-too-many",
        "the store grants one attempt more than allowed",
        &[put("Bucket::conclude", "$tries «>=» $entry.attempts", ">")],
        store_contract("the_last_attempt_ends_in_a_dead_letter"),
    ),
    Attempts.bug(
        "redis-one-attempt-too-many",
        "Redis: the settle script grants one attempt more than allowed",
        &[put("lua::conclude", "$attempt «<» $allowed then", "<=")],
        store_contract("the_last_attempt_ends_in_a_dead_letter"),
    ),
    Attempts
        .bug(
            "last-failure-asks-for-a-retry",
            "a handler's last failure is settled as one to be tried again",
            &[put(
                "executor::judge",
                "$attempt «>=» $attempts { return AttemptOutcome",
                ">",
            )],
            delivery("after_the_last_attempt_comes_no_other"),
        )
        .masked_by(
            "the store counts by itself and buries it",
            &[put("Bucket::conclude", "$tries «>=» $entry.attempts", ">")],
        ),
    Attempts.bug(
        "snooze-counts",
        "a snooze uses up an attempt",
        &[put("Bucket::conclude", "$id, $delay, $tries «- 1»", "")],
        store_contract("snooze_and_release_do_not_count"),
    ),
    Attempts.bug(
        "release-counts",
        "handing an event back before it started uses up an attempt",
        &[put("Bucket::release", "$entry.«»go", "tries += 1; $entry.")],
        store_contract("snooze_and_release_do_not_count"),
    ),
    Attempts.bug(
        "announced-start-not-counted",
        "what a dead node had announced to start is taken for never started",
        &[put(
            "NodeLeases::may_have_started",
            "«$started ||» $lease.deadline",
            "!$started &&",
        )],
        store_contract("what_never_started_is_handed_back_without_an_attempt"),
    ),
    Attempts.bug(
        "redis-announced-start-not-counted",
        "Redis: the last of what a dead node had announced is taken for never started",
        &[put("may_have_started", "$place «<=» $node.first", "<")],
        store_contract("what_never_started_is_handed_back_without_an_attempt"),
    ),
    Attempts.bug(
        "announcement-shrinks",
        "a later and smaller announcement of starts takes the place of a greater one",
        &[put(
            "NodeLeases::announce",
            "$known.started.max($mark)",
            "$mark",
        )],
        store_contract("an_announcement_never_shrinks"),
    ),
    Attempts.bug(
        "redis-announcement-forgotten",
        "Redis: a settle without settlements announces nothing",
        &[drop("settle.lua", "if announce_starts")],
        store_contract("a_settle_announces_starts"),
    ),
    Attempts.bug(
        "lost-lease-not-counted",
        "an attempt whose lease was lost is not counted",
        &[drop("Bucket::take_back", "tries.saturating_add")],
        store_contract("what_a_silent_node_held_is_ready_again_and_has_used_an_attempt"),
    ),
    Attempts.bug(
        "start-not-noted",
        "embedded: the note of a start is not written",
        &[put("Shared::note_starts", "clone()«»", ".take(0)")],
        embedded("a_handler_that_kills_its_process_uses_an_attempt_and_ends_as_a_dead_letter"),
    ),
    Attempts.bug(
        "full-notes-renewed-without-what-runs",
        "embedded: when the notes of starts are written anew, what still runs is not among them",
        &[put("Starts::renew", "into_iter().«»map", "take(0).")],
        embedded("the_notes_do_not_grow_with_what_is_over"),
    ),
    Attempts.bug(
        "starts-not-read",
        "embedded: an open does not count the attempts that were noted",
        &[put(
            "InterruptedAttempts::count",
            "remove(&$restored.id) «»",
            ".filter(|_| false)",
        )],
        embedded("a_handler_that_kills_its_process_uses_an_attempt_and_ends_as_a_dead_letter"),
    ),
    Attempts.bug(
        "ended-starts-count",
        "embedded: a start whose end is on record counts at an open",
        &[drop("InterruptedAttempts::read", "begun.remove")],
        embedded("a_snoozed_attempt_is_not_counted"),
    ),
    Attempts.bug(
        "release-stays-started",
        "embedded: what its holder released counts at an open",
        &[put(
            "running",
            "HandedBack«($start) => $running.remove(&$start)»",
            "(_) => true",
        )],
        embedded("a_lease_that_its_holder_released_is_not_counted"),
    ),
    Attempts.bug(
        "revive-ends-no-start",
        "embedded: a start from before a revive counts where its record is damaged",
        &[put(
            "InterruptedAttempts::count",
            "EPOCH)«»",
            ".min(Timestamp::EPOCH)",
        )],
        embedded("what_started_before_a_revive_is_over_although_its_record_is_damaged"),
    ),
    Attempts.bug(
        "start-not-told-to-the-store",
        "a handler is started without the store being told",
        &[put(
            "ExecutorDeps::note_start",
            "$queue, &[«$delivery»]",
            "",
        )],
        delivery("each_start_is_noted_before_its_handler_runs"),
    ),
    Attempts.bug(
        "notes-in-place-before-they-are-written",
        "embedded: the new file of notes takes the place of the old one before it is filled",
        &[
            put(
                "Starts::renew",
                "MappedFile::fill($next, «$notes», $..)",
                "Vec::new()",
            ),
            put(
                "Starts::renew",
                "$notes: Vec<_> $... fs::rename($..).map(|()| $file)) «»",
                ".and_then(|$file| $file.write(&$notes, 0).map(|()| $file))",
            ),
        ],
        syscalls("killed_at_any_call_of_the_script_nothing_is_lost_early_or_unrecorded"),
    ),
];
