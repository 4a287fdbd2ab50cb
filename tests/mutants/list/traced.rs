use super::{edit, test};
use crate::mutant::{Mutant, Promise::Traced, Test};

const fn traces(name: &'static str) -> Test {
    test("traces", name)
}

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "attempt-is-a-child",
        breaks: Traced,
        bug: "the span of an attempt is a child of whatever span is open on its thread",
        edits: &[edit(
            "src/trace/span.rs",
            "        parent: None,\n        Level::DEBUG,\n        HANDLE,\n",
            "        Level::DEBUG,\n        HANDLE,\n",
        )],
        caught_by: traces("a_push_lies_in_its_pushers_span_and_an_attempt_in_none"),
        masked_by: None,
    },
    Mutant {
        name: "polled-outside-of-its-span",
        breaks: Traced,
        bug: "a handler is polled outside of its span",
        edits: &[edit(
            "src/flow/pool/running_job.rs",
            "work.within(ticket, || future.poll(cx))",
            "{\n            let _ = (work, ticket);\n            future.poll(cx)\n        }",
        )],
        caught_by: traces("what_a_handler_says_lies_in_its_span_also_after_it_was_suspended"),
        masked_by: None,
    },
    Mutant {
        name: "trace-left-behind",
        breaks: Traced,
        bug: "what one handler carries is carried on by the next one on its thread",
        edits: &[edit(
            "src/trace/context.rs",
            "let _restored = RestoreGuard(before); // also when `run` panics",
            "std::mem::forget(RestoreGuard(before));",
        )],
        caught_by: traces("handlers_that_run_at_once_do_not_carry_on_each_others_trace"),
        masked_by: None,
    },
    Mutant {
        name: "trace-ends-on-a-thread",
        breaks: Traced,
        bug: "what a blocking handler pushes is of no trace",
        edits: &[edit(
            "src/flow/handlers/attempt.rs",
            "carried.within(call)",
            "{\n                let _ = &carried;\n                call()\n            }",
        )],
        caught_by: traces("what_a_blocking_handler_pushes_carries_on_the_trace"),
        masked_by: None,
    },
    Mutant {
        name: "no-room-for-a-trace",
        breaks: Traced,
        bug: "an event that has all the headers it may have gets more for its trace",
        edits: &[edit(
            "src/trace/context.rs",
            "if headers.len() >= HEADERS_MAX || headers",
            "if headers",
        )],
        caught_by: traces("an_event_without_room_for_another_header_is_pushed_without_a_trace"),
        masked_by: None,
    },
    Mutant {
        name: "failure-is-silent",
        breaks: Traced,
        bug: "nothing is said of a handler that failed and is tried again",
        edits: &[
            edit(
                "src/trace/log.rs",
                "        AttemptOutcome::Retry(delay, failing) => {\n",
                "        AttemptOutcome::Retry(delay, failing) if delay.is_zero() => {\n",
            ),
            edit(
                "src/trace/log.rs",
                "        AttemptOutcome::Ack\n",
                "        AttemptOutcome::Retry(..)\n        | AttemptOutcome::Ack\n",
            ),
        ],
        caught_by: traces("a_failing_handler_says_so_once_for_each_attempt"),
        masked_by: None,
    },
    Mutant {
        name: "decoder-quoted",
        breaks: Traced,
        bug: "the log has a decoder's words, which quote the payload",
        edits: &[edit(
            "src/flow/handlers/executor.rs",
            "        panics::reported(|| trace::unread(delivery, cause, None));\n",
            "        panics::reported(|| trace::unread(delivery, cause, None));\n        tracing::debug!(words);\n",
        )],
        caught_by: traces("no_payload_is_ever_heard_of"),
        masked_by: None,
    },
    Mutant {
        name: "handler-not-linked",
        breaks: Traced,
        bug: "OpenTelemetry: the span of a handler is linked to nothing",
        edits: &[edit(
            "src/trace/otel.rs",
            "span.add_link(place);",
            "drop(place);",
        )],
        caught_by: traces("a_link_goes_from_bus_to_bus_over_redis"),
        masked_by: None,
    },
    Mutant {
        name: "stopped-store-logs-each-event",
        breaks: Traced,
        bug: "a store that has stopped is logged for each event that waits",
        edits: &[edit(
            "src/flow/handlers/deps.rs",
            "            panics::reported(|| self.unnoted.failed(queue.clone(), &error));\n",
            "            tracing::error!(%queue, %error, \"handler not started\");\n",
        )],
        caught_by: test(
            "outages",
            "a_store_that_stops_is_logged_once_however_much_waits",
        ),
        masked_by: None,
    },
];
