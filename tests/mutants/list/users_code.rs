use super::{always, delivery, drop, lib, never, put};
use crate::mutant::{
    Mutant,
    Promise::{Apart, Attempts, Doubt, Pulled, Stopping},
};

pub(crate) const MUTANTS: &[Mutant] = &[
    Attempts.bug(
        "failure-text-unguarded",
        "the text of a handler's error is written without catching its panics",
        &[put(
            "error_text",
            "$written «= caught(||» write",
            ": Result<fmt::Result, String> = Ok(",
        )],
        delivery("no_misdeed_of_users_code_takes_an_event_with_it"),
    ),
    Attempts.bug(
        "failure-dropped-unguarded",
        "a handler's error is dropped without catching its panics",
        &[put("Failure::report", "panics::dropped", "drop")],
        delivery("no_misdeed_of_users_code_takes_an_event_with_it"),
    ),
    Attempts.bug(
        "failure-text-lost",
        "the text of a handler's error is empty where it cannot be written",
        &[put(
            "error_text",
            r#"$text.«add("(its Display returned an error)")»"#,
            "$text.clear()",
        )],
        delivery("no_misdeed_of_users_code_takes_an_event_with_it"),
    ),
    Attempts.bug(
        "failure-text-without-words-never-ends",
        "an error's text to which nothing is added for ever keeps its worker",
        &[put(
            "BoundedText::write_str",
            "self.is_full |= «self.empty > EMPTY_MAX»",
            "false",
        )],
        lib("a_text_ends_although_its_writer_goes_on_without_a_word"),
    ),
    Apart.bug(
        "recorder-panic-ends-the-start",
        "a metrics recorder that panics when it is asked for a metric ends the start of a bus",
        &[put(
            "Histogram::of",
            "«panics::caught($look_up).unwrap_or_else(|_| ::metrics::Histogram::noop())»",
            "$look_up()",
        )],
        delivery("a_bus_does_all_it_does"),
    ),
    Apart.bug(
        "last-worker-waits-too",
        "a handler waits for room in the ring of its own queue though every worker does",
        &[always("State::is_stuck", "clone().count")],
        delivery("a_handler_that_publishes_to_its_own_queue_does_not_wait_for_itself"),
    ),
    Apart.bug(
        "fewer-workers-wait-on",
        "handlers that wait for themselves since there are fewer workers wait on",
        &[never("QueueWaits::set_workers", "refuse_endless")],
        delivery("fewer_workers_leave_nobody_who_waits_for_itself"),
    ),
    Stopping.bug(
        "published-value-dropped-bare",
        "values that wait in the ring are dropped together, without catching their panics",
        &[put("Contained::drop", "«dropped»(", "drop")],
        delivery("values_that_wait_in_the_ring_may_panic_when_they_are_dropped"),
    ),
    Stopping.bug(
        "state-dropped-bare",
        "a state that panics when it is dropped ends the stop before the store is closed",
        &[put("States::drop", "panics::dropped", "drop")],
        delivery("states_and_handlers_may_panic_when_they_are_dropped"),
    ),
    Doubt.bug(
        "clock-panic-passed-on",
        "a clock that panics ends the thread that reads it",
        &[put(
            "GuardedClock::mono",
            "$read «= panics::caught(||»",
            ": std::result::Result<Mono, String> = Ok(",
        )],
        delivery("a_clock_that_panics_now_and_then_stops_nothing"),
    ),
    Doubt.bug(
        "runtime-unchecked",
        "a bus starts on a runtime without timers",
        &[drop("BusBuilder::start", "check_timers")],
        delivery("a_runtime_without_timers_is_refused"),
    ),
    Pulled.bug(
        "call-outlives-its-event",
        "on a store of one process a call does not look whether its event has ended",
        &[put(
            "Queue::call",
            "let $is_shared = self.handle.inner $... stored_reply($id) «»",
            ", if $is_shared",
        )],
        delivery("a_call_ends_with_its_event_however_that_ends"),
    ),
];
