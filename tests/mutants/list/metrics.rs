use super::{edit, test};
use crate::mutant::{Mutant, Promise::Metrics, Test};

const fn metrics(name: &'static str) -> Test {
    test("metrics", name)
}

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "fetch-told-as-start",
        breaks: Metrics,
        bug: "the time that a ready event waits in the store is told as time in the process",
        edits: &[edit(
            "src/metrics/meters.rs",
            "self.starting.record(seconds(stages.start_us));",
            "self.starting.record(seconds(stages.start_us + stages.fetch_us));",
        )],
        caught_by: metrics("a_store_that_is_slow_to_fetch_shows_up_in_that_stage_only"),
        masked_by: None,
    },
    Mutant {
        name: "stages-do-not-add-up",
        breaks: Metrics,
        bug: "a step after the start is not cut at the start, so that stages and total differ",
        edits: &[edit(
            "src/metrics/stages.rs",
            "let moved = within(moved, due, end);",
            "let moved = if moved < due { due } else { moved };",
        )],
        caught_by: metrics("the_stages_add_up_to_the_total_whatever_the_clocks_say"),
        masked_by: None,
    },
    Mutant {
        name: "refused-outcomes-counted",
        breaks: Metrics,
        bug: "an outcome that came after its lease was lost counts as settled",
        edits: &[edit("src/metrics/meters.rs", "if accepted {", "if true {")],
        caught_by: metrics(
            "what_a_silent_node_held_is_counted_as_taken_back_and_its_outcomes_as_lost",
        ),
        masked_by: None,
    },
    Mutant {
        name: "duplicates-counted-as-pushed",
        breaks: Metrics,
        bug: "a push of what was there already counts as a new event",
        edits: &[edit(
            "src/bus/push.rs",
            "Ok(receipt) if receipt.is_duplicate() => duplicates += 1,",
            "Ok(receipt) if receipt.is_duplicate() => new += 1,",
        )],
        caught_by: metrics("pushes_are_counted_as_accepted_duplicate_or_refused"),
        masked_by: None,
    },
    Mutant {
        name: "gauges-overwrite-each-other",
        breaks: Metrics,
        bug: "of queues that share a label the last one is told of, and not their sum",
        edits: &[edit(
            "src/flow/consumers/gauges.rs",
            "doing[*place] = doing[*place].and(QueueActivity {",
            "doing[*place] = QueueActivity::default().and(QueueActivity {",
        )],
        caught_by: metrics("queues_beyond_the_bound_are_told_of_together"),
        masked_by: None,
    },
    Mutant {
        name: "labels-without-a-bound",
        breaks: Metrics,
        bug: "every queue has a label of its own, however many there are",
        edits: &[edit(
            "src/metrics/queues.rs",
            "left > with_prefix.unwrap_or_default()",
            "left < usize::MAX - with_prefix.unwrap_or_default()",
        )],
        caught_by: metrics("queues_beyond_the_bound_are_told_of_together"),
        masked_by: None,
    },
    Mutant {
        name: "gauges-left-as-they-were",
        breaks: Metrics,
        bug: "the mover sleeps on while the gauges say that something goes on",
        edits: &[edit(
            "src/flow/consumers/gauges.rs",
            "false => at.min(self.next),",
            "false => at,",
        )],
        caught_by: metrics("what_is_over_within_a_second_is_not_said_to_go_on"),
        masked_by: None,
    },
    Mutant {
        name: "hung-calls-not-seen",
        breaks: Metrics,
        bug: "a call that the store has not answered for long is no error",
        edits: &[edit(
            "src/store/metered.rs",
            "(waited >= UNANSWERED_AFTER).then_some(ErrorKind::TimedOut)",
            "(waited >= Duration::MAX).then_some(ErrorKind::TimedOut)",
        )],
        caught_by: metrics("a_call_that_is_given_up_is_timed_and_is_no_error_before_ten_seconds"),
        masked_by: None,
    },
];
