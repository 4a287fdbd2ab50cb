use super::{delivery, drop, explain, lib, never, put, redis_store, store_contract};
use crate::mutant::{
    Mutant,
    Promise::{Controls, Explained},
};

pub(crate) const MUTANTS: &[Mutant] = &[
    Controls.bug(
        "rate-ignored",
        "the rate of a queue reaches nobody",
        &[put(
            "Consumers::steer",
            "rate: $control.rate «»",
            ".filter(|_| false)",
        )],
        delivery("a_rate_is_kept_in_every_second"),
    ),
    Controls.bug(
        "rate-not-shared",
        "each node starts as many events as all together may",
        &[put(
            "Rate::share_among",
            "«» / self.per_second",
            "* 0.0 + 1.0",
        )],
        delivery("a_rate_is_shared_by_all_nodes"),
    ),
    Controls.bug(
        "pause-ignored",
        "a paused queue goes on starting events",
        &[put(
            "Consumers::steer",
            "mut $course $... paused { «0» }",
            "$course.chosen",
        )],
        delivery("a_paused_queue_starts_nothing_until_it_is_resumed"),
    ),
    Controls.bug(
        "ring-kept-without-room",
        "what waits in the ring of a node stays there under a pause or a new rate",
        &[never("Node::hand_back_excess", "outstanding")],
        delivery("a_paused_queue_holds_nothing_but_what_runs"),
    ),
    Controls.bug(
        "given-back-to-a-pause",
        "what a worker gives back to a paused ring stays there",
        &[never("Shared::withdraw_if_paused", "limit")],
        lib("what_a_worker_gives_back_to_a_paused_pool_leaves_it"),
    ),
    Controls.bug(
        "setting-not-kept",
        "embedded: what was set of a queue is forgotten by an open",
        &[put(
            "EmbeddedStore::open_with",
            "$controls«»), cache",
            ".into_iter().take(0).collect()",
        )],
        store_contract("what_is_set_is_kept_over_a_new_opening"),
    ),
    Controls.bug(
        "late-of-the-queue-ignored",
        "what a queue says of late events is not said of those that are pushed",
        &[put(
            "QueueHandle::build",
            "unwrap_or(self.options.late)",
            "unwrap_or_default()",
        )],
        delivery("what_the_queue_says_of_late_events_goes_for_those_that_say_nothing"),
    ),
    Controls.bug(
        "spread-by-chance",
        "the part of a spread is another at each push of one id",
        &[put(
            "spread_part",
            "to_le_bytes())«»",
            ".wrapping_mul(fastrand::u64(..))",
        )],
        delivery("an_id_that_is_pushed_again_is_due_at_the_same_time"),
    ),
    Explained.bug(
        "spread-not-explained",
        "an explanation does not look whether an event was spread",
        &[put("not_due", "spread($found) «»", ".filter(|_| false)")],
        explain("an_event_that_was_spread_says_by_how_much"),
    ),
    Controls.bug(
        "newcomer-starts-at-once",
        "a node that comes starts its part of a rate before the others have given it up",
        &[put(
            "Node::members_seen",
            "$now: Mono $... «was_away»",
            "was_away && $now == Mono::default()",
        )],
        delivery("a_node_that_comes_starts_nothing_until_the_others_know"),
    ),
    Controls.bug(
        "lost-time-is-lost",
        "a node that comes late makes up for nothing",
        &[put("Rate::from", "OWED", "BURST")],
        lib("who_comes_late_again_and_again_makes_up_for_it_and_no_second_has_too_many"),
    ),
    Controls.bug(
        "registry-versions-repeat",
        "Redis: a version comes again after a failover that lost the last writes",
        &[put("registry::token", "fastrand::u64(1..)", "1_u64")],
        redis_store("a_version_never_comes_again_after_the_last_writes_were_lost"),
    ),
    Controls.bug(
        "registry-tail-not-written-again",
        "Redis: buckets that a failover took from the registry stay out of it",
        &[never("registry::up_to_date", "is_empty")],
        redis_store("what_a_failover_took_from_the_registry_is_read_anew_and_written_again"),
    ),
    Controls.bug(
        "queue-of-another-program-unknown",
        "what other programs consume is not known, and taken for a slip",
        &[put(
            "Flow::is_consumed",
            "$membership.is_some_and(|$membership| $membership.is_consumed($queue))",
            "$membership.is_some_and(|_| false)",
        )],
        delivery("a_queue_of_another_program_is_no_slip"),
    ),
    Controls.bug(
        "slip-in-a-question-for-records",
        "records of a queue whose name is misspelled are none, and that is no error",
        &[put("Records::read", "«» $page.items", "!")],
        delivery("an_operator_who_misspells_a_queue_is_told_which_was_meant"),
    ),
    Controls.bug(
        "check-believes-one-look-at-the-list",
        "the check of a store takes every ready event for one that is not in the ready list",
        &[drop("Check::remove_listed", "remove($entry)")],
        redis_store("nothing_is_found_on_a_healthy_store_under_load"),
    ),
    Controls.bug(
        "check-removes-a-body-without-a-place",
        "a repair of a store removes a body that no structure leads to",
        &[put(
            "check.body",
            "restore($id, body)",
            r#"call("HDEL", BODY, $id)"#,
        )],
        redis_store("a_body_without_a_place_is_put_back"),
    ),
    Controls.bug(
        "check-hands-a-lost-lease-back",
        "a repair of a store takes a lease back as if its handler had never started",
        &[put("check.lease", "$own, «false»", "true")],
        redis_store("a_lease_that_nobody_holds_is_taken_back"),
    ),
    Controls.bug(
        "check-overlooks-tombstones",
        "Redis: a check looks at no tombstone, and one of a living event forgets it",
        &[put("check.counts", "«$over» then check", "false")],
        redis_store("each_event_that_has_ended_has_one_tombstone"),
    ),
    Controls.bug(
        "check-opens-a-page-that-contradicts-itself",
        "Redis: a repair takes the parts of a page for right, whatever they contradict",
        &[put("check.page", "«check.contradicts($page)» then", "false")],
        redis_store("no_payload_of_a_page_is_lost_whatever_byte_of_its_parts_is_damaged"),
    ),
    Controls.bug(
        "check-registers-nothing",
        "Redis: a repair says that a bucket was registered, and leaves it unknown",
        &[put(
            "unregistered::find",
            "part(try_join_all($each), $at > 0).await?",
            "drop($each)",
        )],
        redis_store("a_bucket_that_the_registry_does_not_know_is_registered"),
    ),
    Controls.bug(
        "check-overlooks-unique-keys",
        "Redis: a check does not see that an event has lost its unique key",
        &[put(
            "check.body",
            r#"«call("HEXISTS", UNIQUE, $unique) == 0» and $tell("#,
            "false",
        )],
        redis_store("a_lost_unique_key_is_found_wherever_its_event_is"),
    ),
    Controls.bug(
        "check-overlooks-expiries",
        "Redis: a check does not see that nothing says when an event expires",
        &[put(
            "check.body",
            r#"«not call("ZSCORE", EXPIRY, $id)» and $tell("#,
            "false",
        )],
        redis_store("what_can_expire_is_looked_at_again"),
    ),
    Controls.bug(
        "a-taken-key-of-a-running-event-is-damage",
        "Redis: a running event whose unique key another one took has no note of it",
        &[drop("replace_one", "keyless = true")],
        redis_store("an_event_that_lost_its_key_to_another_is_no_damage"),
    ),
    Controls.bug(
        "the-note-of-a-taken-key-is-not-kept",
        "Redis: that an event has lost its unique key to another is not in its state",
        &[put("write_state", "$it.keyless and «128»", "0")],
        redis_store("an_event_that_lost_its_key_to_another_is_no_damage"),
    ),
    Controls.bug(
        "list-repeats-its-last-event",
        "each page of a list of events begins with the last event of the page before",
        &[put("Earliest::offer", "$place «<=» *$last", "<")],
        delivery("a_list_is_complete_and_in_the_order_of_due_times"),
    ),
    Controls.bug(
        "list-of-a-part-is-whole",
        "a list whose scan ended early is taken for the whole one",
        &[put("Events::list", "= «$rest.is_some()»", "false")],
        delivery("a_scan_that_ends_early_says_so_and_goes_on"),
    ),
    Controls.bug(
        "audit-without-bound",
        "no line of the audit goes",
        &[put(
            "Bus::trim_audit",
            "$stats.scheduled <= «$most» + LINES_OVER",
            "usize::MAX / 2",
        )],
        delivery("the_audit_is_bounded_and_the_oldest_lines_go"),
    ),
    Controls.bug(
        "audit-of-all-in-one",
        "a busy namespace pushes the lines of others out of the audit",
        &[put(
            "Trail::queue",
            "return «$trail»",
            "AUDIT.to_owned()",
        )],
        delivery("the_audit_is_bounded_and_the_oldest_lines_go"),
    ),
    Controls.bug(
        "audit-of-programs-and-people",
        "what programs do pushes what people did out of the audit",
        &[put(
            "Bus::add_own_line",
            "self.add_line(«Trail::Programs», $line)",
            "Trail::People",
        )],
        delivery("what_programs_do_is_bounded_and_pushes_no_line_of_a_person_out"),
    ),
    Controls.bug(
        "audit-of-one-program-alone",
        "a pause that undoes what another program did is taken for a repetition",
        &[put(
            "Bus::set",
            "$changes = «$control.is_ok_and($..)»;",
            "true",
        )],
        delivery("what_one_program_does_after_another_has_a_line"),
    ),
    Controls.bug(
        "audit-without-what-is-in-doubt",
        "an action that was done and whose reply is lost has no line",
        &[put(
            "program_audit::is_done",
            "$error.kind() == ErrorKind::Unknown",
            "{ let _ = $error; false }",
        )],
        delivery("an_action_that_is_done_has_a_line_whichever_of_its_calls_fails"),
    ),
    Controls.bug(
        "audit-line-twice",
        "a line that is on its way when nobody waits for it any more is written again",
        &[put(
            "program_audit::written",
            "Arc::clone($inner); $... while «$next().await» {}",
            "write_first($inner).await",
        )],
        delivery("a_line_whose_reply_is_late_is_there_once_whoever_waits_for_it"),
    ),
    Controls.bug(
        "audit-by-the-bus-for-queues",
        "what is done by a queue has a line of the bus, though its caller adds one",
        &[put(
            "Queue::events",
            "self.audited_by",
            "AuditedBy::Bus",
        )],
        delivery("who_adds_the_lines_does_so_for_whatever_the_handle_returns"),
    ),
    Controls.bug(
        "declared-rate-ignored",
        "a rate that is declared reaches nobody",
        &[put(
            "RuntimeSettings::in_force",
            "rate: «$set.rate.or_else($..)»",
            "$set.rate",
        )],
        delivery("a_declared_rate_holds_from_the_first_start"),
    ),
    Controls.bug(
        "declared-rate-wins",
        "a rate that is declared takes precedence over what an operator sets",
        &[put(
            "RuntimeSettings::in_force",
            "rate: «$set.rate.or_else(|| self.declared.of($queue))»",
            "self.declared.of($queue).or($set.rate)",
        )],
        delivery("what_is_set_wins_over_what_is_declared_and_over_a_deploy"),
    ),
    Controls.bug(
        "erase-what-waits",
        "a person is erased although events of theirs wait",
        &[put("Erasure::look", "match «$waiting»", "0")],
        delivery("what_waits_is_not_erased_unasked"),
    ),
    Controls.bug(
        "erase-among-others",
        "events of another namespace with the same key are erased, too, or hide those that are meant",
        &[put(
            "Erasure::queues",
            "$queues.retain(|$queue| «self.selects($queue)»)",
            "true",
        )],
        delivery("many_of_another_namespace_hide_none_and_are_not_shown"),
    ),
    Controls.bug(
        "erase-other-queues",
        "a person is erased in queues that were not chosen",
        &[put(
            "Erasure::selects",
            "self.queues.contains($queue)«»",
            "|| true",
        )],
        delivery("other_keys_and_other_queues_keep_theirs"),
    ),
    Controls.bug(
        "bulk-without-end",
        "a change of many events takes what is pushed meanwhile",
        &[put(
            "EventFilter::matches",
            "«self.pushed_until.is_none_or($..)»",
            "true",
        )],
        delivery("what_is_pushed_meanwhile_is_left_alone"),
    ),
    Controls.bug(
        "replay-of-what-goes-on",
        "a replay pushes events that have not ended",
        &[put("Replay::push", "$record.is_final() «»", "|| true")],
        delivery("what_has_not_ended_is_passed_over"),
    ),
    Controls.bug(
        "replay-under-any-id",
        "a replay that is repeated pushes everything again",
        &[put(
            "Replay::push_one",
            "«EventId::for_name(&$record.queue, &$name)»",
            "EventId::random(self.inner.now(), crate::event::BucketId(0))",
        )],
        delivery("a_repeated_replay_pushes_nothing_again"),
    ),
];
