use super::{always, crash, drop, embedded, put, redis_store, store_contract};
use crate::mutant::{Mutant, Promise::Records};

pub(crate) const MUTANTS: &[Mutant] = &[
    Records.bug(
        "record-in-a-second-transaction",
        "embedded: records are written after their outcome, in a transaction each",
        &[
            put(
                "Transaction::fill",
                "«self.record($record, *$telling)?»;",
                "(_, self.counts.next_record) = ($telling, self.counts.next_record + 1)",
            ),
            put(
                "Committer::write",
                "tombstones.write(&self.connection, $batch«», $now)",
                ".clone()",
            ),
            put(
                "Committer::write",
                "$batch: impl $... «self.counts = $counts;»",
                "let mut number = self.counts.next_record; self.counts = $counts; for record \
             in $batch.flat_map(|changes| &changes.records) { let record = \
             Cow::Borrowed(record); let mut load = Load::new(Arrival::First); \
             load.add(&self.connection, &mut self.queues, number, record)?; \
             load.finish(&self.connection)?; number += 1; }",
            ),
        ],
        crash("killed_at_any_moment_nothing_is_lost_early_or_tried_too_often"),
    ),
    Records.bug(
        "redis-record-after-the-rest",
        "Redis: the settle script writes its records when all else is done",
        &[
            drop("settle.lua", "write_records"),
            put(
                "settle.lua",
                "«» local $earlier = 0 if $is_back",
                "write_records()",
            ),
        ],
        redis_store("outbox"),
    ),
    Records.bug(
        "lost-lease-not-recorded",
        "an attempt whose lease was lost leaves no record",
        &[put(
            "Bucket::take_back",
            "$entry.record($id, &self.key.queue, $ending, $sink)",
            "drop($ending)",
        )],
        store_contract("every_lease_that_ends_leaves_one_record"),
    ),
    Records.bug(
        "redis-snooze-not-recorded",
        "Redis: a snoozed attempt leaves no record",
        &[drop("lua::conclude", r#""\3", "\0""#)],
        store_contract("each_verdict_leads_where_it_says_and_writes_one_record"),
    ),
    Records.bug(
        "open-attempt-not-recorded",
        "embedded: an attempt that a dead process left open is counted and not recorded",
        &[put(
            "InterruptedAttempts::count_one",
            "$changes.record($record, $restored.tells.then_some($row))",
            "drop($record)",
        )],
        embedded("a_handler_that_kills_its_process_uses_an_attempt_and_ends_as_a_dead_letter"),
    ),
    Records.bug(
        "error-not-cut",
        "a record keeps an error's text in its whole length",
        &[put(
            "Entry::record",
            "map(cut_error)",
            "filter(|error| cut_error(error.clone()).len() < usize::MAX)",
        )],
        store_contract("a_long_error_is_cut"),
    ),
    Records.bug(
        "records-kept-for-ever",
        "embedded: a commit removes no record, however many there are",
        &[put(
            "Retention::step",
            "!($is_too_much || $looks || self.more)",
            "$is_too_much || $looks || self.more",
        )],
        embedded("only_so_many_records_are_kept"),
    ),
    Records.bug(
        "damaged-count-believed",
        "embedded: records go because a damaged count says that there are too many",
        &[
            always("Scan::read_finished", "$read == FINISHED_READ"),
            put("Scan::read_finished", "min($most).max($read)", "max($most)"),
        ],
        embedded("a_damaged_count_of_records_removes_none_of_them"),
    ),
    Records.bug(
        "outbox-not-told",
        "memory: nobody is told that there are new records",
        &[drop("MemoryStore::change", "recorded.tell")],
        store_contract("a_watcher_of_outboxes_is_told_of_every_record"),
    ),
    Records.bug(
        "trace-and-payload-not-told",
        "embedded: records go without what only the envelope knows",
        &[put(
            "Transaction::record",
            "?«», None",
            ".filter(|_| false)",
        )],
        store_contract("records_tell_the_payload_of_their_time"),
    ),
    Records.bug(
        "redis-trims-one-too-many",
        "Redis: a trim lets go of the first record that is not in the journal as well",
        &[put("trim.lua", r#""=", $oldest«»"#, "+ 1")],
        redis_store("what_is_trimmed_is_read_no_more_and_what_is_not_stays"),
    ),
    Records.bug(
        "redis-trims-what-was-lost-and-given-again",
        "Redis: a trim after a failover lets go of records that have the numbers of lost ones",
        &[put("trim.lua", "«not $same» then return REPLY", "false")],
        redis_store("a_trim_does_not_let_go_of_records_that_got_the_numbers_of_lost_ones"),
    ),
    Records.bug(
        "redis-payload-kept-unasked",
        "Redis: records keep the payload of an event that has a trace and asks for nothing",
        &[put("more_of", "«$said % 2 == 1 and» $payload_len", "")],
        redis_store("records_keep_a_payload_where_it_is_asked_for_and_short_enough"),
    ),
    Records.bug(
        "redis-by-whom-not-recorded",
        "Redis: records of what was done by hand do not say by whom",
        &[put("more_of", "end end if «$by» then $flags", "false")],
        redis_store("records_keep_a_payload_where_it_is_asked_for_and_short_enough"),
    ),
    Records.bug(
        "redis-cancel-not-told",
        "Redis: nobody is told that a cancel has left a record",
        &[put(
            "cancel::read",
            "CancelOutcome::Cancelled | CancelOutcome::CancelledAfterAttempt => «true»",
            "false",
        )],
        redis_store("watchers_are_told_of_what_wrote_records_and_of_nothing_else"),
    ),
];
