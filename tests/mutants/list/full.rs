use super::{delivery, drop, embedded, never, put, redis_store, store_contract};
use crate::mutant::{Mutant, Promise::Full};

pub(crate) const MUTANTS: &[Mutant] = &[
    Full.bug(
        "full-ring-drops",
        "what does not fit into the ring is dropped",
        &[put(
            "HandlerConsumer::publish_jobs",
            "«is_empty()» { return; }",
            "len() < usize::MAX",
        )],
        delivery("pushed_and_published_values_share_a_ring"),
    ),
    Full.bug(
        "credit-not-returned",
        "a handler that has ended does not give its credit back",
        &[put("Node::handle", "outstanding.saturating_sub(«1»)", "0")],
        delivery("a_full_ring_stops_fetching_and_nothing_is_dropped"),
    ),
    Full.bug(
        "credits-ignored",
        "events are fetched without credits",
        &[put(
            "QueueState::room",
            "self.outstanding + self.reserved + self.waiting",
            "(self.outstanding + self.reserved + self.waiting) * 0",
        )],
        delivery("a_full_ring_stops_fetching_and_nothing_is_dropped"),
    ),
    Full.bug(
        "reserve-not-released",
        "embedded: a full disk does not make the store give up its reserve",
        &[
            put(
                "Writer::insist",
                "«$gave = self.shared.space.release(),» Some",
                "{}",
            ),
            put(
                "Writer::insist",
                "&& «self.shared.space.release()»",
                "false",
            ),
        ],
        embedded("a_full_disk_refuses_pushes_while_everything_else_goes_on"),
    )
    .masked_by(
        "a checkpoint that finds no room, and the note of a start, make it do so as well",
        &[
            put(
                "Writer::failed",
                "«_ = self.shared.space.release(),» Some",
                "{}",
            ),
            drop("Shared::note_starts", "space.release"),
        ],
    ),
    Full.bug(
        "no-bound-on-what-waits-to-be-written",
        "embedded: pushes are taken however much waits for the disk",
        &[put(
            "Pending::has_room",
            "«< self.weight_max»",
            "<= usize::MAX",
        )],
        embedded("when_too_much_waits_to_be_written_pushes_are_refused_and_the_rest_goes_on"),
    ),
    Full.bug(
        "redis-no-settle-when-full",
        "Redis: a server whose memory is full refuses to settle",
        &[put("settle::script!", r#""settle", «DRAINS»"#, "FILLS")],
        redis_store("a_full_server_refuses_pushes_and_all_else_goes_on"),
    ),
    Full.bug(
        "full-outbox-not-refused",
        "memory: pushes are taken while more records wait for the journal than may",
        &[drop("MemoryStore::decide", "check_room")],
        store_contract("a_full_outbox_refuses_pushes_and_is_settled_into"),
    ),
    Full.bug(
        "redis-full-outbox-not-refused",
        "Redis: pushes are accepted although too many records wait for the journal",
        &[put(
            "push.lua",
            "«$waiting >= $most» then return redis",
            "false",
        )],
        redis_store("pushes_are_refused_while_too_many_records_wait_and_all_else_goes_on"),
    ),
    Full.bug(
        "redis-limit-of-others-not-heeded",
        "Redis: a process without a limit of outboxes pushes without end beside one that is refused",
        &[never("push.lua", "meta[7]")],
        redis_store("a_process_without_a_limit_is_refused_pushes_where_another_one_is"),
    ),
    Full.bug(
        "fetch-without-bytes",
        "a fetch is bounded by the number of events alone",
        &[put("Budget::is_spent", "left_kib == «0»", "usize::MAX")],
        store_contract("a_fetch_ends_with_the_event_that_reaches_its_bytes"),
    ),
    Full.bug(
        "fetch-without-bytes-redis",
        "redis: a script reads bodies whatever their length",
        &[put("is_spent", "$spent >= BUDGET", "false")],
        store_contract("a_fetch_ends_with_the_event_that_reaches_its_bytes"),
    ),
    Full.bug(
        "read-ahead-takes-short-for-last",
        "a fetch that ended at its bound of bytes does not say so",
        &[put(
            "Bucket::lease_batch",
            "$batch.budget.is_spent()",
            "false",
        )],
        store_contract("read_ahead_ends_with_the_event_that_reaches_its_bytes"),
    ),
    Full.bug(
        "full-disk-stays-full",
        "embedded: a full disk is not given back what the file does not need any more",
        &[put("Writer::make_room", "FREE_PAGES_FULL", "u32::MAX")],
        embedded("a_disk_that_was_full_takes_pushes_again_when_everything_was_handled"),
    ),
    Full.bug(
        "change-waits-for-room-without-limit",
        "embedded: a change that finds no room on a full disk is not answered before there is \
         some",
        &[put(
            "Writer::insist",
            "$waited >= «PATIENCE»",
            "Duration::MAX",
        )],
        embedded("a_change_that_finds_no_room_is_answered_and_written_when_there_is_some"),
    ),
];
