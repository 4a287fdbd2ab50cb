use super::{delivery, drop, embedded, journal, lib, never, outages, put, redis_store, syscalls};
use crate::mutant::{Mutant, Promise::Doubt};

pub(crate) const MUTANTS: &[Mutant] = &[
    Doubt.bug(
        "goes-on-after-an-io-error",
        "embedded: the store goes on after the first I/O error",
        &[
            put("Shared::stop", "self.stop.get_or_init", "&"),
            put("Shared::stop", "clone(&$stop))«»;", "()"),
            drop("Pending::abandon", "self.end(&mut $state)"),
        ],
        embedded("after_a_failed_commit_nothing_is_acknowledged_any_more"),
    ),
    Doubt.bug(
        "failed-commit-acknowledged",
        "embedded: what a commit could not write is acknowledged",
        &[put(
            "CommitResult::result",
            "$stop) => Err($stop.unknown",
            "_) => Ok(",
        )],
        embedded("after_a_failed_commit_nothing_is_acknowledged_any_more"),
    ),
    Doubt.bug(
        "checkpoint-error-ignored",
        "embedded: a checkpoint that fails is passed over",
        &[put(
            "Writer::checkpoint_from",
            r#"self.failed("a checkpoint failed", $failure)"#,
            "drop( $failure)",
        )],
        syscalls("after_any_call_that_fails_nothing_is_acknowledged_any_more"),
    ),
    Doubt.bug(
        "envelope-checksum-not-checked",
        "the checksum of an envelope is not compared",
        &[drop(
            "View::try_read",
            r#""is damaged: its checksum does not hold""#,
        )],
        embedded("no_flipped_bit_delivers_a_wrong_payload_or_loses_an_event_in_silence"),
    ),
    Doubt.bug(
        "failed-note-goes-on",
        "embedded: a start that cannot be noted does not stop the store",
        &[put("Shared::note_starts", "; «self.stop»", "drop")],
        syscalls("after_any_call_that_fails_nothing_is_acknowledged_any_more"),
    ),
    Doubt.bug(
        "start-without-a-thread-goes-on",
        "tasks of a bus that finds no thread for its mover keep its store",
        &[put(
            "Flow::start",
            "«$abandoned.clone()».drop_guard()",
            "stopped.clone()",
        )],
        embedded("a_bus_that_finds_no_thread_leaves_its_store"),
    ),
    Doubt.bug(
        "row-checksum-not-checked",
        "embedded: the checksum of a row is not compared at an open",
        &[never("Scan::read_event", "of_event")],
        embedded("no_flipped_bit_delivers_a_wrong_payload_or_loses_an_event_in_silence"),
    ),
    Doubt.bug(
        "tally-not-compared",
        "embedded: an open does not compare the events with their tally",
        &[drop("recover", "$scan.compare")],
        embedded("a_row_that_vanished_is_noticed"),
    ),
    Doubt.bug(
        "bucket-in-doubt-asked-again",
        "a node goes on asking a store that has stopped for ever",
        &[never("Node::handle_reply", "ErrorKind::Closed")],
        delivery("a_bucket_whose_store_has_stopped_is_left_alone_and_the_others_are_not"),
    ),
    Doubt.bug(
        "refused-bucket-left-alone",
        "one answer as of a call that can never succeed stops a bucket for ever",
        &[put(
            "Node::handle_reply",
            "$kind == ErrorKind::Closed",
            "matches!($kind, ErrorKind::Closed | ErrorKind::Invalid)",
        )],
        delivery("a_bucket_that_is_refused_is_asked_again_ever_more_rarely"),
    ),
    Doubt.bug(
        "redis-forgotten-script-not-given-again",
        "Redis: a script that the server has forgotten is not given to it again",
        &[never("ManagedConnection::run_either", "is_err_and")],
        lib("a_script_that_the_server_forgot_is_given_to_it_again"),
    ),
    Doubt.bug(
        "redis-function-keeps-pages",
        "Redis: what a function has read of pages is still known to its next call",
        &[put(
            "page.lua",
            "$pages, $changed_pages, $emptied = «{}», {}, {}",
            "$pages or {}",
        )],
        redis_store("events_that_are_pushed_after_others_of_their_page_were_leased_are_leased_too"),
    ),
    Doubt.bug(
        "redis-lost-function-not-given-again",
        "Redis: a server that has lost its functions never gets them again",
        &[put(
            "ManagedConnection::run_either",
            "$call.args_iter().next() == Some(FCALL)",
            "false",
        )],
        redis_store("functions_are_called_once_a_server_has_them_and_given_to_one_that_lost_them"),
    ),
    Doubt.bug(
        "lost-connection-taken-for-a-refusal",
        "Redis: a connection that is cut after the call was sent is taken for one that never \
         was",
        &[put("LiveConnection::judge", "«Sent»)", "Connecting")],
        lib("a_connection_that_is_cut_before_or_after_the_server_did_it_is_unknown"),
    ),
    Doubt.bug(
        "handler-started-without-its-note",
        "a handler starts although its start could not be noted",
        &[put(
            "Executor::check_in",
            "self.deps.hand_back_later($job); return None;",
            "",
        )],
        delivery("a_handler_whose_start_cannot_be_noted_does_not_start"),
    ),
    Doubt.bug(
        "record-sum-without-payload",
        "embedded: the checksum of a record leaves its payload out",
        &[put(
            "rows::sum",
            "«optional($record.payload.as_ref().map(Payload::as_bytes)).»digest",
            "",
        )],
        embedded("what_a_record_tells_is_covered_by_its_checksum"),
    ),
    Doubt.bug(
        "damaged-page-ends-the-outbox",
        "a page of damaged records alone is taken for the end of its outbox",
        &[put(
            "WaitingPages::next",
            "last <= $after",
            "records.is_empty()",
        )],
        redis_store("a_page_of_damaged_records_alone_hides_none_of_the_others"),
    ),
    Doubt.bug(
        "each-failed-call-logged",
        "a store that is away is logged at each call",
        &[never("Outage::note", "may_log")],
        lib("the_first_the_change_and_the_end_with_a_count_are_logged"),
    ),
    Doubt.bug(
        "unknown-error-taken-for-a-refusal",
        "Redis: an error that nobody knows says that nothing happened",
        &[put("coded", "«STRANGE»)", "REFUSED_HERE")],
        lib("every_answer_means_what_the_table_says"),
    ),
    Doubt.bug(
        "newer-is-damage",
        "Redis: what a newer version has written is taken for damage",
        &[put("is_newer", "«240» and (byte", "256")],
        redis_store("a_body_of_a_newer_form_is_left_to_its_duly_and_costs_no_attempt"),
    ),
    Doubt.bug(
        "outage-told-of-each-bucket",
        "a store that is away is logged once for each bucket",
        &[put(
            "Outage::note",
            "$error: &Error $... «$state.failing.insert($part, ($kind, $why));»",
            r#"if $state.failing.insert($part, ($kind, $why)).is_none() {
             tracing::warn!(what = self.what, %$error, "store outage"); }"#,
        )],
        outages("a_server_that_is_gone_is_told_of_in_a_bounded_number_of_lines"),
    ),
    Doubt.bug(
        "late-heartbeat-told-as-a-loss",
        "leases that were not renewed in time are logged as lost to another node",
        &[put(
            "Mover::act",
            "$is_certain «» { panics::reported(|| { tracing::warn!($bucket = %$bucket_key, $through",
            "|| $through > 0",
        )],
        outages("a_server_that_hangs_is_told_of_in_a_bounded_number_of_lines"),
    ),
    Doubt.bug(
        "hung-node-holds-up-the-slots",
        "Redis Cluster: the slots are asked of one node, and nobody else while it hangs",
        &[put("Cluster::read_slots", "HEDGE * $place«»", "* 100")],
        lib("a_node_that_hangs_holds_up_nobody_but_its_own_calls"),
    ),
    Doubt.bug(
        "operators-need-the-registry",
        "Redis Cluster: operators are not answered while the registry is away",
        &[put(
            "registry::read_if_there",
            "is_empty()",
            "len() < 1_000",
        )],
        redis_store("operators_are_answered_while_the_server_of_the_registry_is_dead"),
    ),
    Doubt.bug(
        "older-loads-into-a-newer-journal",
        "a journal's file that a newer version has upgraded is written by one that runs",
        &[put(
            "schema::begin",
            "$format «!= FORMAT»",
            "> FORMAT + 100",
        )],
        journal("a_file_that_a_newer_duly_has_upgraded_is_left_alone_by_an_older_one_that_runs"),
    ),
    Doubt.bug(
        "older-prunes-newer-tables",
        "PostgreSQL: tables that a newer version has upgraded are pruned by one that runs",
        &[put(
            "prune::step",
            "return Ok(Err($version))",
            "tracing::debug!($version)",
        )],
        journal("tables_that_a_newer_duly_has_upgraded_are_left_alone_by_an_older_one_that_runs"),
    ),
];
