use super::{contract, delivery, edit, test};
use crate::mutant::{Masked, Mutant, Promise::Full};

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "full-ring-drops",
        breaks: Full,
        bug: "what does not fit into the ring is dropped",
        edits: &[edit(
            "src/flow/consumers/consumer.rs",
            "        if tasks.is_empty() {\n            return;\n        }\n",
            "        if tasks.len() < usize::MAX {\n            return;\n        }\n",
        )],
        caught_by: delivery("pushed_and_published_values_share_a_ring"),
        masked_by: None,
    },
    Mutant {
        name: "credit-not-returned",
        breaks: Full,
        bug: "a handler that has ended does not give its credit back",
        edits: &[edit(
            "src/core/node/mod.rs",
            "queue.outstanding = queue.outstanding.saturating_sub(1);",
            "queue.outstanding = queue.outstanding.saturating_sub(0);",
        )],
        caught_by: delivery("a_full_ring_stops_fetching_and_nothing_is_dropped"),
        masked_by: None,
    },
    Mutant {
        name: "credits-ignored",
        breaks: Full,
        bug: "events are fetched without credits",
        edits: &[edit(
            "src/core/queue_state.rs",
            ".saturating_sub(self.outstanding + self.reserved + self.waiting),",
            ".saturating_sub((self.outstanding + self.reserved + self.waiting) * 0),",
        )],
        caught_by: delivery("a_full_ring_stops_fetching_and_nothing_is_dropped"),
        masked_by: None,
    },
    Mutant {
        name: "reserve-not-released",
        breaks: Full,
        bug: "embedded: a full disk does not make the store give up its reserve",
        edits: &[
            edit(
                "src/store/embedded/writer.rs",
                "Some(Shortage::Space) => gave = self.shared.space.release(),",
                "Some(Shortage::Space) => {}",
            ),
            edit(
                "src/store/embedded/writer.rs",
                " == Some(Shortage::Space) && self.shared.space.release();",
                " == Some(Shortage::Space) && false;",
            ),
        ],
        caught_by: test(
            "embedded",
            "a_full_disk_refuses_pushes_while_everything_else_goes_on",
        ),
        masked_by: Some(Masked {
            by: "a checkpoint that finds no room, and the note of a start, make it do so as well",
            edits: &[
                edit(
                    "src/store/embedded/upkeep.rs",
                    "Some(Shortage::Space) => _ = self.shared.space.release(),",
                    "Some(Shortage::Space) => {}",
                ),
                edit(
                    "src/store/embedded/mod.rs",
                    "            self.shared.space.release();\n            noted = notes.note(starts);\n",
                    "            noted = notes.note(starts);\n",
                ),
            ],
        }),
    },
    Mutant {
        name: "no-bound-on-what-waits-to-be-written",
        breaks: Full,
        bug: "embedded: pushes are taken however much waits for the disk",
        edits: &[edit(
            "src/store/embedded/pending.rs",
            "self.weight.load(Ordering::Relaxed) < self.weight_max",
            "self.weight.load(Ordering::Relaxed) <= usize::MAX - self.weight_max",
        )],
        caught_by: test(
            "embedded",
            "when_too_much_waits_to_be_written_pushes_are_refused_and_the_rest_goes_on",
        ),
        masked_by: None,
    },
    Mutant {
        name: "redis-no-settle-when-full",
        breaks: Full,
        bug: "Redis: a server whose memory is full refuses to settle",
        edits: &[edit(
            "src/store/redis/scripts.rs",
            "SETTLE = \"settle\", DRAINS,",
            "SETTLE = \"settle\", FILLS,",
        )],
        caught_by: test(
            "redis_store",
            "a_full_server_refuses_pushes_and_all_else_goes_on",
        ),
        masked_by: None,
    },
    Mutant {
        name: "full-outbox-not-refused",
        breaks: Full,
        bug: "memory: pushes are taken while more records wait for the journal than may",
        edits: &[edit(
            "src/store/memory.rs",
            "            self.records().check_room()?;\n",
            "",
        )],
        caught_by: contract("a_full_outbox_refuses_pushes_and_is_settled_into"),
        masked_by: None,
    },
    Mutant {
        name: "redis-full-outbox-not-refused",
        breaks: Full,
        bug: "Redis: pushes are accepted although too many records wait for the journal",
        edits: &[edit(
            "src/store/redis/lua/push.lua",
            "  if waiting >= tonumber(ARGV[8]) then\n    return",
            "  if false then\n    return",
        )],
        caught_by: test(
            "redis_store",
            "pushes_are_refused_while_too_many_records_wait_and_all_else_goes_on",
        ),
        masked_by: None,
    },
    Mutant {
        name: "fetch-without-bytes",
        breaks: Full,
        bug: "a fetch is bounded by the number of events alone",
        edits: &[edit(
            "src/core/reference/entry.rs",
            "        self.left_kib == 0\n",
            "        self.left_kib == usize::MAX\n",
        )],
        caught_by: contract("a_fetch_ends_with_the_event_that_reaches_its_bytes"),
        masked_by: None,
    },
    Mutant {
        name: "fetch-without-bytes-redis",
        breaks: Full,
        bug: "redis: a script reads bodies whatever their length",
        edits: &[edit(
            "src/store/redis/lua/bytes.lua",
            "  return spent >= BUDGET\n",
            "  return false\n",
        )],
        caught_by: contract("a_fetch_ends_with_the_event_that_reaches_its_bytes"),
        masked_by: None,
    },
    Mutant {
        name: "read-ahead-takes-short-for-last",
        breaks: Full,
        bug: "a fetch that ended at its bound of bytes does not say so",
        edits: &[edit(
            "src/core/reference/fetch.rs",
            "(batch.deliveries, batch.budget.is_spent())",
            "(batch.deliveries, false)",
        )],
        caught_by: contract("read_ahead_ends_with_the_event_that_reaches_its_bytes"),
        masked_by: None,
    },
    Mutant {
        name: "full-disk-stays-full",
        breaks: Full,
        bug: "embedded: a full disk is not given back what the file does not need any more",
        edits: &[edit(
            "src/store/embedded/upkeep.rs",
            "match self.committer.vacuum(pages, FREE_PAGES_FULL, false) {",
            "match self.committer.vacuum(pages, u32::MAX, false) {",
        )],
        caught_by: test(
            "embedded",
            "a_disk_that_was_full_takes_pushes_again_when_everything_was_handled",
        ),
        masked_by: None,
    },
    Mutant {
        name: "change-waits-for-room-without-limit",
        breaks: Full,
        bug: "embedded: a change that finds no room on a full disk is not answered before there is some",
        edits: &[edit(
            "src/store/embedded/writer.rs",
            "            if waited >= PATIENCE {",
            "            if waited >= Duration::MAX {",
        )],
        caught_by: test(
            "embedded",
            "a_change_that_finds_no_room_is_answered_and_written_when_there_is_some",
        ),
        masked_by: None,
    },
];
