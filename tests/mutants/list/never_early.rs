use super::{delivery, never, put, simulation, store_contract};
use crate::mutant::{Mutant, Promise::NeverEarly};

pub(crate) const MUTANTS: &[Mutant] = &[
    NeverEarly.bug(
        "due-rounded-down",
        "a fraction of a millisecond is cut off a due time",
        &[put(
            "Timestamp::from_micros_up",
            "$micros«.div_ceil(1_000)»",
            "/ 1_000",
        )],
        store_contract("a_fraction_of_a_millisecond_rounds_up"),
    ),
    NeverEarly.bug(
        "redis-due-rounded-down",
        "Redis: the push script cuts the fraction off",
        &[put("due_at", "math.«ceil»", "floor")],
        store_contract("a_fraction_of_a_millisecond_rounds_up"),
    ),
    NeverEarly.bug(
        "early-by-one-ms",
        "an event counts as due a millisecond before its time",
        &[put(
            "WaitingEvents::due_until",
            "due.as_micros() <= $until_us«»",
            "+ 1_000",
        )],
        store_contract("nothing_is_moved_before_it_is_due"),
    ),
    NeverEarly.bug(
        "redis-early-by-one-ms",
        "Redis: the move script takes what is due in the next millisecond",
        &[put("move_due.lua", "now_ms«»", "+ 1")],
        store_contract("nothing_is_moved_before_it_is_due"),
    ),
    NeverEarly.bug(
        "read-ahead-not-held",
        "what was read ahead is published as soon as it is there",
        &[never("PrefetchBuffer::take_due", "has_reached")],
        delivery("what_is_read_ahead_is_held_until_its_time"),
    ),
    NeverEarly.bug(
        "read-ahead-handed-back-as-ready",
        "what was read ahead and is handed back counts as due",
        &[never("Bucket::release", "now_us")],
        store_contract("what_was_read_ahead_and_handed_back_waits_for_its_due_time"),
    ),
    NeverEarly.bug(
        "redis-read-ahead-reaped-as-ready",
        "Redis: what a dead node had read ahead counts as due",
        &[
            never("hand_back", "now_ms"),
            put("take_back", "number_at($it.due, 1)", "now_ms"),
        ],
        store_contract("what_was_read_ahead_and_lost_waits_for_its_due_time"),
    ),
    NeverEarly.bug(
        "store-time-from-sending",
        "a node counts the store's time from when it asked, not from when it was answered",
        &[put(
            "StoreClock::learn",
            "self, $sent $... at) = («$answer_us, $now»)",
            "$answer_us, $sent",
        )],
        simulation("no_seed_breaks_a_promise"),
    ),
    NeverEarly.bug(
        "clock-goes-back",
        "a bucket's clock goes back with the machine's",
        &[put("Bucket::apply", "self.now_us.max($now_us)", "$now_us")],
        simulation("no_seed_breaks_a_promise"),
    ),
    NeverEarly.bug(
        "retry-delay-lost",
        "a failed attempt is due again at once, whatever its backoff",
        &[put("Bucket::again", "DELAY_MAX)«»", "* 0")],
        store_contract("a_failed_attempt_counts_and_is_due_again_after_its_delay"),
    ),
    NeverEarly.bug(
        "glitch-believed",
        "a wall clock that is a day ahead for three seconds is believed at once",
        &[put("SteadyClock::step", "BELIEVED_AFTER", "Duration::ZERO")],
        store_contract("a_glitch_of_the_clock_changes_no_due_time"),
    ),
];
