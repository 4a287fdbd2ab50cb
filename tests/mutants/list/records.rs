use super::{contract, edit, test};
use crate::mutant::{Mutant, Promise::Records};

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "record-in-a-second-transaction",
        breaks: Records,
        bug: "embedded: records are written after their outcome, in a transaction each",
        edits: &[
            edit(
                "src/store/embedded/commit.rs",
                "self.record(record, *telling)?;",
                "(_, self.counts.next_record) = (telling, self.counts.next_record + 1);",
            ),
            edit(
                "src/store/embedded/commit.rs",
                "self.tombstones.write(&self.connection, batch, now)?;",
                "self.tombstones.write(&self.connection, batch.clone(), now)?;",
            ),
            edit(
                "src/store/embedded/commit.rs",
                "                self.counts = counts;\n",
                "                let mut number = self.counts.next_record;
                self.counts = counts;
                for record in batch.flat_map(|changes| &changes.records) {
                    let record = Cow::Borrowed(record);
                    let mut load = Load::new(Arrival::First);
                    load.add(&self.connection, &mut self.queues, number, record)?;
                    load.finish(&self.connection)?;
                    number += 1;
                }
",
            ),
        ],
        caught_by: test(
            "crash",
            "killed_at_any_moment_nothing_is_lost_early_or_tried_too_often",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-record-after-the-rest",
        breaks: Records,
        bug: "Redis: the settle script writes its records when all else is done",
        edits: &[
            edit(
                "src/store/redis/lua/settle.lua",
                "if changes_len > 0 then\n  write_records()\n",
                "if changes_len > 0 then\n",
            ),
            edit(
                "src/store/redis/lua/settle.lua",
                "local earlier = 0\n",
                "write_records()\nlocal earlier = 0\n",
            ),
        ],
        caught_by: test("redis_store", "outbox"),
        masked_by: None,
    },
    Mutant {
        name: "lost-lease-not-recorded",
        breaks: Records,
        bug: "an attempt whose lease was lost leaves no record",
        edits: &[edit(
            "src/core/reference/reap.rs",
            "entry.record(id, &self.key.queue, ending, sink);",
            "drop(ending);",
        )],
        caught_by: contract("every_lease_that_ends_leaves_one_record"),
        masked_by: None,
    },
    Mutant {
        name: "redis-snooze-not-recorded",
        breaks: Records,
        bug: "Redis: a snoozed attempt leaves no record",
        edits: &[edit(
            "src/store/redis/lua/settle.lua",
            "    record(\"\\3\", \"\\0\", attempt)\n",
            "",
        )],
        caught_by: contract("each_verdict_leads_where_it_says_and_writes_one_record"),
        masked_by: None,
    },
    Mutant {
        name: "open-attempt-not-recorded",
        breaks: Records,
        bug: "embedded: an attempt that a dead process left open is counted and not recorded",
        edits: &[edit(
            "src/store/embedded/unsettled.rs",
            "        changes.record(record, restored.tells.then_some(row));\n",
            "        drop(record);\n",
        )],
        caught_by: test(
            "embedded",
            "a_handler_that_kills_its_process_uses_an_attempt_and_ends_as_a_dead_letter",
        ),
        masked_by: None,
    },
    Mutant {
        name: "error-not-cut",
        breaks: Records,
        bug: "a record keeps an error's text in its whole length",
        edits: &[edit(
            "src/core/reference/entry.rs",
            "error: ending.error.map(cut_error),",
            "error: ending.error.filter(|error| cut_error(error.clone()).len() < usize::MAX),",
        )],
        caught_by: contract("a_long_error_is_cut"),
        masked_by: None,
    },
    Mutant {
        name: "records-kept-for-ever",
        breaks: Records,
        bug: "embedded: a commit removes no record, however many there are",
        edits: &[edit(
            "src/store/embedded/retention.rs",
            "if !(is_too_much || looks || self.more) {",
            "if is_too_much || looks || self.more {",
        )],
        caught_by: test("embedded", "only_so_many_records_are_kept"),
        masked_by: None,
    },
    Mutant {
        name: "damaged-count-believed",
        breaks: Records,
        bug: "embedded: records go because a damaged count says that there are too many",
        edits: &[edit(
            "src/store/embedded/recovery.rs",
            "records::total(connection)?.min(most).max(0)",
            "records::total(connection)?.max(most)",
        )],
        caught_by: test(
            "embedded",
            "a_damaged_count_of_records_removes_none_of_them",
        ),
        masked_by: None,
    },
    Mutant {
        name: "outbox-not-told",
        breaks: Records,
        bug: "memory: nobody is told that there are new records",
        edits: &[edit(
            "src/store/memory.rs",
            "            self.recorded\n                .tell(|watcher| watcher.recorded(&Outbox::Store));\n",
            "",
        )],
        caught_by: contract("a_watcher_of_outboxes_is_told_of_every_record"),
        masked_by: None,
    },
    Mutant {
        name: "trace-and-payload-not-told",
        breaks: Records,
        bug: "embedded: records go without what only the envelope knows",
        edits: &[edit(
            "src/store/embedded/commit.rs",
            "            Some(row) => self.envelope(row)?,\n",
            "            Some(row) => self.envelope(row)?.filter(|_| false),\n",
        )],
        caught_by: contract("records_tell_the_payload_of_their_time"),
        masked_by: None,
    },
    Mutant {
        name: "redis-trims-one-too-many",
        breaks: Records,
        bug: "Redis: a trim lets go of the first record that is not in the journal as well",
        edits: &[edit(
            "src/store/redis/lua/trim.lua",
            "\"MINID\", \"=\", oldest)",
            "\"MINID\", \"=\", oldest + 1)",
        )],
        caught_by: test(
            "redis_store",
            "what_is_trimmed_is_read_no_more_and_what_is_not_stays",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-trims-what-was-lost-and-given-again",
        breaks: Records,
        bug: "Redis: a trim after a failover lets go of records that have the numbers of lost ones",
        edits: &[edit(
            "src/store/redis/lua/trim.lua",
            "  if not same then\n",
            "  if false then\n",
        )],
        caught_by: test(
            "redis_store",
            "a_trim_does_not_let_go_of_records_that_got_the_numbers_of_lost_ones",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-payload-kept-unasked",
        breaks: Records,
        bug: "Redis: records keep the payload of an event that has a trace and asks for nothing",
        edits: &[edit(
            "src/store/redis/lua/body.lua",
            "if said % 2 == 1 and payload_len",
            "if payload_len",
        )],
        caught_by: test(
            "redis_store",
            "records_keep_a_payload_where_it_is_asked_for_and_short_enough",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-by-whom-not-recorded",
        breaks: Records,
        bug: "Redis: records of what was done by hand do not say by whom",
        edits: &[edit(
            "src/store/redis/lua/body.lua",
            "  if by then\n",
            "  if false then\n",
        )],
        caught_by: test(
            "redis_store",
            "records_keep_a_payload_where_it_is_asked_for_and_short_enough",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-cancel-not-told",
        breaks: Records,
        bug: "Redis: nobody is told that a cancel has left a record",
        edits: &[edit(
            "src/store/redis/decode.rs",
            "has_recorded = !matches!(cancelled, Cancelled::NotFound | Cancelled::TooLate(_));",
            "",
        )],
        caught_by: test(
            "redis_store",
            "watchers_are_told_of_what_wrote_records_and_of_nothing_else",
        ),
        masked_by: None,
    },
];
