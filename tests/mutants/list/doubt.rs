use super::{delivery, edit, test};
use crate::mutant::{Mutant, Promise::Doubt};

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "goes-on-after-an-io-error",
        breaks: Doubt,
        bug: "embedded: the store goes on after the first I/O error",
        edits: &[
            edit(
                "src/store/embedded/stop.rs",
                "        let first = self.stop.get_or_init(|| {",
                "        let first = &(|| {",
            ),
            edit(
                "src/store/embedded/stop.rs",
                "            stop\n        });\n",
                "            stop\n        })();\n",
            ),
            edit(
                "src/store/embedded/pending.rs",
                "            self.end(&mut state);\n",
                "",
            ),
        ],
        caught_by: test(
            "embedded",
            "after_a_failed_commit_nothing_is_acknowledged_any_more",
        ),
        masked_by: None,
    },
    Mutant {
        name: "failed-commit-acknowledged",
        breaks: Doubt,
        bug: "embedded: what a commit could not write is acknowledged",
        edits: &[edit(
            "src/store/embedded/gate.rs",
            "Self::Stopped(stop) => Err(stop.unknown()),",
            "Self::Stopped(_) => Ok(()),",
        )],
        caught_by: test(
            "embedded",
            "after_a_failed_commit_nothing_is_acknowledged_any_more",
        ),
        masked_by: None,
    },
    Mutant {
        name: "checkpoint-error-ignored",
        breaks: Doubt,
        bug: "embedded: a checkpoint that fails is passed over",
        edits: &[edit(
            "src/store/embedded/upkeep.rs",
            "            self.failed(\"a checkpoint failed\", failure);\n",
            "            drop(failure);\n",
        )],
        caught_by: test(
            "syscalls",
            "after_any_call_that_fails_nothing_is_acknowledged_any_more",
        ),
        masked_by: None,
    },
    Mutant {
        name: "envelope-checksum-not-checked",
        breaks: Doubt,
        bug: "the checksum of an envelope is not compared",
        edits: &[edit(
            "src/codec/body/view.rs",
            "            return Err(\"is damaged: its checksum does not hold\".into());\n",
            "",
        )],
        caught_by: test(
            "embedded",
            "no_flipped_bit_delivers_a_wrong_payload_or_loses_an_event_in_silence",
        ),
        masked_by: None,
    },
    Mutant {
        name: "failed-note-goes-on",
        breaks: Doubt,
        bug: "embedded: a start that cannot be noted does not stop the store",
        edits: &[edit(
            "src/store/embedded/mod.rs",
            "                self.shared.stop(stop);\n",
            "                drop(stop);\n",
        )],
        caught_by: test(
            "syscalls",
            "after_any_call_that_fails_nothing_is_acknowledged_any_more",
        ),
        masked_by: None,
    },
    Mutant {
        name: "row-checksum-not-checked",
        breaks: Doubt,
        bug: "embedded: the checksum of a row is not compared at an open",
        edits: &[edit(
            "src/store/embedded/recovery.rs",
            "if sums::of_event(row, due, tries, dead) != columns.sum {",
            "if false && sums::of_event(row, due, tries, dead) != columns.sum {",
        )],
        caught_by: test(
            "embedded",
            "no_flipped_bit_delivers_a_wrong_payload_or_loses_an_event_in_silence",
        ),
        masked_by: None,
    },
    Mutant {
        name: "tally-not-compared",
        breaks: Doubt,
        bug: "embedded: an open does not compare the events with their tally",
        edits: &[edit(
            "src/store/embedded/recovery.rs",
            "        scan.compare(tally);\n",
            "",
        )],
        caught_by: test("embedded", "a_row_that_vanished_is_noticed"),
        masked_by: None,
    },
    Mutant {
        name: "redis-body-checksum-not-checked",
        breaks: Doubt,
        bug: "Redis: the checksum of a body is not compared",
        edits: &[edit(
            "src/codec/body/view.rs",
            "            return Err(\"is damaged: its checksum does not hold\".into());\n",
            "",
        )],
        caught_by: test(
            "redis_store",
            "a_damaged_body_is_a_dead_letter_and_the_others_of_its_batch_are_delivered",
        ),
        masked_by: None,
    },
    Mutant {
        name: "bucket-in-doubt-asked-again",
        breaks: Doubt,
        bug: "a node goes on asking a store that has stopped for ever",
        edits: &[edit(
            "src/core/node/replies.rs",
            "if kind == ErrorKind::Closed {",
            "if false && kind == ErrorKind::Closed {",
        )],
        caught_by: delivery(
            "a_bucket_whose_store_has_stopped_is_left_alone_and_the_others_are_not",
        ),
        masked_by: None,
    },
    Mutant {
        name: "refused-bucket-left-alone",
        breaks: Doubt,
        bug: "one answer as of a call that can never succeed stops a bucket for ever",
        edits: &[edit(
            "src/core/node/replies.rs",
            "if kind == ErrorKind::Closed {",
            "if matches!(kind, ErrorKind::Closed | ErrorKind::Invalid) {",
        )],
        caught_by: delivery("a_bucket_that_is_refused_is_asked_again_ever_more_rarely"),
        masked_by: None,
    },
    Mutant {
        name: "redis-forgotten-script-not-given-again",
        breaks: Doubt,
        bug: "Redis: a script that the server has forgotten is not given to it again",
        edits: &[edit(
            "src/store/redis/link/managed/runs.rs",
            "if answer.as_ref().is_err_and(CallFailure::lacks_script) {",
            "if false && answer.as_ref().is_err_and(CallFailure::lacks_script) {",
        )],
        caught_by: test(
            "lib",
            "a_script_that_the_server_forgot_is_given_to_it_again",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-function-keeps-pages",
        breaks: Doubt,
        bug: "Redis: what a function has read of pages is still known to its next call",
        edits: &[edit(
            "src/store/redis/lua/page.lua",
            "pages, changed_pages, emptied = {}, {}, {}",
            "pages, changed_pages, emptied = pages or {}, {}, {}",
        )],
        caught_by: test(
            "redis_store",
            "events_that_are_pushed_after_others_of_their_page_were_leased_are_leased_too",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-lost-function-not-given-again",
        breaks: Doubt,
        bug: "Redis: a server that has lost its functions never gets them again",
        edits: &[edit(
            "src/store/redis/link/managed/runs.rs",
            "if let Some(library) = library.filter(|_| call.args_iter().next() == Some(FCALL)) {",
            "if let Some(library) = library.filter(|_| false) {",
        )],
        caught_by: test(
            "redis_store",
            "functions_are_called_once_a_server_has_them_and_given_to_one_that_lost_them",
        ),
        masked_by: None,
    },
    Mutant {
        name: "lost-connection-taken-for-a-refusal",
        breaks: Doubt,
        bug: "Redis: a connection that is cut after the call was sent is taken for one that never was",
        edits: &[edit(
            "src/store/redis/link/live_connection.rs",
            "let mut fault = fault::of(&cause, Stage::Sent);",
            "let mut fault = fault::of(&cause, Stage::Connecting);",
        )],
        caught_by: test(
            "lib",
            "a_connection_that_is_cut_before_or_after_the_server_did_it_is_unknown",
        ),
        masked_by: None,
    },
    Mutant {
        name: "handler-started-without-its-note",
        breaks: Doubt,
        bug: "a handler starts although its start could not be noted",
        edits: &[edit(
            "src/flow/handlers/executor.rs",
            "            self.deps.hand_back_later(job);\n            return None;\n",
            "",
        )],
        caught_by: delivery("a_handler_whose_start_cannot_be_noted_does_not_start"),
        masked_by: None,
    },
    Mutant {
        name: "record-sum-without-payload",
        breaks: Doubt,
        bug: "embedded: the checksum of a record leaves its payload out",
        edits: &[edit(
            "src/sqlite/records/rows.rs",
            "        .optional(record.payload.as_ref().map(Payload::as_bytes))\n",
            "",
        )],
        caught_by: test("embedded", "what_a_record_tells_is_covered_by_its_checksum"),
        masked_by: None,
    },
    Mutant {
        name: "damaged-page-ends-the-outbox",
        breaks: Doubt,
        bug: "a page of damaged records alone is taken for the end of its outbox",
        edits: &[edit(
            "src/journal/reading.rs",
            "if page.last <= after {",
            "if page.records.is_empty() {",
        )],
        caught_by: test(
            "redis_store",
            "a_page_of_damaged_records_alone_hides_none_of_the_others",
        ),
        masked_by: None,
    },
    Mutant {
        name: "each-failed-call-logged",
        breaks: Doubt,
        bug: "a store that is away is logged at each call",
        edits: &[edit(
            "src/outage.rs",
            "if state.logged.contains(&kind) || !state.may_log() {",
            "if false && (state.logged.contains(&kind) || !state.may_log()) {",
        )],
        caught_by: test(
            "lib",
            "the_first_the_change_and_the_end_with_a_count_are_logged",
        ),
        masked_by: None,
    },
    Mutant {
        name: "unknown-error-taken-for-a-refusal",
        breaks: Doubt,
        bug: "Redis: an error that nobody knows says that nothing happened",
        edits: &[edit(
            "src/store/redis/link/fault/mod.rs",
            "        None => ErrorClass::of(&table::STRANGE),\n    }\n}\n\n/// Classifies errors",
            "        None => ErrorClass::of(&table::REFUSED_HERE),\n    }\n}\n\n/// Errors",
        )],
        caught_by: test("lib", "every_answer_means_what_the_table_says"),
        masked_by: None,
    },
    Mutant {
        name: "newer-is-damage",
        breaks: Doubt,
        bug: "Redis: what a newer version has written is taken for damage",
        edits: &[edit(
            "src/store/redis/lua/body.lua",
            "  return (byte(body) or 0) >= 240 and",
            "  return (byte(body) or 0) >= 256 and",
        )],
        caught_by: test(
            "redis_store",
            "a_body_of_a_newer_form_is_left_to_its_duly_and_costs_no_attempt",
        ),
        masked_by: None,
    },
    Mutant {
        name: "outage-told-of-each-bucket",
        breaks: Doubt,
        bug: "a store that is away is logged once for each bucket",
        edits: &[edit(
            "src/outage.rs",
            "        state.failing.insert(part, (kind, error.to_string()));\n",
            "        if state.failing.insert(part, (kind, error.to_string())).is_none() {\n\
             \u{20}           tracing::warn!(what, %error, \"store outage\");\n        }\n",
        )],
        caught_by: test(
            "outages",
            "a_server_that_is_gone_is_told_of_in_a_bounded_number_of_lines",
        ),
        masked_by: None,
    },
    Mutant {
        name: "late-heartbeat-told-as-a-loss",
        breaks: Doubt,
        bug: "leases that were not renewed in time are logged as lost to another node",
        edits: &[edit(
            "src/flow/mover.rs",
            "                if is_certain {\n",
            "                if is_certain || through > 0 {\n",
        )],
        caught_by: test(
            "outages",
            "a_server_that_hangs_is_told_of_in_a_bounded_number_of_lines",
        ),
        masked_by: None,
    },
    Mutant {
        name: "hung-node-holds-up-the-slots",
        breaks: Doubt,
        bug: "Redis Cluster: the slots are asked of one node, and nobody else while it hangs",
        edits: &[edit(
            "src/store/redis/link/topology/cluster.rs",
            "sleep(HEDGE * place).await;",
            "sleep(HEDGE * place * 100).await;",
        )],
        caught_by: test("lib", "a_node_that_hangs_holds_up_nobody_but_its_own_calls"),
        masked_by: None,
    },
    Mutant {
        name: "operators-need-the-registry",
        breaks: Doubt,
        bug: "Redis Cluster: operators are not answered while the registry is away",
        edits: &[edit(
            "src/store/redis/registry.rs",
            "    if known.is_empty() {\n        return Err(away);",
            "    if known.len() < 1_000 {\n        return Err(away);",
        )],
        caught_by: test(
            "redis_store",
            "operators_are_answered_while_the_server_of_the_registry_is_dead",
        ),
        masked_by: None,
    },
    Mutant {
        name: "older-loads-into-a-newer-journal",
        breaks: Doubt,
        bug: "a journal's file that a newer version has upgraded is written by one that runs",
        edits: &[edit(
            "src/journal/sqlite/schema.rs",
            "    if format != FORMAT {\n        return Err(Error::corrupt(",
            "    if format > FORMAT + 100 {\n        return Err(Error::corrupt(",
        )],
        caught_by: test(
            "journal",
            "a_file_that_a_newer_duly_has_upgraded_is_left_alone_by_an_older_one_that_runs",
        ),
        masked_by: None,
    },
    Mutant {
        name: "older-prunes-newer-tables",
        breaks: Doubt,
        bug: "PostgreSQL: tables that a newer version has upgraded are pruned by one that runs",
        edits: &[edit(
            "src/journal/postgres/prune.rs",
            "        return Ok(Err(version));\n",
            "        tracing::debug!(version);\n",
        )],
        caught_by: test(
            "journal",
            "tables_that_a_newer_duly_has_upgraded_are_left_alone_by_an_older_one_that_runs",
        ),
        masked_by: None,
    },
];
