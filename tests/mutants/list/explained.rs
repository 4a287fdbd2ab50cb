use super::{explain, put};
use crate::mutant::{Mutant, Promise::Explained};

pub(crate) const MUTANTS: &[Mutant] = &[
    Explained.bug(
        "pause-not-explained",
        "an explanation does not look whether the queue is paused",
        &[put("blocked", "if «$facts.control.paused»", "false")],
        explain("a_pause_is_named_before_everything_else"),
    ),
    Explained.bug(
        "listed-is-alive",
        "a node that is on the roll is taken for alive, whether it answers or not",
        &[put(
            "collect::listen",
            "$before.is_none_or(|$before| $before.beat != $member.beat)",
            "true",
        )],
        explain("a_node_that_died_is_called_silent_and_who_takes_over_is_said"),
    ),
    Explained.bug(
        "explained-as-it-was",
        "an event is not looked at again after nodes were listened for",
        &[put(
            "collect::listen",
            "$facts.found = $again.or($facts.found.take())",
            "drop($again)",
        )],
        explain("an_event_that_moves_on_meanwhile_is_told_where_it_went"),
    ),
    Explained.bug(
        "first-attempts-told",
        "of many attempts the first ones are told and not the last",
        &[put("explain::history::read", "«Newest», $after", "Oldest")],
        explain("the_last_attempts_are_told_and_the_others_counted"),
    ),
    Explained.bug(
        "reschedule-taken-for-a-spread",
        "an event that was spread and then rescheduled is explained by its spread alone",
        &[put(
            "spread",
            "$window = $envelope.spread $... at.max($pushed) «+ $part != $due»",
            "+ $part != $due && $part > $window",
        )],
        explain("an_event_that_was_spread_says_by_how_much"),
    ),
];
