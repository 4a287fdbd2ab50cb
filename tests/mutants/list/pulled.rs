use super::{delivery, edit, test};
use crate::mutant::{Mutant, Promise::Pulled};

pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "given-to-nobody",
        breaks: Pulled,
        bug: "what was leased for a caller that is gone is not handed back",
        edits: &[edit(
            "src/flow/pull/hand_off.rs",
            "        for event in std::mem::take(&mut self.events) {",
            "        for event in std::mem::take(&mut self.events).split_off(0).drain(..0) {",
        )],
        caught_by: delivery("an_event_that_was_leased_for_nobody_has_used_no_attempt"),
        masked_by: None,
    },
    Mutant {
        name: "pull-lost-fetch-forgotten",
        breaks: Pulled,
        bug: "a fetch of a puller whose answer was lost is not repeated",
        edits: &[edit(
            "src/core/pull/replies.rs",
            "if kind == ErrorKind::Unknown {",
            "if kind == ErrorKind::Conflict {",
        )],
        caught_by: delivery("a_fetch_whose_answer_is_lost_loses_no_event_and_no_attempt"),
        masked_by: None,
    },
    Mutant {
        name: "pull-while-paused",
        breaks: Pulled,
        bug: "a puller leases events of a paused queue",
        edits: &[edit(
            "src/core/pull/queue.rs",
            "        self.is_paused = is_paused;",
            "        self.is_paused = is_paused && now == Mono::MAX;",
        )],
        caught_by: delivery("a_paused_queue_gives_nothing_and_a_resumed_one_gives_at_once"),
        masked_by: None,
    },
    Mutant {
        name: "pull-without-a-rate",
        breaks: Pulled,
        bug: "a puller leases as many events as are wanted, whatever the rate",
        edits: &[edit(
            "src/core/pull/queue.rs",
            "            Some(rate) => rate.allows(now).saturating_sub(self.requested),",
            "            Some(rate) => rate.allows(now).saturating_sub(self.requested).max(1_000),",
        )],
        caught_by: delivery("a_rate_holds_for_who_pulls"),
        masked_by: None,
    },
    Mutant {
        name: "pull-any-queue-first",
        breaks: Pulled,
        bug: "a puller takes from a later queue before it is known that an earlier one has nothing",
        edits: &[edit(
            "src/core/pull/fetches.rs",
            ".all(|at| !self.may_have(now, caller, *at))",
            ".all(|at| !self.may_have(now, caller, *at) || *at != queue)",
        )],
        caught_by: delivery("a_queue_that_comes_first_is_waited_for_although_its_store_is_slower"),
        masked_by: None,
    },
    Mutant {
        name: "pull-never-reaps",
        breaks: Pulled,
        bug: "leases of pulled events are taken back an hour after their deadline",
        edits: &[edit(
            "src/core/pull/bucket.rs",
            "        self.next_reap = self.next_reap.min(clock.mono_at(deadline));",
            "        self.next_reap = self.next_reap.min(clock.mono_at(deadline) + Duration::from_secs(3_600));",
        )],
        caught_by: delivery("a_lease_that_ends_counts_an_attempt_and_then_there_is_a_dead_letter"),
        masked_by: None,
    },
    Mutant {
        name: "pull-release-counts",
        breaks: Pulled,
        bug: "an event that is handed back unseen has used an attempt",
        edits: &[edit(
            "src/core/pull/requests.rs",
            "        job.release()",
            "        let cause = crate::record::Cause::Failed;
        let reason = crate::core::op::FailureReason { cause, error: None };
        let verdict = crate::core::op::AttemptOutcome::Retry(Duration::ZERO, reason);
        Settlement { verdict, ..job.release() }",
        )],
        caught_by: delivery("an_event_that_was_leased_for_nobody_has_used_no_attempt"),
        masked_by: None,
    },
    Mutant {
        name: "gathered-replies-mixed-up",
        breaks: Pulled,
        bug: "of settlements that share a call each gets the reply of the first",
        edits: &[edit(
            "src/bus/lease/settles.rs",
            "stood.get(at) == Some(&true)",
            "stood.get(at - at) == Some(&true)",
        )],
        caught_by: test(
            "redis_store",
            "settlements_that_come_together_share_calls_and_each_has_its_own_reply",
        ),
        masked_by: None,
    },
    Mutant {
        name: "settlements-go-alone",
        breaks: Pulled,
        bug: "settlements that come together are sent one by one",
        edits: &[edit(
            "src/bus/lease/settles.rs",
            "match taken.len() < BATCH_MAX &&",
            "match taken.len() < BATCH_MAX.min(1) &&",
        )],
        caught_by: test(
            "redis_store",
            "settlements_that_come_together_share_calls_and_each_has_its_own_reply",
        ),
        masked_by: None,
    },
    Mutant {
        name: "ended-without-its-lease",
        breaks: Pulled,
        bug: "an event counts as acked by its id although its remembered lease was lost",
        edits: &[edit(
            "src/bus/lease/outcome.rs",
            "            && self.inner.settle(&token, LeaseOutcome::Ack).await? == LeaseStatus::Held",
            "            && self.inner.settle(&token, LeaseOutcome::Ack).await.is_ok()",
        )],
        caught_by: delivery("an_event_whose_lease_was_lost_is_ended_by_its_id_all_the_same"),
        masked_by: None,
    },
    Mutant {
        name: "pull-idlest-stays",
        breaks: Pulled,
        bug: "queues with leases that nobody pulls from make no room for new ones",
        edits: &[edit(
            "src/core/pull/served.rs",
            "self.forget_idlest(now, FORGOTTEN_AT_ONCE);",
            "self.forget_idlest(now, FORGOTTEN_AT_ONCE * 0);",
        )],
        caught_by: test(
            "lib",
            "queues_with_leases_make_room_for_new_ones_the_idlest_first",
        ),
        masked_by: None,
    },
    Mutant {
        name: "pull-bytes-not-counted",
        breaks: Pulled,
        bug: "a caller gets as many bytes as there are events",
        edits: &[edit(
            "src/core/pull/requests.rs",
            "caller.bytes_left = caller.bytes_left.saturating_sub(len);",
            "caller.bytes_left = caller.bytes_left.saturating_sub(len.min(0));",
        )],
        caught_by: test(
            "lib",
            "a_caller_gets_no_more_bytes_than_it_takes_and_one_event_in_any_case",
        ),
        masked_by: None,
    },
    Mutant {
        name: "pull-pause-comes-late",
        breaks: Pulled,
        bug: "a puller takes a lease before the pause that was confirmed before it",
        edits: &[edit(
            "src/flow/pull/task.rs",
            "if self.pulls.controls.changed().now_or_never().is_some() {",
            "if self.puller.is_stopped() {",
        )],
        caught_by: delivery("nothing_is_leased_once_a_pause_is_confirmed"),
        masked_by: None,
    },
];
