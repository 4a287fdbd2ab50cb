use super::{contract, edit, test};
use crate::mutant::{Mutant, Promise::Metrics, Test};

const fn coming(name: &'static str) -> Test {
    test("coming", name)
}

const fn dashboards(name: &'static str) -> Test {
    test("dashboards", name)
}

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "depth-added-up-in-a-process",
        breaks: Metrics,
        bug: "two buses of a process report a queue of their store twice",
        edits: &[edit(
            "src/metrics/depth.rs",
            "told.for_each(|share| most.max(share));",
            "told.for_each(|share| most.add(share));",
        )],
        caught_by: coming("each_node_of_a_store_reports_all_that_is_in_its_queues"),
        masked_by: None,
    },
    Mutant {
        name: "orphans-not-counted",
        breaks: Metrics,
        bug: "of a queue that nobody consumes nobody tells how many events wait in it",
        edits: &[edit(
            "src/flow/membership/depth_sampler.rs",
            "|| !self.membership.as_ref().is_some_and(is_consumed)",
            "|| (false && !self.membership.as_ref().is_some_and(is_consumed))",
        )],
        caught_by: coming("a_queue_that_nobody_consumes_is_reported_by_all"),
        masked_by: None,
    },
    Mutant {
        name: "gauges-outlive-their-bus",
        breaks: Metrics,
        bug: "what a bus has told of depth stays when it has stopped",
        edits: &[edit(
            "src/flow/membership/depth_sampler.rs",
            "    fn drop(&mut self) {\n        metrics::tell_shares(self.id.0, QueueDepths::new());\n",
            "    fn drop(&mut self) {\n",
        )],
        caught_by: coming("each_node_of_a_store_reports_all_that_is_in_its_queues"),
        masked_by: None,
    },
    Mutant {
        name: "empty-buckets-not-heard-of",
        breaks: Metrics,
        bug: "the sampler does not hear that something came into a bucket that was empty",
        edits: &[edit(
            "src/flow/node/inbox.rs",
            "            active.note(bucket);\n",
            "            let _ = news;\n",
        )],
        caught_by: coming("a_bucket_that_was_empty_is_counted_as_soon_as_something_comes"),
        masked_by: None,
    },
    Mutant {
        name: "empty-buckets-asked-each-time",
        breaks: Metrics,
        bug: "the sampler asks every bucket each time, also those in which nothing is",
        edits: &[edit(
            "src/flow/membership/depth_sampler.rs",
            "let is_empty = known.buckets.get(key).is_some_and(BucketCount::is_empty);",
            "let is_empty = false;",
        )],
        caught_by: test(
            "redis_store",
            "a_bus_that_counts_its_idle_queues_asks_for_no_more",
        ),
        masked_by: None,
    },
    Mutant {
        name: "oldest-of-what-has-left",
        breaks: Metrics,
        bug: "Redis: an entry that its event has left behind counts as the oldest ready event",
        edits: &[edit(
            "src/store/redis/lua/stats.lua",
            "if is_placed(packed, number_of) then",
            "if packed then",
        )],
        caught_by: contract("stats_tell_since_when_the_next_event_is_ready"),
        masked_by: None,
    },
    Mutant {
        name: "forecast-off-by-one-ms",
        breaks: Metrics,
        bug: "in a crowded cell what is due at the very end of a span is not counted",
        edits: &[edit(
            "src/core/reference/counts.rs",
            "self.fine.of(fine, counted, ms) + fine.get(&ms).unwrap_or(&0)",
            "self.fine.of(fine, counted, ms)",
        )],
        caught_by: test("lib", "what_is_due_until_any_instant_is_counted_exactly"),
        masked_by: None,
    },
    Mutant {
        name: "steps-of-a-forecast-add-up",
        breaks: Metrics,
        bug: "each step of a forecast counts what falls due in the steps before as well",
        edits: &[edit(
            "src/bus/forecast.rs",
            "events: sum - before,",
            "events: sum - before.min(0),",
        )],
        caught_by: coming("a_forecast_says_for_each_step_what_falls_due_in_it"),
        masked_by: None,
    },
    Mutant {
        name: "forecast-adds-up-twice",
        breaks: Metrics,
        bug: "what was added up in one wide cell is added to what is in the next one",
        edits: &[edit(
            "src/core/reference/counts.rs",
            "if self.from != from || self.to > to {",
            "if self.to > to {",
        )],
        caught_by: contract("each_of_many_spans_of_a_forecast_is_counted_exactly"),
        masked_by: None,
    },
    Mutant {
        name: "forecast-passes-over-one",
        breaks: Metrics,
        bug: "Redis: between two steps that differ by one event nothing is looked up",
        edits: &[edit(
            "src/store/redis/lua/forecast.lua",
            "if answer[from] == answer[to] then",
            "if answer[to] - answer[from] < 2 then",
        )],
        caught_by: contract("each_of_many_spans_of_a_forecast_is_counted_exactly"),
        masked_by: None,
    },
    Mutant {
        name: "forecasts-without-a-pace",
        breaks: Metrics,
        bug: "a bus asks the store for as many forecasts as anybody wants",
        edits: &[edit(
            "src/bus/forecast.rs",
            "self.inner.forecasts.wait_for(steps).await;",
            "let _ = steps;",
        )],
        caught_by: coming("whoever_asks_for_many_steps_waits_his_turn"),
        masked_by: None,
    },
    Mutant {
        name: "skew-the-other-way-round",
        breaks: Metrics,
        bug: "the skew says how far the machine's clock is ahead of the store's",
        edits: &[edit(
            "src/flow/membership/depth_sampler.rs",
            "if this_us < that_us { -apart } else { apart }",
            "if this_us < that_us { apart } else { -apart }",
        )],
        caught_by: coming("the_skew_says_how_far_the_stores_clock_is_ahead"),
        masked_by: None,
    },
    Mutant {
        name: "summaries-for-histograms",
        breaks: Metrics,
        bug: "the exporter has no buckets for histograms, and renders summaries",
        edits: &[edit(
            "src/metrics/prometheus.rs",
            "        for metric in CATALOGUE {\n",
            "        for metric in CATALOGUE.iter().take(0) {\n",
        )],
        caught_by: dashboards("the_page_holds_every_row_of_the_catalogue_and_nothing_else_of_duly"),
        masked_by: None,
    },
    Mutant {
        name: "own-recorder-not-seen",
        breaks: Metrics,
        bug: "a start fails where the settings say to listen and the program has its own recorder",
        edits: &[edit(
            "src/metrics/prometheus.rs",
            "    if super::is_recorder_installed() {\n",
            "    if false {\n",
        )],
        caught_by: coming("a_program_with_a_recorder_keeps_it_and_nothing_listens"),
        masked_by: None,
    },
    Mutant {
        name: "redis-counts-a-page-as-one",
        breaks: Metrics,
        bug: "Redis: scheduled events that share a page are counted as one",
        edits: &[edit(
            "src/store/redis/lua/page.lua",
            "    for _, it in ipairs(classes) do\n      count",
            "    for _, it in ipairs({}) do\n      count",
        )],
        caught_by: contract("each_shape_of_load_is_counted_exactly_and_delivered_once"),
        masked_by: None,
    },
];
