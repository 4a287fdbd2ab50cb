use super::{drop, never, put, records};
use crate::mutant::{Mutant, Promise::Records};

pub(crate) const MUTANTS: &[Mutant] = &[
    Records.bug(
        "recorder-trims-before-load",
        "records are trimmed from their outbox before the journal has them",
        &[put(
            "Carrier::carry",
            "$trims) = (Vec $... «» if $many > 0 { self.load",
            "for (outbox, last, ..) in &$trims { let trimmed = \
             self.store.trim_outbox(outbox, *last); \
             trimmed.await.map_err(Trouble::Store)?; }",
        )],
        records("a_record_leaves_the_outbox_only_when_it_is_in_the_journal"),
    ),
    Records.bug(
        "recorder-looks-not-at-start",
        "the recorder carries only what it hears of",
        &[put(
            "Carrier::new",
            "look_at: Instant::now()«»",
            "+ Duration::from_secs(600)",
        )],
        records("what_a_bus_left_behind_is_recorded_by_the_next_at_its_start"),
    ),
    Records.bug(
        "recorder-forgets-what-failed",
        "outboxes whose load has failed are forgotten until they are heard of",
        &[put(
            "Carrier::pass",
            "$behind.extend($some.into_iter().map(|($outbox, _)| ($outbox, 0)))",
            "drop($some)",
        )],
        records("a_journal_that_fails_costs_no_record_and_no_handler_waits"),
    ),
    Records.bug(
        "recorder-loses-a-wake-up",
        "what is heard of while something is loaded is taken for carried",
        &[put(
            "Carrier::pass",
            "«» $failed.or($unlisted)",
            "self.changed.take();",
        )],
        records("what_is_written_during_a_load_is_carried_by_the_next"),
    ),
    Records.bug(
        "recorder-stops-without-a-flush",
        "the recorder ends at once when the bus stops",
        &[put(
            "Carrier::run",
            "$is_last = $stop.is_cancelled(); «»",
            "if $is_last { return; }",
        )],
        records("a_stop_records_what_is_left"),
    ),
    Records.bug(
        "recorder-drops-unseen",
        "records that a full outbox has let go of are not counted",
        &[drop("Carrier::note", "dropped")],
        records("the_oldest_are_dropped_and_that_is_logged_and_counted"),
    ),
    Records.bug(
        "recorder-takes-carried-for-dropped",
        "what another node has carried counts as dropped",
        &[put(
            "Carrier::note",
            "$page.trimmed.max(*$known)",
            "*$known",
        )],
        records("two_buses_on_one_store_record_each_attempt_once"),
    ),
    Records.bug(
        "recorder-deaf-to-deaths",
        "nobody looks for what a node left that died until the next look at everything",
        &[put(
            "Mover::act",
            "«self.member_lost.notify_one(),» Action",
            "{}",
        )],
        records("what_a_dead_node_left_in_a_quiet_bucket_is_recorded_within_seconds"),
    ),
    Records.bug(
        "journal-away-unsaid",
        "a page leaves out what the journal holds while it does not answer",
        &[put(
            "reading::page",
            "await«?», None",
            ".unwrap_or_default()",
        )],
        records("a_question_is_refused_while_the_journal_is_away_and_says_what_can_be_read"),
    ),
    Records.bug(
        "recorder-forgets-what-was-not-begun",
        "outboxes whose turn had not come when a load failed are forgotten",
        &[put(
            "Carrier::pass",
            "$behind«.into_iter().chain($left)»",
            "",
        )],
        records("a_long_wait_is_made_up_for_by_two_loads_at_a_time"),
    ),
    Records.bug(
        "recorder-looks-into-all-at-once",
        "a busy outbox is not read until all others were looked into",
        &[put(
            "Carrier::take_next",
            "drain(..«LOOKS.min(self.unlooked.len())»)",
            "self.unlooked.len()",
        )],
        records("a_look_into_many_outboxes_holds_up_no_busy_one"),
    ),
    Records.bug(
        "recorder-lanes-in-step",
        "a lane waits for the load of the other before it goes on",
        &[never("Carrier::pass", "is_empty")],
        records("a_load_that_takes_its_time_does_not_hold_up_the_other_lane"),
    ),
    Records.bug(
        "outboxes-limited-late",
        "the recorder begins before outboxes are limited as the settings say",
        &[
            put(
                "journal::record",
                "«$store.limit_outboxes($limit)?;» let $recorder = Recorder::start",
                "",
            ),
            put(
                "journal::record",
                "$store.limit_outboxes($limit)?; let $recorder $... «» \
             Ok(Some(JournalRecorder",
                "tokio::task::yield_now().await; tokio::task::yield_now().await; \
             $store.limit_outboxes($limit)?;",
            ),
        ],
        records("the_limit_of_outboxes_holds_before_anything_is_recorded"),
    ),
];
