use super::{drop_element, outages, put, traces};
use crate::mutant::{Mutant, Promise::Traced};

pub(crate) const MUTANTS: &[Mutant] = &[
    Traced.bug(
        "attempt-is-a-child",
        "the span of an attempt is a child of whatever span is open on its thread",
        &[drop_element("span::handle", "parent: None")],
        traces("a_push_lies_in_its_pushers_span_and_an_attempt_in_none"),
    ),
    Traced.bug(
        "polled-outside-of-its-span",
        "a handler is polled outside of its span",
        &[put(
            "RunningJob::poll",
            "$work.within($ticket, || $future.poll($cx))",
            "{ let _ = ($work, $ticket); $future.poll($cx) }",
        )],
        traces("what_a_handler_says_lies_in_its_span_also_after_it_was_suspended"),
    ),
    Traced.bug(
        "trace-left-behind",
        "what one handler carries is carried on by the next one on its thread",
        &[put(
            "CurrentEvent::within",
            "let $_restored = RestoreGuard($before)",
            "std::mem::forget(RestoreGuard($before))",
        )],
        traces("handlers_that_run_at_once_do_not_carry_on_each_others_trace"),
    ),
    Traced.bug(
        "trace-ends-on-a-thread",
        "what a blocking handler pushes is of no trace",
        &[put(
            "BlockingAttempt::attempt",
            "«$carried.within($call)»)",
            "{ let _ = &$carried; $call() }",
        )],
        traces("what_a_blocking_handler_pushes_carries_on_the_trace"),
    ),
    Traced.bug(
        "no-room-for-a-trace",
        "an event that has all the headers it may have gets more for its trace",
        &[put("stamp", "«len() >= HEADERS_MAX || $headers.»iter", "")],
        traces("an_event_without_room_for_another_header_is_pushed_without_a_trace"),
    ),
    Traced.bug(
        "failure-is-silent",
        "nothing is said of a handler that failed and is tried again",
        &[
            put(
                "attempt_failed",
                "Retry($delay, $failing) «»",
                "if $delay.is_zero()",
            ),
            put(
                "attempt_failed",
                "«»Ack | AttemptOutcome",
                "Retry(..) | AttemptOutcome::",
            ),
        ],
        traces("a_failing_handler_says_so_once_for_each_attempt"),
    ),
    Traced.bug(
        "decoder-quoted",
        "the log has a decoder's words, which quote the payload",
        &[put(
            "Executor::settle_unread",
            "let $words = cut_error $... trace::unread($delivery, $cause, None)); «»",
            "tracing::debug!($words);",
        )],
        traces("no_payload_is_ever_heard_of"),
    ),
    Traced.bug(
        "handler-not-linked",
        "OpenTelemetry: the span of a handler is linked to nothing",
        &[put("link", "$span.add_link", "drop")],
        traces("a_link_goes_from_bus_to_bus_over_redis"),
    ),
    Traced.bug(
        "stopped-store-logs-each-event",
        "a store that has stopped is logged for each event that waits",
        &[put(
            "ExecutorDeps::note_start",
            "panics::reported(|| self.unnoted.failed($queue.clone(), &$error))",
            r#"tracing::error!(%$queue, %$error, "handler not started")"#,
        )],
        outages("a_store_that_stops_is_logged_once_however_much_waits"),
    ),
];
