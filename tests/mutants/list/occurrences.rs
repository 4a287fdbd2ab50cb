use super::{drop, never, put, schedule};
use crate::mutant::{Mutant, Promise::Occurrences};

pub(crate) const MUTANTS: &[Mutant] = &[
    Occurrences.bug(
        "occurrence-has-any-id",
        "a look that is repeated pushes its occurrences under other ids",
        &[put(
            "Link::id_of",
            "«EventId::for_name_in(&$pushed.queue, BucketId($pushed.bucket), &$words)»",
            "EventId::for_name_in(&$pushed.queue, BucketId($pushed.bucket), &format!(\"{}{}\", $words, fastrand::u64(..)))",
        )],
        schedule("whatever_a_bus_was_at_when_it_died_each_instant_is_one_event"),
    ),
    Occurrences.bug(
        "unwanted-occurrence-comes-back",
        "an occurrence that somebody cancelled is pushed again when its schedule changes",
        &[drop("advance::keep_unwanted", "$link.decided.insert($instant)")],
        schedule("an_occurrence_that_somebody_cancelled_does_not_come_back"),
    ),
    Occurrences.bug(
        "own-cancel-taken-for-anothers",
        "what a bus took back before it died counts as under way when its time has passed",
        &[put(
            "history::is_cancelled",
            "«Ok($found.state == State::Cancelled)»",
            "{ drop($found); Ok(false) }",
        )],
        schedule("what_a_bus_took_back_before_it_died_is_made_up_for"),
    ),
    Occurrences.bug(
        "own-cancel-forgotten",
        "what a bus took back before it died is lost once the store has forgotten it",
        &[put(
            "history::is_cancelled",
            "«Ok(last_outcome($inner, $place, $id).await? == Some(Outcome::Cancelled))»",
            "Ok(false)",
        )],
        schedule("what_a_bus_took_back_and_the_store_forgot_is_made_up_for"),
    ),
    Occurrences.bug(
        "change-cuts-off-what-was-missed",
        "what the options before a change have missed is left out without a record",
        &[drop("Link::set_options", "self.former.get_or_insert($before)")],
        schedule("what_was_missed_before_a_change_is_made_up_for_as_the_options_before_it_say"),
    ),
    Occurrences.bug(
        "interrupted-look-not-completed",
        "what a look has pushed that died is pushed again under the next change",
        &[drop("advance::advance", "complete($inner, &mut $link, ($now, $look)).await?")],
        schedule("what_a_bus_pushed_before_it_died_is_not_pushed_again_by_a_change"),
    ),
    Occurrences.bug(
        "occurrence-has-any-id-in-the-simulation",
        "a look that is repeated pushes its occurrences under other ids, in the simulation",
        &[put(
            "Link::id_of",
            "«EventId::for_name_in(&$pushed.queue, BucketId($pushed.bucket), &$words)»",
            "EventId::for_name_in(&$pushed.queue, BucketId($pushed.bucket), &format!(\"{}{}\", $words, fastrand::u64(..)))",
        )],
        schedule("whatever_happens_each_instant_of_the_calendar_is_exactly_one_event"),
    ),
    Occurrences.bug(
        "change-not-announced",
        "a change whose maker dies is carried out some day",
        &[drop(
            "Links::change",
            "self.look_at(&$found, When::After(SOON))",
        )],
        schedule("a_change_whose_maker_died_is_carried_out_soon"),
    ),
    Occurrences.bug(
        "newer-link-not-looked-for",
        "a link whose ack was lost is carried out again, also after the next one",
        &[never("advance::advance", "$newest.is_some_and($is_over)")],
        schedule("a_link_whose_ack_was_lost_does_nothing_after_a_change"),
    )
    .masked_by(
        "the id of a link is that of its number, so a repeated one is no new event",
        &[put(
            "Links::push",
            "$now = self.inner().now(); $... «$link.id(&$home)»",
            "EventId::from_parts($now, home.bucket, fastrand::u64(..))",
        )],
    ),
    Occurrences.bug(
        "next-link-before-what-it-pushes",
        "how far a schedule has come is noted before its occurrences are pushed",
        &[put(
            "advance::advance",
            "«$new.push($inner, $look).await?;»",
            "let mut next = link.clone(); \
             (next.progress, next.pushed) = (planned.progress, $new.pushed.clone()); \
             links.push(&next, planned.look_at, crate::core::op::Unique::Replace).await?; \
             $new.push($inner, $look).await?;",
        )],
        schedule("what_a_bus_died_before_it_pushed_is_pushed_by_the_next"),
    ),
    Occurrences.bug(
        "lost-link-not-restored",
        "a schedule whose next link a failover has lost is gone",
        &[put(
            "LookWrites::restore",
            "«$inner.apply(&$home, $get).await?.is_none()»",
            "$inner.apply(&$home, $get).await.is_err()",
        )],
        schedule("whatever_push_of_a_look_is_lost_the_schedule_goes_on"),
    ),
    Occurrences.bug(
        "lost-occurrence-not-restored",
        "an occurrence that a failover has lost, and not the next link, is never run",
        &[drop("LookWrites::restore", "$pushes.push($inner, $look).await?")],
        schedule("whatever_push_of_a_look_is_lost_the_schedule_goes_on"),
    ),
    Occurrences.bug(
        "tried-occurrence-taken-back",
        "a change takes back an occurrence whose lease was lost, and pushes it again",
        &[put("history::cancel", "$found.tries «> 0»", "> 60_000")],
        schedule("what_was_tried_and_lost_is_not_taken_back_by_a_change"),
    ),
    Occurrences.bug(
        "schedules-without-bound",
        "a namespace has as many schedules as somebody makes",
        &[put("Links::check_room", "«$count < $most»", "$count < usize::MAX")],
        schedule("a_namespace_has_as_many_schedules_as_it_may_and_takes_nothing_from_others"),
    ),
    Occurrences.bug(
        "schedules-of-all-in-one-queue",
        "the schedules of all namespaces are in one queue",
        &[put(
            "Link::home",
            "«&beside($name, SCHEDULES)»",
            "{ let _ = beside($name, SCHEDULES); SCHEDULES }",
        )],
        schedule("a_namespace_has_its_own_schedules_and_a_list_of_them_reads_no_others"),
    ),
    Occurrences.bug(
        "list-read-once",
        "a schedule that is carried out while all are listed is left out",
        &[put("Links::read_all", "LISTS_MAX", "1")],
        schedule("a_list_has_each_schedule_once_while_all_of_them_are_carried_out"),
    ),
    Occurrences.bug(
        "namespace-rests-uncounted",
        "a namespace whose schedules cannot be counted rests as one without any",
        &[put("Watch::look", "matches!($count, Ok(0))", "$count.unwrap_or(0) == 0")],
        schedule("a_bus_that_starts_while_the_store_does_badly_passes_over_nothing_afterwards"),
    ),
    Occurrences.bug(
        "slow-clock-spins",
        "a node whose clock is behind looks at a schedule that is due again and again",
        &[put("advance::advance", "«$look.due.max($inner.now())»", "$inner.now()")],
        schedule("a_node_whose_clock_is_behind_looks_at_what_is_due_once"),
    ),
    Occurrences.bug(
        "bucket-of-occurrences-changes",
        "occurrences that are pushed again go to another bucket, if the number of buckets has changed",
        &[put(
            "advance::advance",
            "«$link.pushed.queue != *$queue»",
            "$link.pushed.queue != *$queue || $link.pushed.bucket >= \
             inner.buckets($queue, &inner.options($queue))",
        )],
        schedule("buckets_that_change_between_two_looks_make_no_second_event"),
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
        "queue-options-of-nobody",
        "a process without the handler declares a schedule with options of the queue that nobody has",
        &[put("Declaration::agrees_with", "$queues.«is_none_or»", "is_some_and")],
        schedule("the_later_build_holds_whichever_of_its_programs_have_the_handler"),
    ),
    Occurrences.bug(
        "overlap-not-looked-at",
        "an occurrence is run beside the one before, whatever its schedule says",
        &[put(
            "advance::busy_for",
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
    Occurrences.bug(
        "schedule-without-key-ends",
        "a process without the key ends an encrypted schedule that it leases",
        &[put(
            "Worker::lease",
            "«Ok(read($inner, $stored))»",
            "read($inner, $stored).map(Ok).map_err(|_| crate::core::op::AttemptOutcome::Expire)",
        )],
        schedule("a_process_without_the_key_hands_a_schedule_on_to_those_that_have_it"),
    ),
    Occurrences.bug(
        "occurrence-of-any-version",
        "an occurrence has the version that the process knows that pushes it",
        &[drop("occurrence_queue::queue_for", "$options.version = $noted.version")],
        schedule("an_occurrence_has_the_options_of_its_queue_whoever_pushes_it"),
    ),
];
