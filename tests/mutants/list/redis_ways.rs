//! Connections to Redis and the clocks of its servers, and which ids a bucket forgets.

use super::{contract, edit, test};
use crate::mutant::{
    Mutant,
    Promise::{Accepted, Ids, NeverEarly, Punctual, Records},
};

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "redis-idle-connection-not-probed",
        breaks: Punctual,
        bug: "Redis: a connection that nothing uses is not probed",
        edits: &[edit(
            "src/store/redis/health.rs",
            "is_quiet && self.blocking.load(Ordering::Relaxed) == 0",
            "false",
        )],
        caught_by: test(
            "lib",
            "an_idle_connection_that_was_forgotten_is_replaced_before_it_is_used",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-given-up-calls-count-as-nothing",
        breaks: Punctual,
        bug: "Redis: calls whose callers gave up do not count as unanswered",
        edits: &[edit(
            "src/store/redis/health.rs",
            "if left + GIVEN_UP <= self.health.timeout && self.health.unanswered() {",
            "if left > self.health.timeout {",
        )],
        caught_by: test(
            "lib",
            "callers_that_give_up_cost_a_connection_that_is_silent_and_no_other",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-cluster-keeps-a-connection-without-login",
        breaks: Accepted,
        bug: "Redis: a cluster keeps using a connection that is not logged in any more",
        edits: &[edit(
            "src/store/redis/topology/node.rs",
            "if is_for_ever(&cause) {",
            "if is_for_ever(&cause) && false {",
        )],
        caught_by: test(
            "lib",
            "a_connection_that_is_not_logged_in_any_more_is_made_again_also_in_a_cluster",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-forgotten-call-waits",
        breaks: Accepted,
        bug: "Redis: a call that the package has forgotten does not end with its connection",
        edits: &[edit(
            "src/store/redis/health.rs",
            "        self.ends.notify_waiters();\n",
            "",
        )],
        caught_by: test(
            "lib",
            "a_call_that_its_connection_has_forgotten_ends_with_it",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-start-does-not-wait-for-loading",
        breaks: Accepted,
        bug: "Redis: a start fails while the server loads its data",
        edits: &[edit(
            "src/store/redis/startup.rs",
            "return (LOADING_MAX, \"the server is still loading its data\");",
            "return (Duration::ZERO, \"\");",
        )],
        caught_by: test(
            "redis_store",
            "a_start_while_the_server_loads_waits_until_it_has_loaded",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-glitch-of-the-server-believed",
        breaks: NeverEarly,
        bug: "Redis: a script believes its server's clock whatever the caller knows",
        edits: &[edit(
            "src/store/redis/lua/bucket.lua",
            "now = time_of(now ~= \"\" and -now)",
            "now = time_of(false)",
        )],
        caught_by: test(
            "redis_store",
            "a_clock_that_steps_for_a_moment_makes_nothing_early_or_late_and_holds_no_bucket",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-bucket-held-by-a-clock-that-was-ahead",
        breaks: Punctual,
        bug: "Redis: a bucket that was first used while the clock was ahead keeps that time",
        edits: &[edit(
            "src/store/redis/lua/bucket.lua",
            "last_now = expected -- from a time",
            "last_now = last_now -- from a time",
        )],
        caught_by: test(
            "redis_store",
            "a_bucket_that_was_first_used_while_the_clock_was_ahead_goes_on_after_it_was_set_back",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-set-clock-never-believed",
        breaks: Punctual,
        bug: "Redis: a server's clock that was set is never believed again",
        edits: &[edit(
            "src/store/redis/lua/bucket.lua",
            "if expected - doubt >= STANDS then",
            "if false then",
        )],
        caught_by: test(
            "redis_store",
            "a_clock_that_was_set_is_believed_when_it_has_stood",
        ),
        masked_by: None,
    },
    Mutant {
        name: "id-to-come-closes-a-bucket",
        breaks: Ids,
        bug: "an id whose time is still to come is forgotten like others, and closes its bucket",
        edits: &[edit(
            "src/core/reference/dedup.rs",
            "is_later && !is_ahead(id.created(), now_us)",
            "false && is_later && !is_ahead(id.created(), now_us)",
        )],
        caught_by: contract("an_id_that_was_made_ahead_closes_no_busy_bucket"),
        masked_by: None,
    },
    Mutant {
        name: "redis-id-to-come-closes-a-bucket",
        breaks: Ids,
        bug: "Redis: an id whose time is still to come is forgotten like others, and closes its bucket",
        edits: &[edit(
            "src/store/redis/lua/ending.lua",
            "if made > now_ms and made <= last_ms and past <= 2 * cap then",
            "if false then",
        )],
        caught_by: contract("an_id_that_was_made_ahead_closes_no_busy_bucket"),
        masked_by: None,
    },
    Mutant {
        name: "redis-watermark-of-the-first-of-a-batch",
        breaks: Ids,
        bug: "Redis: the watermark of forgotten ids is taken from the first id of a batch",
        edits: &[edit(
            "src/store/redis/lua/ending.lua",
            "    if made ~= last then -- many share one millisecond",
            "    if not last then",
        )],
        caught_by: contract("all_that_one_operation_forgets_is_too_old"),
        masked_by: None,
    },
    Mutant {
        name: "redis-cancelled-ready-entries-stay",
        breaks: Punctual,
        bug: "Redis: entries of cancelled events stay in the ready list",
        edits: &[edit(
            "src/store/redis/lua/expiring.lua",
            "  cancel(id, it, body)\n  drop_stale(1)\n",
            "  cancel(id, it, body)\n",
        )],
        caught_by: test(
            "redis_store",
            "the_next_event_waits_for_one_fetch_whatever_was_cancelled_before",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-stale-entries-stay-in-the-middle",
        breaks: Punctual,
        bug: "Redis: stale entries between live ones stay in the ready list",
        edits: &[edit(
            "src/store/redis/lua/sweep.lua",
            "if meta.gap_to > 0 or is_mostly_stale then",
            "if false then",
        )],
        caught_by: test(
            "redis_store",
            "the_next_event_waits_for_one_fetch_whatever_was_cancelled_before",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-gap-overwrites-what-it-has-not-read",
        breaks: Accepted,
        bug: "Redis: entries are moved into a gap of the ready list that is none any more",
        edits: &[
            edit(
                "src/store/redis/lua/sweep.lua",
                "    if its_live[i] then -- it is no gap any more",
                "    if false then",
            ),
            edit(
                "src/store/redis/lua/fetch.lua",
                "    move_gap(#rest - taken)\n",
                "",
            ),
        ],
        caught_by: test(
            "redis_store",
            "live_events_stay_in_order_while_others_are_cancelled_fetched_and_handed_back",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-expired-at-a-push-is-not-told",
        breaks: Records,
        bug: "Redis: what has expired and is ended by a push or a cancellation is not counted",
        edits: &[edit(
            "src/store/redis/lua/expiring.lua",
            "    meta.expired = meta.expired + 1\n",
            "",
        )],
        caught_by: contract("every_event_that_expires_is_told_once_whatever_ends_it"),
        masked_by: None,
    },
    Mutant {
        name: "redis-first-call-on-a-forgotten-connection-waits",
        breaks: Punctual,
        bug: "Redis: a call on a connection that was forgotten on the way waits its whole time",
        edits: &[edit(
            "src/store/redis/managed/runs.rs",
            "self.watched(&lane, asking).await",
            "asking.await",
        )],
        caught_by: test(
            "redis_store",
            "the_first_call_after_a_silent_forgetting_is_late_by_a_moment_only",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-first-call-on-a-forgotten-node-waits",
        breaks: Punctual,
        bug: "Redis: a call on a cluster node's connection that was forgotten on the way waits its whole time",
        edits: &[edit(
            "src/store/redis/topology/cluster.rs",
            "Calls::One(_) => node.watched(&health, answer).await,",
            "Calls::One(_) => answer.await,",
        )],
        caught_by: test(
            "redis_store",
            "a_black_hole_before_nodes_of_a_cluster_ends_with_it",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-reserved-unique-keys-stay",
        breaks: Ids,
        bug: "Redis: unique keys that were reserved stay after their time",
        edits: &[edit(
            "src/store/redis/lua/reap.lua",
            "    call(\"HDEL\", UNIQUE, unique)\n",
            "",
        )],
        caught_by: test(
            "redis_store",
            "unique_keys_that_were_reserved_go_when_their_time_is_over",
        ),
        masked_by: None,
    },
];
