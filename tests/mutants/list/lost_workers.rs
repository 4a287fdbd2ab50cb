use super::{
    always, delivery, drop, lib, loom, never, put, redis_faults, redis_store, store_contract,
};
use crate::mutant::{Mutant, Promise::LostWorkers};

pub(crate) const MUTANTS: &[Mutant] = &[
    LostWorkers.bug(
        "heartbeat-not-sent",
        "a node sends no heartbeats",
        &[drop("Node::due_calls", "CallKind::Heartbeat")],
        delivery("a_handler_that_runs_for_an_hour_keeps_its_event"),
    ),
    LostWorkers.bug(
        "heartbeat-not-counted",
        "a heartbeat is answered and extends nothing",
        &[drop("Bucket::heartbeat", "$node.beat")],
        store_contract("a_heartbeat_keeps_what_a_node_holds"),
    ),
    LostWorkers.bug(
        "redis-heartbeat-not-counted",
        "Redis: a heartbeat is answered and extends nothing",
        &[put(
            "heartbeat.lua",
            "«beat, $node.seen = $node.beat + 1,» now",
            "seen =",
        )],
        store_contract("a_heartbeat_keeps_what_a_node_holds"),
    ),
    LostWorkers
        .bug(
            "account-not-compared",
            "a node does not notice that the store counts more leases of it than it has",
            &[put(
                "Leases::compare",
                "last «<= $ours.last && $theirs.leases > $ours.leases»",
                "<$theirs.last",
            )],
            redis_store("a_lease_that_its_node_has_settled_before_a_failover_is_handed_back"),
        )
        .masked_by(
            "the next fetch compares, too",
            &[put(
                "Leases::compare_fetched",
                "leases + $brought «»",
                "+ 1_000",
            )],
        ),
    LostWorkers.bug(
        "account-not-compared-by-a-fetch",
        "a node that holds nothing does not notice that the store counts leases of it",
        &[put(
            "Leases::compare_fetched",
            "leases + $brought «»",
            "+ 1_000",
        )],
        redis_store("so_it_is_where_the_node_holds_nothing_else"),
    ),
    LostWorkers.bug(
        "redis-reconcile-takes-what-is-held",
        "Redis: a node that says what it holds loses that",
        &[always("take_batch", "not $holds")],
        store_contract("what_a_node_does_not_hold_by_its_own_account_is_handed_back"),
    ),
    LostWorkers.bug(
        "settle-without-its-lease",
        "a settle is accepted under whatever lease the event is",
        &[put(
            "Bucket::settle",
            "under($entry, $node, $settlement.request)",
            "of($entry)",
        )],
        store_contract("a_settle_under_another_lease_is_refused"),
    ),
    LostWorkers.bug(
        "redis-ack-without-its-lease",
        "Redis: the settle script acks an event under whatever lease it is",
        &[put(
            "settle_acks",
            "is_under($state, $token)",
            "($state and #$state == 71)",
        )],
        store_contract("a_settle_under_another_lease_is_refused"),
    ),
    LostWorkers.bug(
        "redis-settle-without-its-lease",
        "Redis: the settle script ends an attempt under whatever lease it is",
        &[put(
            "settle_one",
            r#""L" «and $it.token == $me .. $request»"#,
            "",
        )],
        store_contract("a_settle_after_the_lease_was_lost_is_refused"),
    ),
    LostWorkers.bug(
        "gate-ignored",
        "a worker starts a handler without a look at its lease",
        &[never("Executor::check_in", "is_fresh")],
        delivery("nothing_starts_on_a_lease_that_may_be_gone"),
    ),
    LostWorkers.bug(
        "gate-ignored-on-a-thread",
        "a blocking handler starts on its thread without a look at its lease",
        &[put(
            "ExecutorDeps::may_start",
            "«!self.is_fresh($job) ||» stale",
            "",
        )],
        delivery("a_blocking_handler_does_not_start_on_a_lease_that_may_be_gone"),
    ),
    LostWorkers.bug(
        "lost-lease-not-told-to-the-gate",
        "a node that hears that its leases are lost goes on starting what it had fetched",
        &[drop("Mover::act", "lost(")],
        delivery("what_a_node_has_lost_is_not_started_when_it_is_back"),
    ),
    LostWorkers.bug(
        "fetch-is-no-heartbeat",
        "a node that fetches and does nothing else for a while is taken to be silent",
        &[drop("NodeLeases::lease", "is_none")],
        store_contract("a_fetch_and_its_repeat_are_heartbeats_too"),
    ),
    LostWorkers.bug(
        "reaper-looks-once",
        "a node is called silent as soon as it is seen",
        &[put(
            "Reaper::send",
            ">= $options.lease_timeout",
            "< $options.lease_timeout * 1_000",
        )],
        delivery("a_node_that_is_cut_off_from_the_roll_alone_loses_nothing"),
    ),
    LostWorkers.bug(
        "reap-without-a-second-look",
        "a node is given up although its heartbeat has changed since it was looked at",
        &[put(
            "NodeLeases::give_up",
            "$known.beat == $beat",
            "($known.beat == $beat || true)",
        )],
        store_contract("an_observation_from_before_a_pause_reaps_nobody"),
    ),
    LostWorkers.bug(
        "redis-reap-without-a-second-look",
        "Redis: the reap script does not look at the heartbeat again",
        &[put(
            "reap.lua",
            "$node.beat == tonumber(ARGV.beat[$i]) and",
            "",
        )],
        store_contract("an_observation_from_before_a_pause_reaps_nobody"),
    ),
    LostWorkers.bug(
        "trust-from-the-answer",
        "a node's trust in its leases counts from the answer and has no margin",
        &[
            put(
                "BucketState::renew",
                ", ($now $... «leases.renew($sent, $options)»",
                "leases.renew($sent.max($now), $options)",
            ),
            put(
                "Leases::renew",
                "lease_timeout «- $options.safety_margin»",
                "",
            ),
        ],
        delivery("trust_in_a_lease_counts_from_when_it_was_asked_for"),
    ),
    LostWorkers.bug(
        "trust-seen-before-the-loss",
        "a worker may see that a lease is fresh again before it sees what was lost",
        &[put("LeaseFence::fresh", "$until_ns, «Release»", "Relaxed")],
        loom("who_sees_new_trust_sees_what_was_lost_before"),
    ),
    LostWorkers.bug(
        "blind-nodes-look-all-the-time",
        "nodes that hear of nobody look at each bucket every 150 ms",
        &[put(
            "Reaper::finish_scan",
            "$is_still || !$members.is_blind()",
            "true",
        )],
        delivery("nodes_that_hear_of_nobody_look_now_and_then"),
    ),
    LostWorkers.bug(
        "silent-in-one-bucket-for-ever",
        "a node that one bucket refuses calls the roll no more",
        &[put(
            "Leases::is_heard",
            "$now «>= self.replied + $taken»",
            ">Mono::MAX",
        )],
        delivery("a_node_that_one_bucket_refuses_stays_a_member"),
    ),
    LostWorkers.bug(
        "reap-removes-before-it-records",
        "redis: a reap lets go of deadlines before it has done anything else",
        &[put(
            "take_overdue",
            "$past_deadline[$i] «» local $it",
            r#"call("ZREM", LEASE, $past_deadline[$i])"#,
        )],
        redis_store("outbox"),
    ),
    LostWorkers.bug(
        "calls-wait-for-the-programs-runtime",
        "heartbeats are on the program's runtime, which handlers may block",
        &[put("Flow::start", "is_shared() && «!»$virtual_time", "")],
        redis_faults("a_blocked_runtime_of_one_thread_keeps_its_leases"),
    ),
    LostWorkers.bug(
        "node-outlives-its-runtime",
        "a node goes on when the runtime of its handlers has ended",
        &[put("RuntimeWatch::follow", "self.has_ended()", "")],
        redis_faults("a_node_ends_with_its_runtime_though_its_bus_is_kept"),
    ),
    LostWorkers.bug(
        "blocked-runtime-keeps-leases-for-ever",
        "a node whose runtime is blocked keeps its leases beyond every timeout",
        &[put(
            "Consumers::steer",
            "$since.elapsed() «>= $kept»",
            "> Duration::MAX",
        )],
        redis_faults("a_runtime_that_is_blocked_beyond_every_timeout_leaves_its_events_to_others"),
    ),
    LostWorkers.bug(
        "forgotten-node-keeps-what-it-had-fetched",
        "a node of which the store has forgotten what it fetched starts it all the same",
        &[never(
            "Node::replied",
            "$held.leases > 0 && ($holding.last < $held.last || $other)",
        )],
        lib("a_node_that_the_store_has_forgotten_starts_nothing_that_it_had_fetched"),
    ),
];
