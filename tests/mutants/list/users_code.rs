use super::{delivery, edit};
use crate::mutant::Mutant;
use crate::mutant::Promise::{Apart, Attempts, Doubt, Pulled, Stopping};

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "failure-text-unguarded",
        breaks: Attempts,
        bug: "the text of a handler's error is written without catching its panics",
        edits: &[edit(
            "src/panics.rs",
            "let written = caught(|| write!(text, \"{error}\"));",
            "let written: Result<fmt::Result, String> = Ok(write!(text, \"{error}\"));",
        )],
        caught_by: delivery("no_misdeed_of_users_code_takes_an_event_with_it"),
        masked_by: None,
    },
    Mutant {
        name: "failure-dropped-unguarded",
        breaks: Attempts,
        bug: "a handler's error is dropped without catching its panics",
        edits: &[edit(
            "src/handler/failure.rs",
            "panics::dropped(error);",
            "drop(error);",
        )],
        caught_by: delivery("no_misdeed_of_users_code_takes_an_event_with_it"),
        masked_by: None,
    },
    Mutant {
        name: "failure-text-lost",
        breaks: Attempts,
        bug: "the text of a handler's error is empty where it cannot be written",
        edits: &[edit(
            "src/panics.rs",
            "Ok(Err(fmt::Error)) => text.add(\"(its Display returned an error)\"),",
            "Ok(Err(fmt::Error)) => text.text.clear(),",
        )],
        caught_by: delivery("no_misdeed_of_users_code_takes_an_event_with_it"),
        masked_by: None,
    },
    Mutant {
        name: "last-worker-waits-too",
        breaks: Apart,
        bug: "a handler waits for room in the ring of its own queue though every worker does",
        edits: &[edit(
            "src/flow/handlers/waits.rs",
            "if workers == 0 || waiting.clone().count() < workers {",
            "if true || workers == 0 || waiting.clone().count() < workers {",
        )],
        caught_by: delivery("a_handler_that_publishes_to_its_own_queue_does_not_wait_for_itself"),
        masked_by: None,
    },
    Mutant {
        name: "published-value-dropped-bare",
        breaks: Stopping,
        bug: "values that wait in the ring are dropped together, without catching their panics",
        edits: &[edit(
            "src/panics.rs",
            "            dropped(value);\n",
            "            drop(value);\n",
        )],
        caught_by: delivery("values_that_wait_in_the_ring_may_panic_when_they_are_dropped"),
        masked_by: None,
    },
    Mutant {
        name: "state-dropped-bare",
        breaks: Stopping,
        bug: "a state that panics when it is dropped ends the stop before the store is closed",
        edits: &[edit(
            "src/handler/extract.rs",
            ".for_each(panics::dropped);",
            ".for_each(drop);",
        )],
        caught_by: delivery("states_and_handlers_may_panic_when_they_are_dropped"),
        masked_by: None,
    },
    Mutant {
        name: "clock-panic-passed-on",
        breaks: Doubt,
        bug: "a clock that panics ends the thread that reads it",
        edits: &[edit(
            "src/time.rs",
            "let read = panics::caught(|| self.near.mono());",
            "let read: std::result::Result<Mono, String> = Ok(self.near.mono());",
        )],
        caught_by: delivery("a_clock_that_panics_now_and_then_stops_nothing"),
        masked_by: None,
    },
    Mutant {
        name: "runtime-unchecked",
        breaks: Doubt,
        bug: "a bus starts on a runtime without timers",
        edits: &[edit("src/bus/builder.rs", "        check_timers()?;\n", "")],
        caught_by: delivery("a_runtime_without_timers_is_refused"),
        masked_by: None,
    },
    Mutant {
        name: "call-outlives-its-event",
        breaks: Pulled,
        bug: "on a store of one process a call does not look whether its event has ended",
        edits: &[edit(
            "src/bus/call.rs",
            "stored = self.stored_reply(id) => stored,",
            "stored = self.stored_reply(id), if is_shared => stored,",
        )],
        caught_by: delivery("a_call_ends_with_its_event_however_that_ends"),
        masked_by: None,
    },
];
