use super::{contract, delivery, edit, test};
use crate::mutant::{Mutant, Promise::Accepted, Test};

const fn power_cut() -> Test {
    test(
        "power",
        "what_was_answered_survives_any_power_cut_and_what_was_not_is_never_half",
    )
}

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "redis-removed-before-published",
        breaks: Accepted,
        bug: "Redis: the move script takes ids out of the delay set before they are in the publish list",
        edits: &[
            edit(
                "src/store/redis/lua/move_due.lua",
                "if seen > 0 then\n  call(\"ZREMRANGEBYRANK\", DELAY, 0, seen - 1)\nend\n",
                "",
            ),
            edit(
                "src/store/redis/lua/move_due.lua",
                "if #entries > 0 then\n",
                "if seen > 0 then\n  call(\"ZREMRANGEBYRANK\", DELAY, 0, seen - 1)\nend\nif #entries > 0 then\n",
            ),
        ],
        caught_by: test("redis_store", "ready"),
        masked_by: None,
    },
    Mutant {
        name: "redis-unlisted-before-leased",
        breaks: Accepted,
        bug: "Redis: the fetch script takes events out of the publish list before they are leased",
        edits: &[edit(
            "src/store/redis/lua/fetch.lua",
            "commit()\nleave(taken, rest, pivot)\n",
            "leave(taken, rest, pivot)\ncommit()\n",
        )],
        caught_by: test("redis_store", "held"),
        masked_by: None,
    },
    Mutant {
        name: "redis-page-leased-without-a-look",
        breaks: Accepted,
        bug: "Redis: a part of a page is leased for as long as the heartbeat lasts, though a deadline was asked for",
        edits: &[edit(
            "src/store/redis/lua/fetch.lua",
            "(deadline and \"L\\2\\0\\1\" or \"L\" .. FRESH)",
            "(\"L\" .. FRESH)",
        )],
        caught_by: test(
            "redis_store",
            "leases_with_deadlines_are_given_to_events_alone",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-body-goes-with-the-first",
        breaks: Accepted,
        bug: "Redis: an event that leaves its page takes the body of the others with it",
        edits: &[edit(
            "src/store/redis/lua/page.lua",
            "    if body then\n      fields",
            "    if body and i == 1 then\n      fields",
        )],
        caught_by: test(
            "redis_store",
            "scheduled_events_are_alone_from_the_first_that_is_changed",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-ack-counted-twice",
        breaks: Accepted,
        bug: "Redis: an ack that is repeated ends its event again",
        edits: &[edit(
            "src/store/redis/lua/settle.lua",
            "if not is_under(state, token) then",
            "if not (is_under(state, token) or is_settled(state, settled)) then",
        )],
        caught_by: test("redis_store", "an_ack_that_is_repeated_ends_nothing_else"),
        masked_by: None,
    },
    Mutant {
        name: "push-answered-before-the-commit",
        breaks: Accepted,
        bug: "embedded: a push is answered before it is on disk",
        edits: &[edit(
            "src/store/embedded/shared.rs",
            "            StoreOp::Push(_)\n                | StoreOp::Settle { .. }\n",
            "            StoreOp::Settle { .. }\n",
        )],
        caught_by: test("embedded", "whatever_was_answered_survives_kill_9"),
        masked_by: None,
    },
    Mutant {
        name: "commit-not-synced",
        breaks: Accepted,
        bug: "embedded: a commit is answered before it is synced, as with `synchronous = NORMAL`",
        edits: &[edit(
            "src/store/embedded/schema.rs",
            "PRAGMA synchronous = FULL;",
            "PRAGMA synchronous = NORMAL;",
        )],
        caught_by: power_cut(),
        masked_by: None,
    },
    Mutant {
        name: "way-to-the-file-not-synced",
        breaks: Accepted,
        bug: "embedded: the folders above the one that was made for the file are not synced",
        edits: &[edit(
            "src/store/embedded/file.rs",
            "            files::sync_way(&self.directory)\n",
            "            files::sync_directory(&self.directory)\n",
        )],
        caught_by: power_cut(),
        masked_by: None,
    },
    Mutant {
        name: "repeated-fetch-is-a-new-one",
        breaks: Accepted,
        bug: "a fetch whose answer was lost leases another batch when it is repeated",
        edits: &[edit(
            "src/core/reference/fetch.rs",
            "let is_new = node.last_request.is_none_or(|last| fetch.request > last);",
            "let is_new = true;",
        )],
        caught_by: contract("a_repeated_fetch_answers_the_same_batch"),
        masked_by: None,
    },
    Mutant {
        name: "redis-repeated-fetch-is-a-new-one",
        breaks: Accepted,
        bug: "Redis: the fetch script does not look at the number of a request",
        edits: &[edit(
            "src/store/redis/lua/fetch.lua",
            "if request <= node.last then",
            "if false and request <= node.last then",
        )],
        caught_by: contract("a_repeated_fetch_answers_the_same_batch"),
        masked_by: None,
    },
    Mutant {
        name: "lost-fetch-forgotten",
        breaks: Accepted,
        bug: "a node does not repeat a fetch whose answer was lost",
        edits: &[edit(
            "src/core/node/replies.rs",
            "CallKind::Fetch { .. } => state.is_polling = false,",
            "CallKind::Fetch { .. } => state.fetch_over(queue),",
        )],
        caught_by: delivery("answers_that_are_lost_change_nothing"),
        masked_by: None,
    },
    Mutant {
        name: "expiry-ignored",
        breaks: Accepted,
        bug: "an event that has expired is leased all the same",
        edits: &[edit(
            "src/core/reference/entry.rs",
            "if more.expires.is_some_and(|at| at.as_micros() <= now_us) {",
            "if false && more.expires.is_some_and(|at| at.as_micros() <= now_us) {",
        )],
        caught_by: contract("an_expired_event_is_set_aside_with_a_record"),
        masked_by: None,
    },
    Mutant {
        name: "expiry-in-the-ring-ignored",
        breaks: Accepted,
        bug: "an event that expires while it waits in the ring is handled all the same",
        edits: &[edit(
            "src/flow/handlers/executor.rs",
            "if has_expired(envelope, started_us) {",
            "if false && has_expired(envelope, started_us) {",
        )],
        caught_by: delivery("an_event_expires_also_in_the_ring"),
        masked_by: None,
    },
    Mutant {
        name: "redis-no-wait-for-the-replicas",
        breaks: Accepted,
        bug: "Redis: a push that was to reach replicas is answered without them",
        edits: &[edit(
            "src/store/redis/confirmed.rs",
            "return is_reached(wanted, &reached).map(|()| answer),",
            "return is_reached(wanted, &reached).map_or(Ok(answer.clone()), |()| Ok(answer)),",
        )],
        caught_by: test(
            "redis_store",
            "a_push_that_no_replica_confirms_can_be_pushed_again",
        ),
        masked_by: None,
    },
    Mutant {
        name: "registry-away-refuses-pushes",
        breaks: Accepted,
        bug: "Redis: with the registry away every push to a bucket that is not registered yet is refused",
        edits: &[edit(
            "src/store/redis/registry/writer.rs",
            "let is_configured = registry.is_configured(bucket);",
            "let is_configured = false && registry.is_configured(bucket);",
        )],
        caught_by: test(
            "redis_store",
            "pushes_starts_and_nodes_go_on_while_the_server_of_the_registry_is_dead",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-moved-without-a-look",
        breaks: Accepted,
        bug: "Redis: what is left in the delay set by a call that failed is moved over a leased event",
        edits: &[edit(
            "src/store/redis/lua/move_due.lua",
            "    if (kind == 83 or kind == 82) and not place_of(ids[i]) then\n",
            "    if true then\n",
        )],
        caught_by: test("redis_store", "what_is_due_and_does_not_wait_is_not_moved"),
        masked_by: None,
    },
    Mutant {
        name: "redis-leased-before-it-is-counted",
        breaks: Accepted,
        bug: "Redis: a lease takes effect before its batch is known, so that a repeated fetch leases others",
        edits: &[edit(
            "src/store/redis/lua/fetch.lua",
            "    keep_node(me, node)\n    keep_counts()\n",
            "    keep_counts()\n",
        )],
        caught_by: test(
            "redis_store",
            "a_script_that_fails_after_any_of_its_writes_is_repeated",
        ),
        masked_by: None,
    },
    Mutant {
        name: "expiry-noticed-by-fetches-alone",
        breaks: Accepted,
        bug: "what has expired counts, and holds its keys, until somebody fetches",
        edits: &[edit(
            "src/core/reference/entry.rs",
            "let expires = more.expires.map(Timestamp::as_micros);",
            "let expires = None;",
        )],
        caught_by: contract("what_has_expired_is_not_counted"),
        masked_by: None,
    },
    Mutant {
        name: "redis-expiry-noticed-by-fetches-alone",
        breaks: Accepted,
        bug: "Redis: what has expired counts, and holds its keys, until somebody fetches",
        edits: &[edit(
            "src/store/redis/lua/push.lua",
            "      add_expiry(id, body, dues[i])\n",
            "",
        )],
        caught_by: contract("what_has_expired_is_not_counted"),
        masked_by: None,
    },
    Mutant {
        name: "read-of-a-release-ends-events",
        breaks: Accepted,
        bug: "embedded: an operation whose changes are dropped ends what has expired",
        edits: &[edit(
            "src/store/embedded/shared.rs",
            "            // Also of one that is refused: what had expired has ended.\n",
            "            let changes = if answer.is_err() { Changes::default() } else { changes };\n",
        )],
        caught_by: test(
            "store_model",
            "the_embedded_store_answers_as_the_model_does",
        ),
        masked_by: None,
    },
];
