use super::{delivery, drop, negate, put, store_contract};
use crate::mutant::{Mutant, Promise::Stopping};

pub(crate) const MUTANTS: &[Mutant] = &[
    Stopping.bug(
        "ring-not-handed-back",
        "a stop forgets to hand back what waits in the ring",
        &[put(
            "HandlerConsumer::hand_back",
            "Stored«($job) => self.pool.work().hand_back(&$job),» Task",
            "(_) => {}",
        )],
        delivery("what_never_started_is_handed_back_at_once_and_has_used_nothing"),
    ),
    Stopping.bug(
        "read-ahead-not-handed-back",
        "a stop forgets to hand back what was read ahead",
        &[drop(
            "Node::handle",
            "self.hand_back_prefetched($now, |_| true)",
        )],
        delivery("what_was_read_ahead_is_handed_back_and_waits_on"),
    ),
    Stopping.bug(
        "fetched-after-the-stop-kept",
        "what a fetch brings after the stop is kept until its lease is lost",
        &[put("Node::replied", "«self.stopping ||» $queue", "")],
        delivery("what_a_late_fetch_brings_is_handed_back"),
    ),
    Stopping.bug(
        "no-grace",
        "a stop does not wait for what runs",
        &[put(
            "Flow::end_handlers",
            "$finished); if timeout($grace«»",
            "* 0",
        )],
        delivery("a_stop_waits_for_what_runs_and_for_nothing_else"),
    ),
    Stopping.bug(
        "interrupted-not-counted",
        "an attempt that a stop interrupts is handed back as if it had not started",
        &[put(
            "executor::judge",
            "Interrupt { free: $options.free_interruptions }",
            "Release",
        )],
        delivery("what_runs_beyond_the_grace_is_cut_and_uses_no_attempt"),
    ),
    Stopping.bug(
        "queue-outlives-its-bus",
        "the queues of a bus that was dropped go on to accept",
        &[put(
            "BusOwner::drop",
            "swap(true, Ordering::AcqRel)",
            "load(Ordering::Acquire)",
        )],
        delivery("a_queue_of_a_bus_that_is_gone_accepts_nothing"),
    ),
    Stopping.bug(
        "file-kept-by-a-queue",
        "a queue keeps the file of a bus that is gone",
        &[negate("Inner::close_unless_shared", "is_lent")],
        delivery("the_file_is_free_although_a_queue_outlives_its_bus"),
    ),
    Stopping.bug(
        "settles-not-waited-for",
        "a stop is over before the last outcomes are in the store",
        &[put(
            "Node::is_done",
            "$state| ($state.settler.len() == 0 && $state.fetching.is_none()) || \
             $state.failed",
            "_| true",
        )],
        delivery("a_stop_waits_until_the_store_has_every_outcome"),
    ),
    Stopping.bug(
        "every-interruption-counts",
        "an interruption by a stop uses up an attempt",
        &[put(
            "Bucket::conclude",
            "$interruptions «< $free.min(FREE_INTERRUPTIONS_MAX)»",
            "+ FREE_INTERRUPTIONS_MAX < $free",
        )],
        store_contract("interruptions_in_a_row_are_free_up_to_a_bound"),
    ),
    Stopping.bug(
        "interruptions-free-for-ever",
        "a handler that never ends within the grace never uses up an attempt",
        &[put(
            "Bucket::conclude",
            "$interruptions < $free.min(FREE_INTERRUPTIONS_MAX)",
            "$free > 0",
        )],
        store_contract("interruptions_in_a_row_are_free_up_to_a_bound"),
    ),
    Stopping.bug(
        "redis-interruptions-free-for-ever",
        "Redis: a handler that never ends within the grace never uses up an attempt",
        &[put(
            "lua::conclude",
            "$it.interruptions < byte($said, 35)",
            "byte($said, 35) > 0",
        )],
        store_contract("interruptions_in_a_row_are_free_up_to_a_bound"),
    ),
    Stopping.bug(
        "interruptions-forgotten-at-a-restart",
        "embedded: how often an event was interrupted is not in the file",
        &[put("of_used", "| i64::from($used.interruptions) << 16", "")],
        delivery("a_handler_that_never_ends_in_the_grace_is_a_dead_letter_at_last"),
    ),
    Stopping.bug(
        "grace-without-a-word",
        "no handler is told that the grace has begun",
        &[drop("Flow::stop", "parts.stopping")],
        delivery("a_handler_is_told_when_the_grace_begins"),
    ),
    Stopping.bug(
        "grace-twice",
        "after handlers that block, the store has the whole grace again",
        &[put(
            "Flow::stop",
            "«saturating_sub($began.elapsed()).»max",
            "",
        )],
        delivery("a_handler_that_blocks_does_not_take_the_grace_twice"),
    ),
    Stopping.bug(
        "requests-to-a-reader-that-is-gone",
        "requests for leases are accepted when nobody reads them any more",
        &[put(
            "Pulls::close",
            "«take()»; drop",
            "as_mut().map(std::mem::take)",
        )],
        delivery("after_its_runtime_has_ended_each_call_returns"),
    ),
    Stopping.bug(
        "setting-ends-with-its-caller",
        "a runtime setting whose caller is gone is stored and not applied",
        &[put("Completed::drop", "«» self.has_begun", "!")],
        delivery("what_is_dropped_half_way_leaves_a_bus_that_works"),
    ),
    Stopping.bug(
        "flow-outlives-its-runtime",
        "when the runtime of a bus has ended, those who wait for it wait on",
        &[drop("RuntimeGuard::drop", "$end.end();")],
        delivery("those_who_wait_when_the_runtime_ends_are_refused"),
    ),
    Stopping.bug(
        "file-of-a-dropped-bus-taken",
        "who opens a file again does not wait until it is closed",
        &[drop("EmbeddedStore::open_with", "closing::wait")],
        delivery("a_bus_that_is_dropped_and_opened_again_at_once_opens"),
    ),
];
