use super::{delivery, drop, lib, loom, never, put, redis_store, simulation, store_contract};
use crate::mutant::{Mutant, Promise::Punctual};

pub(crate) const MUTANTS: &[Mutant] = &[
    Punctual.bug(
        "next-due-ignored",
        "the mover does not sleep until the next due time, but until something wakes it",
        &[
            put(
                "Node::replied",
                "«$reckon($next_due)», ready: $ready > 0, full: $moved ==",
                "Mono::MAX",
            ),
            put(
                "Node::replied",
                "«$reckon($next_due)», ready: $ready > 0, full: $full || $deliveries",
                "Mono::MAX",
            ),
        ],
        delivery("nothing_starts_before_its_due_time_nor_much_later"),
    ),
    Punctual.bug(
        "late-timers-wake-nobody",
        "timers that stood still while the machine was suspended end later by as much",
        &[never("clock_watch::watch", "$now.since($last)")],
        lib("whoever_waits_by_a_timer_is_woken_after_a_suspension"),
    ),
    Punctual.bug(
        "wake-up-not-told",
        "a push that is due sooner than all others wakes nobody",
        &[never("Shards::change_locked", "WakeRule::Tell")],
        store_contract("a_watcher_is_told_of_work_that_comes_sooner"),
    ),
    Punctual.bug(
        "redis-wake-up-not-published",
        "Redis: the script does not say on its channel that there is earlier work",
        &[drop("lua::wake", r#""SPUBLISH""#)],
        redis_store("a_waiter_in_another_process_is_woken_by_whatever_makes_an_event_ready"),
    ),
    Punctual.bug(
        "new-bucket-waits-for-nothing",
        "a bucket that had to wait for all room is left alone when that is free",
        &[put(
            "Node::replied",
            "$queue.room() «== 0» || $window",
            "== usize::MAX",
        )],
        lib("a_new_bucket_that_waits_for_all_room_is_fetched_when_that_is_free"),
    ),
    Punctual.bug(
        "redis-full-node-calls-nobody",
        "Redis: a node that has no room for what is ready does not say so",
        &[drop("move_due.lua", r#""SPUBLISH""#)],
        redis_store("whoever_has_no_room_calls_the_others_and_not_itself"),
    ),
    Punctual.bug(
        "everybody-is-next-in-line",
        "every node that is no owner looks at every bucket a tenth of a second after each \
         wake-up",
        &[put(
            "Standby::finish_poll",
            "$options: &NodeOptions, $net $... else { «$net» }",
            "$options.non_owner_delay",
        )],
        simulation("a_lone_event_is_looked_for_by_two_nodes_and_not_by_all"),
    ),
    Punctual.bug(
        "call-during-a-look-forgotten",
        "the owner calls while a look of the next in line is on its way, whose answer undoes \
         that",
        &[drop("Standby::handle_call", "is_called")],
        simulation("a_call_that_comes_during_a_look_is_heard_when_the_look_found_nothing"),
    ),
    Punctual.bug(
        "overdue-waits-anew",
        "the next in line waits for the owner anew from each look at what is overdue",
        &[put(
            "Node::replied",
            "$now «- Duration::from_micros($now_us - $due.as_micros())»",
            "",
        )],
        simulation("what_is_overdue_waits_from_its_due_time_and_not_anew_from_each_look"),
    ),
    Punctual.bug(
        "mover-not-woken",
        "news for the mover do not wake it",
        &[put("Inbox::add", "add($input, $is_end) «»", "&& false")],
        delivery("nothing_starts_before_its_due_time_nor_much_later"),
    ),
    Punctual.bug(
        "pool-called-before-it-has-the-jobs",
        "a publisher calls a worker before the jobs are in the ring, and not after",
        &[put(
            "Publisher::try_publish_many_as",
            "let $published = self.producer.try_publish_many($jobs, $wrap); if \
             $published > 0 { self.shared.call(); } $published",
            "self.shared.call(); self.producer.try_publish_many($jobs, $wrap)",
        )],
        lib("a_worker_is_called_when_its_job_is_there_and_not_before"),
    ),
    Punctual.bug(
        "last-look-forgotten",
        "a worker that leaves does not look once more whether a job came meanwhile",
        &[put(
            "Wake::leave",
            "$has_work() «» { return LeaveResult",
            "|| true",
        )],
        loom("one_publisher_one_worker"),
    ),
    Punctual.bug(
        "lingering-look-forgotten",
        "a worker that found a job while it lingered does not look whether there is another",
        &[put(
            "Wake::found",
            "false; } «$has_work()»",
            "let _ = $has_work; false",
        )],
        loom("a_handler_that_never_ends_keeps_nobody_from_the_next_job"),
    ),
    Punctual.bug(
        "mover-not-woken-when-enough-has-ended",
        "a mover that sleeps until some handlers have ended is not woken when they have",
        &[put("Mailbox::add", "$waiting.enough", "0")],
        loom("two_small_news_wake_who_sleeps_for_two"),
    ),
];
