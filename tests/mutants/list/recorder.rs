use super::{edit, test};
use crate::mutant::{Mutant, Promise::Records};

const CARRY: &str = "src/journal/recorder/carry.rs";

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "recorder-trims-before-load",
        breaks: Records,
        bug: "records are trimmed from their outbox before the journal has them",
        edits: &[edit(
            CARRY,
            "        if many > 0 {\n            self.load(",
            "        for (outbox, last, _, _) in &trims {\n            let trimmed = self.store.trim_outbox(outbox, *last);\n            trimmed.await.map_err(Trouble::Store)?;\n        }\n        if many > 0 {\n            self.load(",
        )],
        caught_by: test(
            "records",
            "a_record_leaves_the_outbox_only_when_it_is_in_the_journal",
        ),
        masked_by: None,
    },
    Mutant {
        name: "recorder-looks-not-at-start",
        breaks: Records,
        bug: "the recorder carries only what it hears of",
        edits: &[edit(
            CARRY,
            "let mut look_at = Instant::now();",
            "let mut look_at = Instant::now() + every;",
        )],
        caught_by: test(
            "records",
            "what_a_bus_left_behind_is_recorded_by_the_next_at_its_start",
        ),
        masked_by: None,
    },
    Mutant {
        name: "recorder-forgets-what-failed",
        breaks: Records,
        bug: "outboxes whose load has failed are forgotten until they are heard of",
        edits: &[edit(
            CARRY,
            "                    behind.extend(some.into_iter().map(|(outbox, _)| (outbox, 0)));\n",
            "                    drop(some);\n",
        )],
        caught_by: test(
            "records",
            "a_journal_that_fails_costs_no_record_and_no_handler_waits",
        ),
        masked_by: None,
    },
    Mutant {
        name: "recorder-loses-a-wake-up",
        breaks: Records,
        bug: "what is heard of while something is loaded is taken for carried",
        edits: &[edit(
            CARRY,
            "        failed.map_or(Ok(()), Err)\n",
            "        self.news.take();\n        failed.map_or(Ok(()), Err)\n",
        )],
        caught_by: test(
            "records",
            "what_is_written_during_a_load_is_carried_by_the_next",
        ),
        masked_by: None,
    },
    Mutant {
        name: "recorder-stops-without-a-flush",
        breaks: Records,
        bug: "the recorder ends at once when the bus stops",
        edits: &[edit(
            CARRY,
            "            let is_last = stop.is_cancelled();\n",
            "            let is_last = stop.is_cancelled();\n            if is_last {\n                return;\n            }\n",
        )],
        caught_by: test("records", "a_stop_records_what_is_left"),
        masked_by: None,
    },
    Mutant {
        name: "recorder-drops-unseen",
        breaks: Records,
        bug: "records that a full outbox has let go of are not counted",
        edits: &[edit(
            CARRY,
            "if self.has_let_go(page) {",
            "if self.has_let_go(page) && outbox.to_string().is_empty() {",
        )],
        caught_by: test(
            "records",
            "the_oldest_are_dropped_and_that_is_logged_and_counted",
        ),
        masked_by: None,
    },
    Mutant {
        name: "recorder-takes-carried-for-dropped",
        breaks: Records,
        bug: "what another node has carried counts as dropped",
        edits: &[edit(
            CARRY,
            "!self.store.is_shared() || self",
            "self.store.is_shared() || !self.store.is_shared() || self",
        )],
        caught_by: test("records", "two_buses_on_one_store_record_each_attempt_once"),
        masked_by: None,
    },
    Mutant {
        name: "recorder-deaf-to-deaths",
        breaks: Records,
        bug: "nobody looks for what a node left that died until the next look at everything",
        edits: &[edit(
            "src/flow/mover.rs",
            "Action::MemberLost => self.member_lost.notify_one(),",
            "Action::MemberLost => {}",
        )],
        caught_by: test(
            "records",
            "what_a_dead_node_left_in_a_quiet_bucket_is_recorded_within_seconds",
        ),
        masked_by: None,
    },
    Mutant {
        name: "journal-away-unsaid",
        breaks: Records,
        bug: "a page leaves out what the journal holds while it does not answer",
        edits: &[edit(
            "src/journal/reading.rs",
            "of_journal(async { journal.page(query.clone()).await }).await?",
            "of_journal(async { journal.page(query.clone()).await }).await.unwrap_or_default()",
        )],
        caught_by: test(
            "records",
            "a_question_is_refused_while_the_journal_is_away_and_says_what_can_be_read",
        ),
        masked_by: None,
    },
    Mutant {
        name: "recorder-forgets-what-was-not-begun",
        breaks: Records,
        bug: "outboxes whose turn had not come when a load failed are forgotten",
        edits: &[edit(
            CARRY,
            "self.behind.extend(behind.into_iter().chain(left));",
            "self.behind.extend(behind);",
        )],
        caught_by: test(
            "records",
            "a_long_wait_is_made_up_for_by_two_loads_at_a_time",
        ),
        masked_by: None,
    },
    Mutant {
        name: "recorder-lanes-in-step",
        breaks: Records,
        bug: "a lane waits for the load of the other before it goes on",
        edits: &[edit(
            CARRY,
            "Ok(left) if again > 0 &&",
            "Ok(left) if false && again > 0 &&",
        )],
        caught_by: test(
            "records",
            "a_load_that_takes_its_time_does_not_hold_up_the_other_lane",
        ),
        masked_by: None,
    },
    Mutant {
        name: "outboxes-limited-late",
        breaks: Records,
        bug: "the recorder begins before outboxes are limited as the settings say",
        edits: &[
            edit(
                "src/bus/journal.rs",
                "    store.limit_outboxes(limit)?;\n    let recorder = Recorder::start(Setup {\n",
                "    let recorder = Recorder::start(Setup {\n",
            ),
            edit(
                "src/bus/journal.rs",
                "    Ok(Some(JournalRecorder {\n",
                "    tokio::task::yield_now().await;\n    tokio::task::yield_now().await;\n    \
                 store.limit_outboxes(limit)?;\n    Ok(Some(JournalRecorder {\n",
            ),
        ],
        caught_by: test(
            "records",
            "the_limit_of_outboxes_holds_before_anything_is_recorded",
        ),
        masked_by: None,
    },
];
