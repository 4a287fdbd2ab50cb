use super::{drop, later, lib, never, put, redis_store, store_contract};
use crate::mutant::{
    Mutant,
    Promise::{Accepted, Ids, LostWorkers, Metrics, NeverEarly, Punctual, Records},
};

pub(crate) const MUTANTS: &[Mutant] = &[
    Punctual.bug(
        "redis-idle-connection-not-probed",
        "Redis: a connection that nothing uses is not probed",
        &[put(
            "Health::takes_probe",
            "$is_quiet && self.blocking.load(Ordering::Relaxed) == 0",
            "false",
        )],
        lib("an_idle_connection_that_was_forgotten_is_replaced_before_it_is_used"),
    ),
    Punctual.bug(
        "redis-given-up-calls-count-as-nothing",
        "Redis: calls whose callers gave up do not count as unanswered",
        &[put(
            "CallGuard::drop",
            "$left «+ GIVEN_UP <= self.health.timeout && self.health.unanswered()»",
            "> self.health.timeout",
        )],
        lib("callers_that_give_up_cost_a_connection_that_is_silent_and_no_other"),
    ),
    Accepted.bug(
        "redis-cluster-keeps-a-connection-without-login",
        "Redis: a cluster keeps using a connection that is not logged in any more",
        &[put("Node::answered", "is_for_ever(&$cause) «»", "&& false")],
        lib("a_connection_that_is_not_logged_in_any_more_is_made_again_also_in_a_cluster"),
    ),
    Accepted.bug(
        "redis-forgotten-call-waits",
        "Redis: a call that the package has forgotten does not end with its connection",
        &[drop("Health::end", "notify_waiters")],
        lib("a_call_that_its_connection_has_forgotten_ends_with_it"),
    ),
    Accepted.bug(
        "redis-start-does-not-wait-for-loading",
        "Redis: a start fails while the server loads its data",
        &[put(
            "patience",
            r#"LOADING_MAX, "the server is still loading its data""#,
            r#"Duration::ZERO, """#,
        )],
        redis_store("a_start_while_the_server_loads_waits_until_it_has_loaded"),
    ),
    NeverEarly.bug(
        "redis-glitch-of-the-server-believed",
        "Redis: a script believes its server's clock whatever the caller knows",
        &[put("bucket.lua", "$now and -$now", "false")],
        redis_store(
            "a_clock_that_steps_for_a_moment_makes_nothing_early_or_late_and_holds_no_bucket",
        ),
    ),
    Punctual.bug(
        "redis-bucket-held-by-a-clock-that-was-ahead",
        "Redis: a bucket that was first used while the clock was ahead keeps that time",
        &[put(
            "time_of",
            "STEP then $last_now = «$expected» end",
            "$last_now",
        )],
        redis_store(
            "a_bucket_that_was_first_used_while_the_clock_was_ahead_goes_on_after_it_was_set_back",
        ),
    ),
    Punctual.bug(
        "redis-set-clock-never-believed",
        "Redis: a server's clock that was set is never believed again",
        &[never("time_of", "$doubt >= STANDS")],
        redis_store("a_clock_that_was_set_is_believed_when_it_has_stood"),
    ),
    Punctual.bug(
        "redis-set-clock-never-believed-by-rare-calls",
        "Redis: a bucket that is called every eleven seconds never believes a clock that was set",
        &[never("Shared::learn", "!$is_doubted.swap")],
        redis_store("a_bucket_that_is_called_rarely_follows_a_clock_that_was_set"),
    ),
    Ids.bug(
        "id-to-come-forgotten-first",
        "an id whose time is still to come is forgotten like others, and may come again",
        &[put(
            "DedupState::is_to_come",
            "«» is_later($id, $now_us) && !is_ahead",
            "false &&",
        )],
        store_contract("an_id_that_was_made_ahead_closes_no_busy_bucket"),
    ),
    Ids.bug(
        "redis-id-to-come-forgotten-first",
        "Redis: an id whose time is still to come is forgotten like others, and may come again",
        &[never("lua::forget", "now_ms")],
        store_contract("an_id_that_was_made_ahead_closes_no_busy_bucket"),
    ),
    Ids.bug(
        "id-forgotten-ahead-not-noted",
        "an id that is forgotten before its time is new again while it is still to come",
        &[drop("DedupState::forget", "forget_ahead")],
        store_contract("many_ids_that_were_made_ahead_close_no_bucket"),
    ),
    Ids.bug(
        "redis-id-forgotten-ahead-not-noted",
        "Redis: an id that is forgotten before its time is new again while it is still to come",
        &[never("raise_forgotten", "$last_ahead > 0")],
        store_contract("many_ids_that_were_made_ahead_close_no_bucket"),
    ),
    Ids.bug(
        "watermark-of-all-later-than-now",
        "embedded: what buckets that go had forgotten closes every other one until a time to come",
        &[put("TombstoneRows::unused", "«$until.min($before_now)»", "$until")],
        lib("no_watermark_of_every_bucket_is_later_than_now"),
    ),
    Ids.bug(
        "redis-watermark-of-the-first-of-a-batch",
        "Redis: the watermark of forgotten ids is taken from the first id of a batch",
        &[put(
            "raise_forgotten",
            "if «$made ~= $last» then",
            "not $last",
        )],
        store_contract("all_that_one_operation_forgets_is_too_old"),
    ),
    Punctual.bug(
        "redis-cancelled-ready-entries-stay",
        "Redis: entries of cancelled events stay in the ready list",
        &[drop("cancel_one", "drop_stale")],
        redis_store("the_next_event_waits_for_one_fetch_whatever_was_cancelled_before"),
    ),
    Punctual.bug(
        "redis-stale-entries-stay-in-the-middle",
        "Redis: stale entries between live ones stay in the ready list",
        &[never("drop_stale", "meta.gap_to > 0")],
        redis_store("the_next_event_waits_for_one_fetch_whatever_was_cancelled_before"),
    ),
    Accepted.bug(
        "redis-gap-overwrites-what-it-has-not-read",
        "Redis: entries are moved into a gap of the ready list that is none any more",
        &[
            put("move_live", "if «$[$i]» then meta.gap_from", "false"),
            drop("leave", "move_gap"),
        ],
        redis_store("live_events_stay_in_order_while_others_are_cancelled_fetched_and_handed_back"),
    ),
    Records.bug(
        "redis-expired-at-a-push-is-not-told",
        "Redis: what has expired and is ended by a push or a cancellation is not counted",
        &[drop("end_if_expired", "meta.expired = meta.expired + 1")],
        store_contract("every_event_that_expires_is_told_once_whatever_ends_it"),
    ),
    Punctual.bug(
        "redis-first-call-on-a-forgotten-connection-waits",
        "Redis: a call on a connection that was forgotten on the way waits its whole time",
        &[put("ManagedConnection::run_either", "«self.watched(&$live, $asking)».await", "$asking")],
        redis_store("the_first_call_after_a_silent_forgetting_is_late_by_a_moment_only"),
    ),
    Punctual.bug(
        "redis-first-call-on-a-forgotten-node-waits",
        "Redis: a call on a cluster node's connection that was forgotten on the way waits its whole time",
        &[put("Cluster::attempt", "Calls::One(_) => «$node.watched(&$health, $answer)».await", "$answer")],
        redis_store("a_black_hole_before_nodes_of_a_cluster_ends_with_it"),
    ),
    Ids.bug(
        "redis-reserved-unique-keys-stay",
        "Redis: unique keys that were reserved stay after their time",
        &[drop("reap.lua", r#""HDEL", UNIQUE"#)],
        redis_store("unique_keys_that_were_reserved_go_when_their_time_is_over"),
    ),
    Ids.bug(
        "redis-reserved-key-freed-by-another",
        "Redis: the unique key of a done event is free again where a settle failed and a drop ends the rest",
        &[put("hold_left", "local $period = «$unique» and", "false")],
        redis_store("a_unique_key_stays_reserved_whatever_a_settle_that_failed_has_left"),
    ),
    Ids.bug(
        "redis-reserved-key-taken-before-the-repeat",
        "Redis: the unique key of a done event is free where a settle failed, until its repeat",
        &[put("replace_one", "($replaces or not «hold_left($id, $it, read_body($id))»)", "false")],
        redis_store("a_unique_key_stays_reserved_whoever_pushes_it_before_the_settle_is_repeated"),
    ),
    Ids.bug(
        "redis-reserved-anew-by-each-push",
        "Redis: a unique key that a settle which failed has left is reserved from the push that meets it on",
        &[put("reserved_until", "$period and $... and «math.floor($...)» + $period", "now_ms")],
        redis_store("a_unique_key_that_a_settle_has_left_is_reserved_from_its_end_on"),
    ),
    Metrics.bug(
        "redis-ready-beside-a-call-that-failed",
        "Redis: events count as ready of which a call that failed has written the entries alone",
        &[put("state.lua", "(«$changed» and 0 or $by)", "true")],
        redis_store("a_script_that_fails_after_any_of_its_writes_is_repeated"),
    ),
    Accepted.bug(
        "redis-page-opened-before-what-has-moved-leaves",
        "Redis: a move takes a page apart before what it has read before it has left the delay set",
        &[put(
            "move_due.lua",
            "write_moved() open_part($page, $part)",
            "open_part($page, $part) write_moved()",
        )],
        redis_store("a_page_that_is_opened_loses_no_event_to_what_calls_that_failed_have_left"),
    ),
    NeverEarly.bug(
        "redis-member-leads-to-a-part-like-it",
        "Redis: a member of the delay set leads to a part of other events within it",
        &[put("lua::part_of", "«and member_of($page, $part) == $member» or", "")],
        redis_store("a_member_that_a_push_has_left_moves_no_part_within_it"),
    ),
    Records.bug(
        "redis-settle-fails-behind-its-writes",
        "Redis: a settle meets a key of a wrong type when it has written its records",
        &[put("check_settled", r#"return «call("ZCARD", EXPIRY)» > 0"#, "1")],
        redis_store("a_settle_that_cannot_look_for_expiries_has_written_nothing"),
    ),
    Punctual.bug(
        "redis-reaped-for-ever",
        "Redis: a node that holds nothing any more is still being reaped, and is refused each fetch",
        &[put("count_kept", "$node.reaping and «$kept > 0»", "true")],
        redis_store("a_node_that_holds_nothing_any_more_is_not_reaped_for_ever"),
    ),
    Metrics.bug(
        "redis-ended-leases-counted-beside-others",
        "Redis: leases that a settle which failed has ended count while others have deadlines",
        &[put("reap.lua", "if $timed and «$node.timed ~= $its» then", "false")],
        redis_store("leases_that_a_settle_has_ended_count_no_more_after_a_reap"),
    ),
    LostWorkers.bug(
        "redis-forgotten-node-not-told",
        "Redis: a fetch tells itself as the last one of its node that was known before",
        &[put("fetch.lua", "last = «$node.last»", "tonumber(ARGV.request)")],
        redis_store("a_node_that_was_reaped_learns_of_it_also_when_it_was_forgotten"),
    ),
    Metrics.bug(
        "redis-number-of-a-lease-taken-for-that-of-an-entry",
        "Redis: events count as not ready whose lease was by a request of some number",
        &[put(
            "state.lua",
            "$changed = «$state:byte() == 82 and $state:sub(46) == u64(entry)»",
            "$state:find(u64(entry), 1, true)",
        )],
        redis_store("a_lease_of_a_request_with_the_number_of_a_call_that_failed_is_no_entry_of_it"),
    ),
    Metrics.bug(
        "redis-start-of-a-page-taken-for-a-number",
        "Redis: how a page begins is taken for the number of an entry",
        &[put(
            "state.lua",
            "«$state:sub($at + 20, $at + 27) == u64(entry)»",
            "$state:find(u64(entry), 1, true)",
        )],
        redis_store("how_a_page_begins_is_no_number_of_an_entry"),
    ),
    Metrics.bug(
        "redis-page-noted-by-what-was-written-before",
        "Redis: a push that changes a page twice notes the second change by the number of the first",
        &[put("keep_counts", "if «$by» then $entry = $entry + 1", "false")],
        redis_store("a_page_that_one_push_changes_twice_is_noted_by_what_it_changes"),
    ),
    Metrics.bug(
        "redis-fetch-notes-what-was-scheduled",
        "Redis: a fetch notes an event that was scheduled as one that was ready",
        &[put(
            "take_due",
            "$given.field = $given.field or «$held[$count] == $members[$i] and $members[$i] or nil»",
            "$held[1]",
        )],
        redis_store("a_fetch_notes_an_event_that_was_ready_and_not_one_beside_it"),
    ),
    Metrics.bug(
        "redis-second-failure-counts-the-first-again",
        "Redis: what a call that failed has left is counted by each that fails after it",
        &[drop("state.lua", r#"call("HSET", META, "counts", $...)"#)],
        redis_store("what_is_ready_is_counted_after_two_calls_that_failed"),
    ),
    Metrics.bug(
        "redis-newer-event-in-two-places-counted-by-each-fetch",
        "Redis: each fetch counts an event once less that is in two places and that it cannot read",
        &[put("take_due", r#"$waiting «and $its ~= "newer"» then"#, "")],
        redis_store("what_only_a_newer_duly_reads_is_counted_once_in_two_places"),
    ),
    Metrics.bug(
        "redis-events-of-a-page-counted-before-it-is-there",
        "Redis: events of a scheduled page are counted where a push has failed to schedule it",
        &[later(
            "lua::write",
            r#"write_all("ZADD", DELAY"#,
            r#"write_all("ZADD", SIZES"#,
        )],
        redis_store(
            "nothing_is_scheduled_any_more_when_all_was_due_whatever_a_call_that_failed_has_left",
        ),
    ),
];
