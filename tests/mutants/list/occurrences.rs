use super::{never, put, schedule};
use crate::mutant::{Mutant, Promise::Occurrences};

pub(crate) const MUTANTS: &[Mutant] = &[
    Occurrences.bug(
        "occurrence-has-any-id",
        "a look that is repeated pushes its occurrences under other ids",
        &[put(
            "Link::id_of",
            "«EventId::for_name(&$pushed.queue, &$words)»",
            "EventId::for_name(&$pushed.queue, &format!(\"{}{}\", $words, fastrand::u64(..)))",
        )],
        schedule("whatever_a_bus_was_at_when_it_died_each_instant_is_one_event"),
    ),
    Occurrences.bug(
        "unwanted-occurrence-comes-back",
        "an occurrence that somebody cancelled is pushed again when its schedule changes",
        &[put(
            "advance::keep_unwanted",
            "$kept = $at + 1",
            "let _ = $at",
        )],
        schedule("an_occurrence_that_somebody_cancelled_does_not_come_back"),
    ),
    Occurrences.bug(
        "older-build-takes-over",
        "a program of an older build that starts again changes the schedule back",
        &[never("Declarations::declare", "!$is_later && !$is_gone")],
        schedule(
            "of_two_builds_the_later_one_holds_and_an_older_one_that_starts_again_changes_nothing",
        ),
    ),
    Occurrences.bug(
        "overlap-not-looked-at",
        "an occurrence is run beside the one before, whatever its schedule says",
        &[put(
            "advance::is_busy",
            "«!$found.state.is_final() && $found.state != State::Dead»",
            "false",
        )],
        schedule("occurrences_overlap_are_passed_over_or_wait_as_declared"),
    ),
    Occurrences.bug(
        "missed-forgotten",
        "what was missed is passed over without a record",
        &[put(
            "Planner::make_up",
            "«self.skip($instant, $earlier, SkipReason::Missed)»",
            "self.progress.through = $instant",
        )],
        schedule("what_was_missed_is_made_up_for_as_declared_and_has_its_record"),
    ),
    Occurrences.bug(
        "days-of-a-calendar-run",
        "the days of a calendar are not left out",
        &[put(
            "ScheduleOptions::next_after",
            "«&& !self.exclude.has($day)»",
            "",
        )],
        schedule("days_of_a_calendar_are_left_out_and_are_not_missed"),
    ),
];
