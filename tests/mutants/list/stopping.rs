use super::{delivery, edit};
use crate::mutant::{Mutant, Promise::Stopping};

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "ring-not-handed-back",
        breaks: Stopping,
        bug: "a stop forgets to hand back what waits in the ring",
        edits: &[edit(
            "src/flow/consumers/consumer.rs",
            "Task::Stored(job) => self.pool.work().hand_back(&job),",
            "Task::Stored(_) => {}",
        )],
        caught_by: delivery("what_never_started_is_handed_back_at_once_and_has_used_nothing"),
        masked_by: None,
    },
    Mutant {
        name: "read-ahead-not-handed-back",
        breaks: Stopping,
        bug: "a stop forgets to hand back what was read ahead",
        edits: &[edit(
            "src/core/node/mod.rs",
            "                self.hand_back_prefetched(now, |_| true);\n",
            "",
        )],
        caught_by: delivery("what_was_read_ahead_is_handed_back_and_waits_on"),
        masked_by: None,
    },
    Mutant {
        name: "fetched-after-the-stop-kept",
        breaks: Stopping,
        bug: "what a fetch brings after the stop is kept until its lease is lost",
        edits: &[edit(
            "src/core/node/replies.rs",
            "if self.stopping || queue.is_paused() {",
            "if queue.is_paused() {",
        )],
        caught_by: delivery("what_a_late_fetch_brings_is_handed_back"),
        masked_by: None,
    },
    Mutant {
        name: "no-grace",
        breaks: Stopping,
        bug: "a stop does not wait for what runs",
        edits: &[edit(
            "src/flow/start.rs",
            "tokio::time::timeout(grace, &mut finished)",
            "tokio::time::timeout(grace * 0, &mut finished)",
        )],
        caught_by: delivery("a_stop_waits_for_what_runs_and_for_nothing_else"),
        masked_by: None,
    },
    Mutant {
        name: "interrupted-not-counted",
        breaks: Stopping,
        bug: "an attempt that a stop interrupts is handed back as if it had not started",
        edits: &[edit(
            "src/flow/handlers/executor.rs",
            "JobEnd::Cut => retry(Cause::Interrupted, Some(Duration::ZERO), None),",
            "JobEnd::Cut => AttemptOutcome::Release,",
        )],
        caught_by: delivery("what_runs_beyond_the_grace_is_cut_and_its_attempt_counts"),
        masked_by: None,
    },
    Mutant {
        name: "queue-outlives-its-bus",
        breaks: Stopping,
        bug: "the queues of a bus that was dropped go on to accept",
        edits: &[edit(
            "src/bus/owner.rs",
            "if inner.is_closed.swap(true, Ordering::AcqRel) {",
            "if inner.is_closed.load(Ordering::Acquire) {",
        )],
        caught_by: delivery("a_queue_of_a_bus_that_is_gone_accepts_nothing"),
        masked_by: None,
    },
    Mutant {
        name: "file-kept-by-a-queue",
        breaks: Stopping,
        bug: "a queue keeps the file of a bus that is gone",
        edits: &[edit(
            "src/bus/owner.rs",
            "        if !inner.is_lent {\n",
            "        if inner.is_lent {\n",
        )],
        caught_by: delivery("the_file_is_free_although_a_queue_outlives_its_bus"),
        masked_by: None,
    },
    Mutant {
        name: "settles-not-waited-for",
        breaks: Stopping,
        bug: "a stop is over before the last outcomes are in the store",
        edits: &[edit(
            "src/core/node/mod.rs",
            ".all(|state| (state.settler.len() == 0 && state.fetching.is_none()) || state.failed)",
            ".all(|_| true)",
        )],
        caught_by: delivery("a_stop_waits_until_the_store_has_every_outcome"),
        masked_by: None,
    },
];
