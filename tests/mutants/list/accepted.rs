use super::{
    always, delivery, drop, earlier, embedded, later, never, power, put, put_in_text, redis_store,
    store_contract,
};
use crate::mutant::{Mutant, Promise::Accepted, Test};

const fn power_cut() -> Test {
    power("what_was_answered_survives_any_power_cut_and_what_was_not_is_never_half")
}

pub(crate) const MUTANTS: &[Mutant] = &[
    Accepted.bug(
        "redis-moved-before-published",
        "Redis: the move script says that events have moved before they are in the publish list",
        &[earlier(
            "write_moved",
            r#"write_all("HSET", STATE"#,
            r#"write_all("RPUSH""#,
        )],
        redis_store("a_script_that_fails_after_any_of_its_writes_is_repeated"),
    ),
    Accepted.bug(
        "redis-unlisted-before-leased",
        "Redis: the fetch script takes events out of the publish list before they are leased",
        &[later("fetch.lua", "commit()", "leave(")],
        redis_store("held"),
    ),
    Accepted.bug(
        "redis-page-leased-without-a-look",
        "Redis: a part of a page is leased for as long as the heartbeat lasts, though a \
         deadline was asked for",
        &[put("give_part", r#"«$deadline and "L\2\0\1" or» "L""#, "")],
        redis_store("leases_with_deadlines_are_given_to_events_alone"),
    ),
    Accepted.bug(
        "redis-body-goes-with-the-first",
        "Redis: an event that leaves its page takes the body of the others with it",
        &[put("open_part", "$bodies[$i] if $body «»", "and $i == 1")],
        redis_store("scheduled_events_are_alone_from_the_first_that_is_changed"),
    ),
    Accepted.bug(
        "redis-ack-counted-twice",
        "Redis: an ack that is repeated ends its event again",
        &[put(
            "settle_acks",
            "$settled = $me . $... «is_under($state, $token)»",
            "(is_under($state, $token) or is_settled($state, $settled))",
        )],
        redis_store("an_ack_that_is_repeated_ends_nothing_else"),
    ),
    Accepted.bug(
        "push-answered-before-the-commit",
        "embedded: a push is answered before it is on disk",
        &[put(
            "Shared::decide",
            "$op.waits()«»",
            "&& !matches!(op, StoreOp::Push(_))",
        )],
        embedded("whatever_was_answered_survives_kill_9"),
    ),
    Accepted.bug(
        "commit-not-synced",
        "embedded: a commit is answered before it is synced, as with `synchronous = NORMAL`",
        &[put_in_text("embedded::configure", "«FULL»", "NORMAL")],
        power_cut(),
    ),
    Accepted.bug(
        "way-to-the-file-not-synced",
        "embedded: the folders above the one that was made for the file are not synced",
        &[put("Paths::claim_data", "sync_way", "sync_directory")],
        power_cut(),
    ),
    Accepted.bug(
        "repeated-fetch-is-a-new-one",
        "a fetch whose answer was lost leases another batch when it is repeated",
        &[put(
            "Bucket::is_new_request",
            "$node.last_request.is_none_or(|$last| $fetch.request > $last)",
            "true",
        )],
        store_contract("a_repeated_fetch_answers_the_same_batch"),
    ),
    Accepted.bug(
        "redis-repeated-fetch-is-a-new-one",
        "Redis: the fetch script does not look at the number of a request",
        &[never("fetch.lua", "$node.last")],
        store_contract("a_repeated_fetch_answers_the_same_batch"),
    ),
    Accepted.bug(
        "lost-fetch-forgotten",
        "a node does not repeat a fetch whose answer was lost",
        &[put(
            "Node::handle_reply",
            "let $queue = &mut self.queues $... CallKind::Fetch { .. } => \
             $state.«is_polling = false»",
            "fetch_over($queue)",
        )],
        delivery("answers_that_are_lost_change_nothing"),
    ),
    Accepted.bug(
        "expiry-ignored",
        "an event that has expired is leased all the same",
        &[never("StaleReason::at", "$expires.is_some_and")],
        store_contract("an_expired_event_is_set_aside_with_a_record"),
    ),
    Accepted.bug(
        "expiry-in-the-ring-ignored",
        "an event that expires while it waits in the ring is handled all the same",
        &[put(
            "Executor::check_in",
            "= $stale($job, $started_us)«»",
            ".filter(|_| false)",
        )],
        delivery("an_event_expires_also_in_the_ring"),
    ),
    Accepted.bug(
        "lateness-in-the-ring-ignored",
        "an event that becomes too late for its policy in the ring is handled all the same",
        &[put(
            "deps::stale",
            "(«*$late», $job.delivery.due)",
            "Default::default()",
        )],
        delivery("an_event_is_too_late_also_in_the_ring"),
    ),
    Accepted.bug(
        "redis-no-wait-for-the-replicas",
        "Redis: a push that was to reach replicas is answered without them",
        &[put(
            "confirmed::push_part",
            "«map(|()| $answer)», Err",
            "map_or(Ok($answer.clone()), |()| Ok($answer))",
        )],
        redis_store("a_push_that_no_replica_confirms_can_be_pushed_again"),
    ),
    Accepted.bug(
        "registry-away-refuses-pushes",
        "Redis: with the registry away every push to a bucket that is not registered yet is \
         refused",
        &[put(
            "writer::ensure",
            "«» $registry.is_configured",
            "false &&",
        )],
        redis_store("pushes_starts_and_nodes_go_on_while_the_server_of_the_registry_is_dead"),
    ),
    Accepted.bug(
        "redis-registered-unseen",
        "Redis: nodes see a bucket a minute late whose registration failed in its last write",
        &[drop("register.lua", "ARGV.token:reverse()")],
        redis_store("a_bucket_is_seen_whichever_write_of_its_registration_fails"),
    ),
    Accepted.bug(
        "redis-leaves-its-key",
        "Redis: of an event that had a key something is left for ever",
        &[drop("settle.lua", r#""ZREM", BY_KEY, $"#)],
        redis_store("no_shape_of_load_costs_much_more_than_plain_events"),
    ),
    Accepted.bug(
        "redis-moved-without-a-look",
        "Redis: what is left in the delay set by a call that failed is moved over a leased \
         event",
        &[always("move_alone", "place_of")],
        redis_store("what_is_due_and_does_not_wait_is_not_moved"),
    ),
    Accepted.bug(
        "redis-opened-page-loses-what-was-passed",
        "Redis: of a page that a fetch opens, events leave the delay set that a call which failed \
         had left there, and that were passed over",
        &[put(
            "take_due",
            "in ipairs(«$is_open and ids_in($member) or {}») do $stays",
            "{}",
        )],
        redis_store("a_page_that_is_opened_loses_no_event_to_what_calls_that_failed_have_left"),
    ),
    Accepted.bug(
        "redis-leased-before-it-is-counted",
        "Redis: a lease takes effect before its batch is known, so that a repeated fetch \
         leases others",
        &[drop("commit", "keep_node")],
        redis_store("a_script_that_fails_after_any_of_its_writes_is_repeated"),
    ),
    Accepted.bug(
        "expiry-noticed-by-fetches-alone",
        "what has expired counts, and holds its keys, until somebody fetches",
        &[put(
            "Entry::stale_from_us",
            "$more.expires.map(Timestamp::as_micros)",
            "None",
        )],
        store_contract("what_has_expired_is_not_counted"),
    ),
    Accepted.bug(
        "redis-expiry-noticed-by-fetches-alone",
        "Redis: what has expired counts, and holds its keys, until somebody fetches",
        &[drop("lua::push", "add_expiry")],
        store_contract("what_has_expired_is_not_counted"),
    ),
    Accepted.bug(
        "read-of-a-release-ends-events",
        "embedded: an operation whose changes are dropped ends what has expired",
        &[put(
            "Shared::decide",
            "$answer = $bucket.apply $... let mut $changes = $recorder.changes; «»",
            "let mut $changes = if $answer.is_err() { Changes::default() } else { $changes };",
        )],
        store_contract("what_has_expired_at_a_refused_operation_stays_over"),
    ),
];
