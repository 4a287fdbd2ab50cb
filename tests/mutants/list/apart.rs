use super::{delivery, edit, test};
use crate::mutant::{Mutant, Promise::Apart};

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "mover-waits-for-a-full-ring",
        breaks: Apart,
        bug: "the mover waits until a full ring has room",
        edits: &[edit(
            "src/flow/consumers/consumer.rs",
            "        self.publisher().try_publish_many(&mut tasks);
        if tasks.is_empty() {
",
            "        while !tasks.is_empty() {
            self.publisher().try_publish_many(&mut tasks);
        }
        if tasks.is_empty() {
",
        )],
        caught_by: delivery("a_ring_that_publishers_have_filled_delays_no_other_queue"),
        masked_by: None,
    },
    Mutant {
        name: "blocking-handler-on-the-runtime",
        breaks: Apart,
        bug: "a handler that blocks runs on the runtime's threads",
        edits: &[edit(
            "src/flow/handlers/attempt.rs",
            "if let Err(error) = self.threads.run(job) {",
            "if let Err::<(), std::io::Error>(error) = {\n            job();\n            Ok(())\n        } {",
        )],
        caught_by: delivery("a_handler_that_blocks_its_thread_delays_no_other_queue"),
        masked_by: None,
    },
    Mutant {
        name: "blocking-handlers-share-threads",
        breaks: Apart,
        bug: "the blocking handlers of all queues share the threads of the runtime",
        edits: &[edit(
            "src/flow/handlers/attempt.rs",
            "if let Err(error) = self.threads.run(job) {",
            "tokio::task::spawn_blocking(job);\n        \
             if let Err(error) = self.threads.run(|| ()) {",
        )],
        caught_by: delivery("hung_handlers_of_one_queue_take_no_thread_of_another"),
        masked_by: None,
    },
    Mutant {
        name: "stuck-queue-keeps-what-waits",
        breaks: Apart,
        bug: "a process without a free thread keeps the events that others could start",
        edits: &[edit(
            "src/flow/consumers/set.rs",
            "let is_stuck = workers > 0 && (stuck >= workers || is_blocked);",
            "let is_stuck = workers == usize::MAX;",
        )],
        caught_by: delivery("a_queue_without_a_free_thread_hands_back_what_waits_for_one"),
        masked_by: None,
    },
    Mutant {
        name: "late-return-counts",
        breaks: Apart,
        bug: "a handler that blocks its thread beyond its timeout is acknowledged",
        edits: &[edit(
            "src/flow/handlers/executor.rs",
            "A::CAN_BE_DROPPED && ran > self.deps.options.timeout.saturating_add(SLACK)",
            "A::CAN_BE_DROPPED && ran > Duration::MAX.saturating_sub(SLACK)",
        )],
        caught_by: delivery("a_handler_that_blocks_its_thread_beyond_its_timeout_has_timed_out"),
        masked_by: None,
    },
    Mutant {
        name: "panic-not-caught",
        breaks: Apart,
        bug: "a handler's panic is not caught where it runs",
        edits: &[edit(
            "src/flow/pool/running_job.rs",
            "match catch_unwind(AssertUnwindSafe(|| work.within(ticket, || future.poll(cx)))) {",
            "match Ok::<_, Box<dyn Any + Send>>(work.within(ticket, || future.poll(cx))) {",
        )],
        caught_by: test("lib", "a_panic_ends_its_own_job_and_nothing_else"),
        masked_by: None,
    },
    Mutant {
        name: "hung-handler-never-times-out",
        breaks: Apart,
        bug: "a time-out does not end a handler that waits",
        edits: &[edit(
            "src/flow/pool/running_job.rs",
            "        if timed_out {\n",
            "        if false && timed_out {\n",
        )],
        caught_by: delivery("a_time_out_drops_the_handler_where_it_waits"),
        masked_by: None,
    },
    Mutant {
        name: "what-suspends-keeps-the-others",
        breaks: Apart,
        bug: "a handler that waits keeps the jobs that its worker had taken with it",
        edits: &[edit(
            "src/flow/pool/running_job.rs",
            "if !local.is_empty() {",
            "if false && !local.is_empty() {",
        )],
        caught_by: test("lib", "one_job_that_suspends_holds_up_no_other_one"),
        masked_by: None,
    },
    Mutant {
        name: "bucket-takes-all-room",
        breaks: Apart,
        bug: "a fetch of one bucket asks for all the room of its queue",
        edits: &[edit(
            "src/core/queue_state.rs",
            "_ => self.room().div_ceil(2),",
            "_ => self.room(),",
        )],
        caught_by: delivery("a_bucket_that_does_not_answer_leaves_room_to_the_others"),
        masked_by: None,
    },
    Mutant {
        name: "replacing-pushes-in-one-call",
        breaks: Apart,
        bug: "Redis: a thousand events that replace others, and their records, are pushed in one call",
        edits: &[edit(
            "src/store/redis/push.rs",
            "let is_full = bytes > BYTES_MAX &&",
            "let is_full = bytes > BYTES_MAX * 1_000 &&",
        )],
        caught_by: test("redis_store", "no_script_keeps_a_server_for_long"),
        masked_by: None,
    },
    Mutant {
        name: "audit-of-any-size",
        breaks: Apart,
        bug: "Redis: an audit looks at a bucket of any size in one step",
        edits: &[edit(
            "src/store/redis/check.rs",
            "self.audit_buckets(AUDITED_MAX).await",
            "self.audit_buckets(AUDITED_MAX * 100_000).await",
        )],
        caught_by: test("redis_store", "no_script_keeps_a_server_for_long"),
        masked_by: None,
    },
];
