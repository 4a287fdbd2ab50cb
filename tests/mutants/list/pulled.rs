use super::{delivery, lib, never, put, redis_store};
use crate::mutant::{Mutant, Promise::Pulled};

pub(crate) const MUTANTS: &[Mutant] = &[
    Pulled.bug(
        "given-to-nobody",
        "what was leased for a caller that is gone is not handed back",
        &[put(
            "HandOff::drop",
            "events) «»",
            ".split_off(0).drain(..0)",
        )],
        delivery("an_event_that_was_leased_for_nobody_has_used_no_attempt"),
    ),
    Pulled.bug(
        "pull-lost-fetch-forgotten",
        "a fetch of a puller whose answer was lost is not repeated",
        &[put("Puller::fetched", "ErrorKind::«Unknown»", "Conflict")],
        delivery("a_fetch_whose_answer_is_lost_loses_no_event_and_no_attempt"),
    ),
    Pulled.bug(
        "pull-lease-counts-from-its-repeat",
        "the deadline of an event that the repeat of a fetch brings counts from the repeat",
        &[put(
            "Puller::fetched",
            "$fetch.hold.saturating_sub(«$age»)",
            "Duration::ZERO",
        )],
        delivery("a_lease_that_comes_late_ends_when_it_says"),
    ),
    Pulled.bug(
        "pull-waits-for-a-hung-bucket",
        "a caller that has got events waits for a bucket that does not reply",
        &[never("Puller::wait_a_moment", "$at <= $now")],
        delivery("a_bucket_that_does_not_answer_keeps_nothing_that_others_have_leased"),
    ),
    Pulled.bug(
        "pull-while-paused",
        "a puller leases events of a paused queue",
        &[put(
            "PulledQueue::set",
            "$now: Mono $... «is_paused = $is_paused»",
            "$is_paused = $is_paused && $now == Mono::MAX",
        )],
        delivery("a_paused_queue_gives_nothing_and_a_resumed_one_gives_at_once"),
    ),
    Pulled.bug(
        "pull-without-a-rate",
        "a puller leases as many events as are wanted, whatever the rate",
        &[put("PulledQueue::allows", "requested) «»", ".max(1_000)")],
        delivery("a_rate_holds_for_who_pulls"),
    ),
    Pulled.bug(
        "pull-any-queue-first",
        "a puller takes from a later queue before it is known that an earlier one has nothing",
        &[put(
            "Puller::is_its_turn",
            "$queue: usize $... may_have($now, $caller, (*$at, true))«»",
            "|| *$at != $queue",
        )],
        delivery("a_queue_that_comes_first_is_waited_for_although_its_store_is_slower"),
    ),
    Pulled.bug(
        "pull-never-reaps",
        "leases of pulled events are taken back an hour after their deadline",
        &[put(
            "PulledBucket::leased",
            "mono_at($deadline)«»",
            "+ Duration::from_secs(3_600)",
        )],
        delivery("a_lease_that_ends_counts_an_attempt_and_then_there_is_a_dead_letter"),
    ),
    Pulled.bug(
        "pull-release-counts",
        "an event that is handed back unseen has used an attempt",
        &[put(
            "PulledEvent::release",
            "$job.release()",
            "let cause = crate::record::Cause::Failed; let reason = \
             crate::core::op::FailureReason { cause, error: None }; let verdict = \
             crate::core::op::AttemptOutcome::Retry(Duration::ZERO, reason); Settlement \
             { verdict, ..$job.release() }",
        )],
        delivery("an_event_that_was_leased_for_nobody_has_used_no_attempt"),
    ),
    Pulled.bug(
        "gathered-replies-mixed-up",
        "of settlements that share a call each gets the reply of the first",
        &[put("Sender::run", "$at«») == Some", "- $at")],
        redis_store("settlements_that_come_together_share_calls_and_each_has_its_own_reply"),
    ),
    Pulled.bug(
        "settlements-go-alone",
        "settlements that come together are sent one by one",
        &[put("Settles::take", "BATCH_MAX «»", ".min(1)")],
        redis_store("settlements_that_come_together_share_calls_and_each_has_its_own_reply"),
    ),
    Pulled.bug(
        "ended-without-its-lease",
        "an event counts as acked by its id although its remembered lease was lost",
        &[put(
            "Queue::end_if",
            "await«? == LeaseStatus::Held» { return Ok(EndResult::Acked); } for _",
            ".is_ok()",
        )],
        delivery("an_event_whose_lease_was_lost_is_ended_by_its_id_all_the_same"),
    ),
    Pulled.bug(
        "pull-idlest-stays",
        "queues with leases that nobody pulls from make no room for new ones",
        &[put("Puller::serve", "FORGOTTEN_AT_ONCE«»", "* 0")],
        lib("queues_with_leases_make_room_for_new_ones_the_idlest_first"),
    ),
    Pulled.bug(
        "pull-bytes-not-counted",
        "a caller gets as many bytes as there are events",
        &[put(
            "Puller::give",
            "bytes_left.saturating_sub($len«»)",
            ".min(0)",
        )],
        lib("a_caller_gets_no_more_bytes_than_it_takes_and_one_event_in_any_case"),
    ),
    Pulled.bug(
        "pull-pause-comes-late",
        "a puller takes a lease before the pause that was confirmed before it",
        &[put(
            "PullTask::turn",
            "pulls.controls.changed().now_or_never().is_some",
            "puller.is_stopped",
        )],
        delivery("nothing_is_leased_once_a_pause_is_confirmed"),
    ),
];
