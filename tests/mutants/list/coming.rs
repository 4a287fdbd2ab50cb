use super::{coming, dashboards, drop, lib, never, put, redis_store, store_contract};
use crate::mutant::{Mutant, Promise::Metrics};

pub(crate) const MUTANTS: &[Mutant] = &[
    Metrics.bug(
        "depth-added-up-in-a-process",
        "two buses of a process report a queue of their store twice",
        &[put("depth::sum", "or_default().«max»", "add")],
        coming("each_node_of_a_store_reports_all_that_is_in_its_queues"),
    ),
    Metrics.bug(
        "orphans-not-counted",
        "of a queue that nobody consumes nobody tells how many events wait in it",
        &[put(
            "DepthSampler::count",
            "$own.contains($queue) || «!$consumed.contains($queue)»",
            "(false && !$consumed.contains($queue))",
        )],
        coming("a_queue_that_nobody_consumes_is_reported_by_all"),
    ),
    Metrics.bug(
        "gauges-outlive-their-bus",
        "what a bus has told of depth stays when it has stopped",
        &[drop("DepthSampler::drop", "tell_shares")],
        coming("each_node_of_a_store_reports_all_that_is_in_its_queues"),
    ),
    Metrics.bug(
        "empty-buckets-not-heard-of",
        "the sampler does not hear that something came into a bucket that was empty",
        &[put(
            "Inbox::earlier",
            "$active.note($bucket)",
            "let _ = $active",
        )],
        coming("a_bucket_that_was_empty_is_counted_as_soon_as_something_comes"),
    ),
    Metrics.bug(
        "empty-buckets-asked-each-time",
        "the sampler asks every bucket each time, also those in which nothing is",
        &[put(
            "DepthSampler::count",
            "$empty_for.is_some_and(|$span| $is_told_of || $span >= EMPTY_EVERY)",
            "false",
        )],
        redis_store("a_bus_that_counts_its_idle_queues_asks_for_no_more"),
    ),
    Metrics.bug(
        "retired-buckets-asked-each-time",
        "the sampler asks every bucket of a queue that is not consumed here each time",
        &[put(
            "DepthSampler::count",
            "$is_told_of || «$span >= EMPTY_EVERY»",
            "false",
        )],
        redis_store("a_bus_that_consumes_nothing_asks_retired_queues_in_turns"),
    ),
    Metrics.bug(
        "oldest-of-what-has-left",
        "Redis: an entry that its event has left behind counts as the oldest ready event",
        &[put(
            "oldest_of",
            "is_placed($packed, $number_of)",
            "$packed",
        )],
        store_contract("stats_tell_since_when_the_next_event_is_ready"),
    ),
    Metrics.bug(
        "forecast-off-by-one-ms",
        "in a crowded cell what is due at the very end of a span is not counted",
        &[put(
            "DueCounting::until",
            "+ $fine.get(&$ms).unwrap_or(&0)",
            "",
        )],
        lib("what_is_due_until_any_instant_is_counted_exactly"),
    ),
    Metrics.bug(
        "steps-of-a-forecast-add-up",
        "each step of a forecast counts what falls due in the steps before as well",
        &[put("Bus::forecast", "$before «» }); Ok", ".min(0)")],
        coming("a_forecast_says_for_each_step_what_falls_due_in_it"),
    ),
    Metrics.bug(
        "forecast-adds-up-twice",
        "what was added up in one wide cell is added to what is in the next one",
        &[put("RangeSum::of", "«from != $from || self.»to", "")],
        store_contract("each_of_many_spans_of_a_forecast_is_counted_exactly"),
    ),
    Metrics.bug(
        "forecast-passes-over-one",
        "Redis: between two steps that differ by one event nothing is looked up",
        &[put(
            "lua::fill",
            "$answer«[$from] == $answer[$to]»",
            "[$to] - $answer[$from] < 2",
        )],
        store_contract("each_of_many_spans_of_a_forecast_is_counted_exactly"),
    ),
    Metrics.bug(
        "forecasts-without-a-pace",
        "a bus asks the store for as many forecasts as anybody wants",
        &[put(
            "Bus::forecast",
            "self.inner.forecasts.wait_for($within.len()).await",
            "()",
        )],
        coming("whoever_asks_for_many_steps_waits_his_turn"),
    ),
    Metrics.bug(
        "skew-the-other-way-round",
        "the skew says how far the machine's clock is ahead of the store's",
        &[put(
            "clock_ahead_us",
            "{ -$apart } else { $apart }",
            "{ $apart } else { -$apart }",
        )],
        coming("the_skew_says_how_far_the_stores_clock_is_ahead"),
    ),
    Metrics.bug(
        "summaries-for-histograms",
        "the exporter has no buckets for histograms, and renders summaries",
        &[put(
            "Prometheus::builder",
            "CATALOGUE «»",
            ".iter().take(0)",
        )],
        dashboards("the_page_holds_every_row_of_the_catalogue_and_nothing_else_of_duly"),
    ),
    Metrics.bug(
        "own-recorder-not-seen",
        "a start fails where the settings say to listen and the program has its own recorder",
        &[never("prometheus::listen", "is_recorder_installed")],
        coming("a_program_with_a_recorder_keeps_it_and_nothing_listens"),
    ),
    Metrics.bug(
        "redis-counts-a-page-as-one",
        "Redis: scheduled events that share a page are counted as one",
        &[put("counter_of_events", "ipairs(«$classes»)", "{}")],
        store_contract("each_shape_of_load_is_counted_exactly_and_delivered_once"),
    ),
];
