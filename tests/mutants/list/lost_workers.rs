use super::{contract, delivery, edit, test};
use crate::mutant::{Mutant, Promise::LostWorkers};

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "heartbeat-not-sent",
        breaks: LostWorkers,
        bug: "a node sends no heartbeats",
        edits: &[edit(
            "src/core/node/asks.rs",
            "            asks.push((
                CallKind::Heartbeat { through },
                StoreOp::Heartbeat { node: *id },
            ));
",
            "            let _ = (CallKind::Heartbeat { through }, &id);
",
        )],
        caught_by: delivery("a_handler_that_runs_for_an_hour_keeps_its_event"),
        masked_by: None,
    },
    Mutant {
        name: "heartbeat-not-counted",
        breaks: LostWorkers,
        bug: "a heartbeat is answered and extends nothing",
        edits: &[edit(
            "src/core/reference/fetch.rs",
            "                node.beat += 1;\n",
            "",
        )],
        caught_by: contract("a_heartbeat_keeps_what_a_node_holds"),
        masked_by: None,
    },
    Mutant {
        name: "redis-heartbeat-not-counted",
        breaks: LostWorkers,
        bug: "Redis: a heartbeat is answered and extends nothing",
        edits: &[edit(
            "src/store/redis/lua/heartbeat.lua",
            "  node.beat = node.beat + 1\n",
            "",
        )],
        caught_by: contract("a_heartbeat_keeps_what_a_node_holds"),
        masked_by: None,
    },
    Mutant {
        name: "settle-without-its-lease",
        breaks: LostWorkers,
        bug: "a settle is accepted under whatever lease the event is",
        edits: &[edit(
            "src/core/reference/settle.rs",
            "entry.lease_under(node, settlement.request).cloned()",
            "entry.lease().cloned()",
        )],
        caught_by: contract("a_settle_under_another_lease_is_refused"),
        masked_by: None,
    },
    Mutant {
        name: "redis-ack-without-its-lease",
        breaks: LostWorkers,
        bug: "Redis: the settle script acks an event under whatever lease it is",
        edits: &[edit(
            "src/store/redis/lua/settle.lua",
            "if not (state and sub(state, 46, 61) == token) then",
            "if not (state and byte(state) == 76) then",
        )],
        caught_by: contract("a_settle_under_another_lease_is_refused"),
        masked_by: None,
    },
    Mutant {
        name: "redis-settle-without-its-lease",
        breaks: LostWorkers,
        bug: "Redis: the settle script ends an attempt under whatever lease it is",
        edits: &[edit(
            "src/store/redis/lua/settle.lua",
            "if state and byte(state) == 76 and sub(state, 46, 61) == me .. request then",
            "if state and byte(state) == 76 then",
        )],
        caught_by: contract("a_settle_after_the_lease_was_lost_is_refused"),
        masked_by: None,
    },
    Mutant {
        name: "gate-ignored",
        breaks: LostWorkers,
        bug: "a worker starts a handler without a look at its lease",
        edits: &[edit(
            "src/flow/executor.rs",
            "if A::CAN_BE_DROPPED && !self.means.is_fresh(&job) {",
            "if false && A::CAN_BE_DROPPED && !self.means.is_fresh(&job) {",
        )],
        caught_by: delivery("nothing_starts_on_a_lease_that_may_be_gone"),
        masked_by: None,
    },
    Mutant {
        name: "gate-ignored-on-a-thread",
        breaks: LostWorkers,
        bug: "a blocking handler starts on its thread without a look at its lease",
        edits: &[edit(
            "src/flow/means.rs",
            "if !self.is_fresh(job) || has_expired(&job.delivery.body, started_us) {",
            "if has_expired(&job.delivery.body, started_us) {",
        )],
        caught_by: delivery("a_blocking_handler_does_not_start_on_a_lease_that_may_be_gone"),
        masked_by: None,
    },
    Mutant {
        name: "lost-lease-not-told-to-the-gate",
        breaks: LostWorkers,
        bug: "a node that hears that its leases are lost goes on starting what it had fetched",
        edits: &[edit(
            "src/flow/mover.rs",
            "                self.gates.of(bucket).lost(through);\n",
            "",
        )],
        caught_by: delivery("what_a_node_has_lost_is_not_started_when_it_is_back"),
        masked_by: None,
    },
    Mutant {
        name: "fetch-is-no-heartbeat",
        breaks: LostWorkers,
        bug: "a node that fetches and does nothing else for a while is taken to be silent",
        edits: &[edit(
            "src/core/reference/node.rs",
            "        if deadline.is_none() {\n            known.beat += 1;\n        }\n",
            "",
        )],
        caught_by: contract("a_fetch_and_its_repeat_are_heartbeats_too"),
        masked_by: None,
    },
    Mutant {
        name: "reaper-looks-once",
        breaks: LostWorkers,
        bug: "a node is called silent as soon as it is seen",
        edits: &[edit(
            "src/core/reaper.rs",
            ".filter(|(_, (_, since))| now.since(*since) >= options.silence)",
            ".filter(|(_, (_, since))| now.since(*since) < options.silence * 1_000)",
        )],
        caught_by: delivery("a_node_that_is_cut_off_from_the_roll_alone_loses_nothing"),
        masked_by: None,
    },
    Mutant {
        name: "reap-without-a-second-look",
        breaks: LostWorkers,
        bug: "a node is given up although its heartbeat has changed since it was looked at",
        edits: &[edit(
            "src/core/reference/node.rs",
            "known.is_holder() && known.beat == beat && ",
            "known.is_holder() && (known.beat == beat || true) && ",
        )],
        caught_by: contract("an_observation_from_before_a_pause_reaps_nobody"),
        masked_by: None,
    },
    Mutant {
        name: "redis-reap-without-a-second-look",
        breaks: LostWorkers,
        bug: "Redis: the reap script does not look at the heartbeat again",
        edits: &[edit(
            "src/store/redis/lua/reap.lua",
            "node.beat == tonumber(ARGV[i + 1]) and ",
            "",
        )],
        caught_by: contract("an_observation_from_before_a_pause_reaps_nobody"),
        masked_by: None,
    },
    Mutant {
        name: "trust-from-the-answer",
        breaks: LostWorkers,
        bug: "a node's trust in its leases counts from the answer and has no margin",
        edits: &[
            edit(
                "src/core/bucket_care.rs",
                "self.leases.renew(sent, options);",
                "self.leases.renew(sent.max(now), options);",
            ),
            edit(
                "src/core/lease.rs",
                "            .max(sent + options.silence - options.margin);",
                "            .max(sent + options.silence);",
            ),
        ],
        caught_by: delivery("trust_in_a_lease_counts_from_when_it_was_asked_for"),
        masked_by: None,
    },
    Mutant {
        name: "trust-seen-before-the-loss",
        breaks: LostWorkers,
        bug: "a worker may see that a lease is fresh again before it sees what was lost",
        edits: &[edit(
            "src/flow/gate.rs",
            "self.fresh_until.fetch_max(until_ns, Release);",
            "self.fresh_until.fetch_max(until_ns, Relaxed);",
        )],
        caught_by: test("loom", "who_sees_new_trust_sees_what_was_lost_before"),
        masked_by: None,
    },
    Mutant {
        name: "blind-nodes-look-all-the-time",
        breaks: LostWorkers,
        bug: "nodes that hear of nobody look at each bucket every 150 ms",
        edits: &[edit(
            "src/core/reaper.rs",
            "false => is_still || !members.is_blind(),",
            "false => true,",
        )],
        caught_by: delivery("nodes_that_hear_of_nobody_look_now_and_then"),
        masked_by: None,
    },
    Mutant {
        name: "silent-in-one-bucket-for-ever",
        breaks: LostWorkers,
        bug: "a node that one bucket refuses calls the roll no more",
        edits: &[edit(
            "src/core/lease.rs",
            "|| now >= self.heard + taken",
            "|| now > Mono::MAX",
        )],
        caught_by: delivery("a_node_that_one_bucket_refuses_stays_a_member"),
        masked_by: None,
    },
    Mutant {
        name: "reap-removes-before-it-records",
        breaks: LostWorkers,
        bug: "redis: a reap lets go of deadlines before it has done anything else",
        edits: &[edit(
            "src/store/redis/lua/reap.lua",
            "  deadlines[i] = past_deadline[i]\n",
            "  deadlines[i] = past_deadline[i]\n  call(\"ZREM\", LEASE, past_deadline[i])\n",
        )],
        caught_by: test("redis_store", "midway::of_leases::outbox"),
        masked_by: None,
    },
];
