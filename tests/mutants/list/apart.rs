use super::{delivery, lib, never, put, redis_store};
use crate::mutant::{Mutant, Promise::Apart};

pub(crate) const MUTANTS: &[Mutant] = &[
    Apart.bug(
        "mover-waits-for-a-full-ring",
        "the mover waits until a full ring has room",
        &[put(
            "HandlerConsumer::publish_jobs",
            "self.publisher().try_publish_many(&mut $tasks);",
            "while !$tasks.is_empty() { self.publisher().try_publish_many(&mut $tasks); }",
        )],
        delivery("a_ring_that_publishers_have_filled_delays_no_other_queue"),
    ),
    Apart.bug(
        "blocking-handler-on-the-runtime",
        "a handler that blocks runs on the runtime's threads",
        &[put(
            "BlockingAttempt::attempt",
            "Err«($error) = self.threads.run($job)»",
            "::<(), std::io::Error>($error) = { $job(); Ok(()) }",
        )],
        delivery("a_handler_that_blocks_its_thread_delays_no_other_queue"),
    ),
    Apart.bug(
        "blocking-handlers-share-threads",
        "the blocking handlers of all queues share the threads of the runtime",
        &[
            put(
                "BlockingAttempt::attempt",
                "$job = move $... «; if let Err»",
                "; tokio::task::spawn_blocking($job); if let Err",
            ),
            put("BlockingAttempt::attempt", "run(«$job»)", "|| ()"),
        ],
        delivery("hung_handlers_of_one_queue_take_no_thread_of_another"),
    ),
    Apart.bug(
        "stuck-queue-keeps-what-waits",
        "a process without a free thread keeps the events that others could start",
        &[put(
            "Consumers::steer",
            "$workers «> 0 && ($stuck >= $workers || $is_blocked)»",
            "== usize::MAX",
        )],
        delivery("a_queue_without_a_free_thread_hands_back_what_waits_for_one"),
    ),
    Apart.bug(
        "late-return-counts",
        "a handler that blocks its thread beyond its timeout is acknowledged",
        &[put(
            "Executor::is_too_late",
            "self.deps.options.timeout.saturating_add",
            "Duration::MAX.saturating_sub",
        )],
        delivery("a_handler_that_blocks_its_thread_beyond_its_timeout_has_timed_out"),
    ),
    Apart.bug(
        "panic-not-caught",
        "a handler's panic is not caught where it runs",
        &[put(
            "RunningJob::poll",
            "«catch_unwind(AssertUnwindSafe(|| $work.within($ticket, || \
             $future.poll($cx))))»",
            "Ok::<_, Box<dyn std::any::Any + Send>>($work.within($ticket, || $future.poll($cx)))",
        )],
        lib("a_panic_ends_its_own_job_and_nothing_else"),
    ),
    Apart.bug(
        "hung-handler-never-times-out",
        "a time-out does not end a handler that waits",
        &[put(
            "RunningJob::watch",
            "if «» $timed_out { Poll",
            "false &&",
        )],
        delivery("a_time_out_drops_the_handler_where_it_waits"),
    ),
    Apart.bug(
        "what-suspends-keeps-the-others",
        "a handler that waits keeps the jobs that its worker had taken with it",
        &[never("RunningJob::suspend", "is_empty")],
        lib("one_job_that_suspends_holds_up_no_other_one"),
    ),
    Apart.bug(
        "bucket-takes-all-room",
        "a fetch of one bucket asks for all the room of its queue",
        &[put("QueueState::share", ".div_ceil(2)", "")],
        delivery("a_bucket_that_does_not_answer_leaves_room_to_the_others"),
    ),
    Apart.bug(
        "push-reads-on",
        "Redis: a push reads all events that its own meet, however large they are, in one call",
        &[put("push.lua", "and «not is_spent()» do", "true")],
        redis_store("a_push_that_reads_large_events_takes_several_calls_and_decides_each_once"),
    ),
    Apart.bug(
        "audit-of-any-size",
        "Redis: an audit looks at a bucket of any size in one step",
        &[put("RedisStore::audit", "AUDITED_MAX«»", "* 100_000")],
        redis_store("no_script_keeps_a_server_for_long"),
    ),
];
