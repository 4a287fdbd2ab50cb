use super::{edit, test};
use crate::mutant::{Mutant, Promise::Explained, Test};

const fn explain(name: &'static str) -> Test {
    test("explain", name)
}

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "pause-not-explained",
        breaks: Explained,
        bug: "an explanation does not look whether the queue is paused",
        edits: &[edit(
            "src/bus/explain/diagnose.rs",
            "if facts.control.paused {",
            "if false {",
        )],
        caught_by: explain("a_pause_is_named_before_everything_else"),
        masked_by: None,
    },
    Mutant {
        name: "listed-is-alive",
        breaks: Explained,
        bug: "a node that is on the roll is taken for alive, whether it answers or not",
        edits: &[edit(
            "src/bus/explain/collect.rs",
            "answers: before.is_none_or(|before| before.beat != member.beat),",
            "answers: true,",
        )],
        caught_by: explain("a_node_that_died_is_called_silent_and_who_takes_over_is_said"),
        masked_by: None,
    },
    Mutant {
        name: "explained-as-it-was",
        breaks: Explained,
        bug: "an event is not looked at again after nodes were listened for",
        edits: &[edit(
            "src/bus/explain/collect.rs",
            "facts.found = again.or(facts.found.take());",
            "drop(again);",
        )],
        caught_by: explain("an_event_that_moves_on_meanwhile_is_told_where_it_went"),
        masked_by: None,
    },
    Mutant {
        name: "first-attempts-told",
        breaks: Explained,
        bug: "of many attempts the first ones are told and not the last",
        edits: &[edit(
            "src/bus/explain/history.rs",
            "order: Order::Newest,",
            "order: Order::Oldest,",
        )],
        caught_by: explain("the_last_attempts_are_told_and_the_others_counted"),
        masked_by: None,
    },
    Mutant {
        name: "reschedule-taken-for-a-spread",
        breaks: Explained,
        bug: "an event that was spread and then rescheduled is explained by its spread alone",
        edits: &[edit(
            "src/bus/explain/diagnose.rs",
            "if at.max(pushed) + part != due",
            "if at.max(pushed) + part != due && part > window",
        )],
        caught_by: explain("an_event_that_was_spread_says_by_how_much"),
        masked_by: None,
    },
];
