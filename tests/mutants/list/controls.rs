use super::{contract, delivery, edit, test};
use crate::mutant::{
    Mutant,
    Promise::{Controls, Explained},
};

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "rate-ignored",
        breaks: Controls,
        bug: "the rate of a queue reaches nobody",
        edits: &[edit(
            "src/flow/consumers/set.rs",
            "            rate: control.rate,\n",
            "            rate: control.rate.filter(|_| false),\n",
        )],
        caught_by: delivery("a_rate_is_kept_in_every_second"),
        masked_by: None,
    },
    Mutant {
        name: "rate-not-shared",
        breaks: Controls,
        bug: "each node starts as many events as all together may",
        edits: &[edit(
            "src/core/rate.rs",
            "let every = f64::from(nodes) / self.per_second;",
            "let every = f64::from(nodes) * 0.0 + 1.0 / self.per_second;",
        )],
        caught_by: delivery("a_rate_is_shared_by_all_nodes"),
        masked_by: None,
    },
    Mutant {
        name: "pause-ignored",
        breaks: Controls,
        bug: "a paused queue goes on starting events",
        edits: &[edit(
            "src/flow/consumers/set.rs",
            "            true => 0,\n",
            "            true => course.chosen,\n",
        )],
        caught_by: delivery("a_paused_queue_starts_nothing_until_it_is_resumed"),
        masked_by: None,
    },
    Mutant {
        name: "setting-not-kept",
        breaks: Controls,
        bug: "embedded: what was set of a queue is forgotten by an open",
        edits: &[edit(
            "src/store/embedded/mod.rs",
            "hub: LocalMembership::with(controls),",
            "hub: LocalMembership::with(controls.into_iter().take(0).collect()),",
        )],
        caught_by: contract("what_is_set_is_kept_over_a_new_opening"),
        masked_by: None,
    },
    Mutant {
        name: "late-of-the-queue-ignored",
        breaks: Controls,
        bug: "what a queue says of late events is not said of those that are pushed",
        edits: &[edit(
            "src/bus/prepared.rs",
            "self.late.unwrap_or(queue.options.late)",
            "self.late.unwrap_or_default()",
        )],
        caught_by: test(
            "delivery",
            "what_the_queue_says_of_late_events_goes_for_those_that_say_nothing",
        ),
        masked_by: None,
    },
    Mutant {
        name: "spread-by-chance",
        breaks: Controls,
        bug: "the part of a spread is another at each push of one id",
        edits: &[edit(
            "src/event/spread.rs",
            "xxh3_64(&id.entropy().to_le_bytes())",
            "xxh3_64(&id.entropy().to_le_bytes()).wrapping_mul(fastrand::u64(..))",
        )],
        caught_by: test(
            "delivery",
            "an_id_that_is_pushed_again_is_due_at_the_same_time",
        ),
        masked_by: None,
    },
    Mutant {
        name: "spread-not-explained",
        breaks: Explained,
        bug: "an explanation does not look whether an event was spread",
        edits: &[edit(
            "src/bus/explain/diagnose.rs",
            "        spread: spread(found),\n",
            "        spread: spread(found).filter(|_| false),\n",
        )],
        caught_by: test("explain", "an_event_that_was_spread_says_by_how_much"),
        masked_by: None,
    },
    Mutant {
        name: "newcomer-starts-at-once",
        breaks: Controls,
        bug: "a node that comes starts its part of a rate before the others have given it up",
        edits: &[edit(
            "src/core/node/members.rs",
            "        if change.was_away {\n            self.hold_back(now);\n",
            "        if change.was_away && now == Mono::default() {\n            self.hold_back(now);\n",
        )],
        caught_by: test(
            "delivery",
            "a_node_that_comes_starts_nothing_until_the_others_know",
        ),
        masked_by: None,
    },
    Mutant {
        name: "lost-time-is-lost",
        breaks: Controls,
        bug: "a node that comes late makes up for nothing",
        edits: &[edit(
            "src/core/rate.rs",
            "const OWED: Duration = Duration::from_millis(300);",
            "const OWED: Duration = BURST;",
        )],
        caught_by: test(
            "lib",
            "who_comes_late_again_and_again_makes_up_for_it_and_no_second_has_too_many",
        ),
        masked_by: None,
    },
    Mutant {
        name: "registry-versions-repeat",
        breaks: Controls,
        bug: "Redis: a version comes again after a failover that lost the last writes",
        edits: &[edit(
            "src/store/redis/registry.rs",
            "fastrand::u64(1..).to_be_bytes()",
            "1_u64.to_be_bytes()",
        )],
        caught_by: test(
            "redis_store",
            "a_version_never_comes_again_after_the_last_writes_were_lost",
        ),
        masked_by: None,
    },
    Mutant {
        name: "registry-tail-not-written-again",
        breaks: Controls,
        bug: "Redis: buckets that a failover took from the registry stay out of it",
        edits: &[edit(
            "src/store/redis/registry.rs",
            "if !lost.is_empty() {",
            "if false && !lost.is_empty() {",
        )],
        caught_by: test(
            "redis_store",
            "what_a_failover_took_from_the_registry_is_read_anew_and_written_again",
        ),
        masked_by: None,
    },
    Mutant {
        name: "queue-of-another-program-unknown",
        breaks: Controls,
        bug: "what other programs consume is not known, and taken for a slip",
        edits: &[edit(
            "src/flow/start.rs",
            "membership.is_some_and(|membership| membership.is_consumed(queue))",
            "roll.is_some_and(|roll| roll.is_consumed(queue) && queue.is_empty())",
        )],
        caught_by: delivery("a_queue_of_another_program_is_no_slip"),
        masked_by: None,
    },
    Mutant {
        name: "slip-in-a-question-for-records",
        breaks: Controls,
        bug: "records of a queue whose name is misspelled are none, and that is no error",
        edits: &[edit(
            "src/bus/records/mod.rs",
            "let has_none = page.items.is_empty()",
            "let has_none = !page.items.is_empty()",
        )],
        caught_by: delivery("an_operator_who_misspells_a_queue_is_told_which_was_meant"),
        masked_by: None,
    },
    Mutant {
        name: "check-believes-one-look-at-the-list",
        breaks: Controls,
        bug: "the check of a store takes every ready event for one that is not in the ready list",
        edits: &[edit(
            "src/store/redis/check.rs",
            "                lot.remove(entry);\n",
            "",
        )],
        caught_by: test(
            "redis_store",
            "nothing_is_found_on_a_healthy_store_under_load",
        ),
        masked_by: None,
    },
    Mutant {
        name: "check-removes-a-body-without-a-place",
        breaks: Controls,
        bug: "a repair of a store removes a body that no structure leads to",
        edits: &[edit(
            "src/store/redis/lua/check.lua",
            "is nowhere\") then\n      restore(id, body)",
            "is nowhere\") then\n      call(\"HDEL\", BODY, id)",
        )],
        caught_by: test("redis_store", "a_body_without_a_place_is_put_back"),
        masked_by: None,
    },
    Mutant {
        name: "check-overlooks-unique-keys",
        breaks: Controls,
        bug: "Redis: a check does not see that an event has lost its unique key",
        edits: &[edit(
            "src/store/redis/lua/check.lua",
            "and call(\"HEXISTS\", UNIQUE, unique) == 0 and tell(",
            "and call(\"HEXISTS\", UNIQUE, unique) > 1 and tell(",
        )],
        caught_by: test(
            "redis_store",
            "a_lost_unique_key_is_found_wherever_its_event_is",
        ),
        masked_by: None,
    },
    Mutant {
        name: "check-hands-a-lost-lease-back",
        breaks: Controls,
        bug: "a repair of a store takes a lease back as if its handler had never started",
        edits: &[edit(
            "src/store/redis/lua/check.lua",
            "take_back(id, own, false)",
            "take_back(id, own, true)",
        )],
        caught_by: test("redis_store", "a_lease_that_nobody_holds_is_taken_back"),
        masked_by: None,
    },
    Mutant {
        name: "check-overlooks-tombstones",
        breaks: Controls,
        bug: "Redis: a check looks at no tombstone, and one of a living event forgets it",
        edits: &[edit(
            "src/store/redis/lua/check.lua",
            "  if over then\n",
            "  if false then\n",
        )],
        caught_by: test("redis_store", "each_event_that_has_ended_has_one_tombstone"),
        masked_by: None,
    },
    Mutant {
        name: "check-registers-nothing",
        breaks: Controls,
        bug: "Redis: a repair says that a bucket was registered, and leaves it unknown",
        edits: &[edit(
            "src/store/redis/unregistered.rs",
            "registry::ensure(shared, &bucket, until).await?;",
            "let _ = until;",
        )],
        caught_by: test(
            "redis_store",
            "a_bucket_that_the_registry_does_not_know_is_registered",
        ),
        masked_by: None,
    },
];
