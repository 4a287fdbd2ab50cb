use super::{metrics, put};
use crate::mutant::{Mutant, Promise::Metrics};

pub(crate) const MUTANTS: &[Mutant] = &[
    Metrics.bug(
        "fetch-told-as-start",
        "the time that a ready event waits in the store is told as time in the process",
        &[put(
            "StartMetrics::started",
            "$stages: $... «start_us»",
            "start_us + $stages.fetch_us",
        )],
        metrics("a_store_that_is_slow_to_fetch_shows_up_in_that_stage_only"),
    ),
    Metrics.bug(
        "stages-do-not-add-up",
        "a step after the start is not cut at the start, so that stages and total differ",
        &[put(
            "Stages::of",
            "«within($moved, $due, $end)»; let $fetched",
            "if $moved < $due { $due } else { $moved }",
        )],
        metrics("the_stages_add_up_to_the_total_whatever_the_clocks_say"),
    ),
    Metrics.bug(
        "refused-outcomes-counted",
        "an outcome that came after its lease was lost counts as settled",
        &[put(
            "MoverCounters::settled",
            "«$accepted» { $sums[$settled as usize]",
            "true",
        )],
        metrics("what_a_silent_node_held_is_counted_as_taken_back_and_its_outcomes_as_lost"),
    ),
    Metrics.bug(
        "duplicates-counted-as-pushed",
        "a push of what was there already counts as a new event",
        &[put(
            "receipt::count",
            "$new, mut $... is_duplicate() => «$duplicates»",
            "$new",
        )],
        metrics("pushes_are_counted_as_accepted_duplicate_or_refused"),
    ),
    Metrics.bug(
        "gauges-overwrite-each-other",
        "of queues that share a label the last one is told of, and not their sum",
        &[put(
            "GaugeUpdater::look",
            "«$doing[*$place]».",
            "QueueActivity::default()",
        )],
        metrics("queues_beyond_the_bound_are_told_of_together"),
    ),
    Metrics.bug(
        "labels-without-a-bound",
        "every queue has a label of its own, however many there are",
        &[put(
            "QueueLabels::has_room",
            "$own.of.len() < self.max",
            "true",
        )],
        metrics("queues_beyond_the_bound_are_told_of_together"),
    ),
    Metrics.bug(
        "gauges-left-as-they-were",
        "the mover sleeps on while the gauges say that something goes on",
        &[put(
            "GaugeUpdater::before_sleep",
            "$at«.min(self.next)»",
            "",
        )],
        metrics("what_is_over_within_a_second_is_not_said_to_go_on"),
    ),
    Metrics.bug(
        "hung-calls-not-seen",
        "a call that the store has not answered for long is no error",
        &[put(
            "InFlightCall::drop",
            "UNANSWERED_AFTER",
            "Duration::MAX",
        )],
        metrics("a_call_that_is_given_up_is_timed_and_is_no_error_before_ten_seconds"),
    ),
];
