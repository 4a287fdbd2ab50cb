//! Changes of a schedule that follow one another within a second, by processes that carry it out
//! meanwhile and one that does not, also while an occurrence is leased ahead of its instant, with what
//! somebody does to its occurrences, and with times in which nobody carries it out: what was done last
//! holds, and each occurrence knows the one that ran before it.
//!
//! `DULY_SCHEDULE_SEEDS` sets how many seeds are run (default 6), from `DULY_SCHEDULE_FROM` on
//! (default: anywhere); `DULY_SCHEDULE_SEED` runs one.

use std::collections::BTreeSet;
use std::time::Duration;

use duly::admin::StoredEvent;
use duly::event::State;
use duly::prelude::*;
use duly::schedule::{MissedPolicy, OverlapPolicy, ScheduleOptions};
use duly::store::operation::StoreOp;
use duly::testing::TestBus;
use duly::time::{Timestamp, When};
use duly::{BusBuilder, CancelOutcome};
use fastrand::Rng;

use super::programs::Shared;
use super::runs::{Seen, builder, instants, options};
use crate::faulty::{Fault, Faulty};

const MINUTE: Duration = Duration::from_secs(60);
const NAME: &str = "often";
/// What is due within this time when a schedule is made may be under way.
const NEARLY_DUE: Duration = Duration::from_secs(2);

/// What there is, as whoever made the changes knows it.
#[derive(Debug, Default)]
struct Known {
    seed: u64,
    set: Option<ScheduleOptions>,
    is_paused: bool,
    /// The instants whose occurrences somebody has run early or cancelled: whether the schedule has
    /// instants at these times says nothing of them.
    by_hand: BTreeSet<Timestamp>,
    /// Those of them that do not come at all, unless another schedule of the name has them.
    cancelled: BTreeSet<Timestamp>,
    /// Those that may come again if another schedule of the name has them.
    again: BTreeSet<Timestamp>,
    /// When each schedule of the name was made.
    made: Vec<Timestamp>,
    /// From when until when an occurrence may be of the schedule before, or later than one that follows
    /// it, as nobody carried the schedule out.
    unclear: Vec<(Timestamp, Timestamp)>,
}

impl Known {
    /// There is a schedule of the name once more.
    fn is_made(&mut self, now: Timestamp) {
        self.is_paused = false;
        let is_near = |at: &Timestamp| *at <= now + NEARLY_DUE;
        let cancelled = std::mem::take(&mut self.cancelled);
        self.by_hand
            .retain(|at| !cancelled.contains(at) || is_near(at));
        self.made.push(now);
    }

    /// Somebody has run or cancelled it, in whichever schedule of the name.
    fn was_touched(&self, at: Timestamp) -> bool {
        self.by_hand.contains(&at) || self.again.contains(&at)
    }

    fn is_clear(&self, at: Timestamp) -> bool {
        let within = |(from, until): &(_, _)| *from < at && at <= *until;
        !self.was_touched(at) && !self.unclear.iter().any(within)
    }

    /// Checks that each occurrence has as `previous` the last one that ran before it.
    fn check_previous(&self, seen: &Seen, what: &str) {
        let seen = seen.lock().unwrap().clone().into_iter();
        let mut all: Vec<_> = seen.map(|(one, _)| (one.instant, one.previous)).collect();
        all.sort_unstable();
        let ran: BTreeSet<_> = all.iter().map(|(instant, _)| *instant).collect();
        for (instant, previous) in all {
            let made = self.made.iter().rfind(|made| **made < instant);
            let Some(made) = made.filter(|_| self.is_clear(instant)) else {
                continue;
            };
            let mut before = ran.range(made..&instant).copied();
            let before = before.rfind(|at| self.is_clear(*at));
            let is_known = |at| ran.contains(&at) || self.was_touched(at);
            let is_right = previous.is_none_or(|at| at < instant && is_known(at));
            assert!(
                is_right && before <= previous,
                "{instant}: {previous:?}, {before:?}: {what}"
            );
        }
    }
}

fn some(random: &mut Rng) -> ScheduleOptions {
    let when = [
        "every 30s",
        "every 1m phase 7s",
        "* * * * * Asia/Kathmandu",
        "0 9 * * *",
    ];
    let overlap = [
        OverlapPolicy::Allow,
        OverlapPolicy::Skip,
        OverlapPolicy::Wait,
    ];
    let missed = [MissedPolicy::Once, MissedPolicy::All(1_000)];
    let options = options(random.choice(when).unwrap());
    let options = options.overlap(random.choice(overlap).unwrap());
    options.missed(random.choice(missed).unwrap())
}

/// A process to which the store is some milliseconds away.
async fn start(shared: &Shared, bus: BusBuilder, mut random: Rng) -> TestBus {
    let way = Faulty::to(&shared.store);
    way.meets(move |_, _| match random.u32(..4) {
        0 => Fault::LatePolicy(Duration::from_millis(random.u64(1..60))),
        1 => Fault::Held(Duration::from_millis(random.u64(1..60))),
        _ => Fault::None,
    });
    let bus = bus.shared_store(way as _);
    TestBus::start_on(shared.clock(), bus).await.unwrap()
}

async fn start_all(shared: &Shared, seen: &Seen, mut random: Rng) -> Vec<TestBus> {
    let mut all = Vec::new();
    for _ in 0..2 {
        all.push(start(shared, builder(seen, &[]), random.fork()).await);
    }
    all
}

/// Stops all that consume, when none of them works on the schedule: what they lease stays leased while
/// nobody consumes.
async fn stop_all(
    buses: &mut Vec<TestBus>,
    maker: &TestBus,
    mut start: impl AsyncFnMut() -> Vec<TestBus>,
) {
    loop {
        for bus in buses.drain(..) {
            bus.shutdown(MINUTE).await.unwrap();
        }
        let links = maker.stats("duly.schedules").await;
        if links.map_or(0, |links| links.leased) == 0 {
            return;
        }
        *buses = start().await;
        maker.advance(Duration::from_secs(25)).await;
    }
}

/// The occurrences that are pushed and wait.
pub(super) async fn waiting(bus: &Bus) -> Vec<StoredEvent> {
    let waiting = bus.events().queue("report").key(NAME);
    let waiting = waiting.state(State::Scheduled).page().await;
    waiting.unwrap().items
}

/// Runs an occurrence early, or cancels it.
async fn interfere(bus: &Bus, known: &mut Known, random: &mut Rng) {
    let waiting = waiting(bus).await;
    let Some(one) = random.choice(&waiting) else {
        return;
    };
    known.by_hand.insert(one.due);
    if random.bool() {
        let _too_late = one.reschedule(When::Now).await.unwrap();
    } else if one.cancel().await.unwrap() == CancelOutcome::Cancelled {
        known.cancelled.insert(one.due);
    }
}

/// Waits until an instant is some milliseconds away, if one is soon: its occurrence is leased up to 100 ms
/// before it, and may be when a change is carried out.
async fn near(bus: &TestBus, known: &Known, random: &mut Rng) {
    let options = known.set.as_ref();
    let next = options.and_then(|it| it.instants(bus.now()).next());
    let wait = next.map(|next| next.since(bus.now()));
    if let Some(wait) = wait.filter(|wait| *wait <= MINUTE) {
        let early = Duration::from_millis(random.u64(..500));
        tokio::time::sleep(wait.saturating_sub(early)).await;
    }
}

async fn change(bus: &TestBus, known: &mut Known, random: &mut Rng) {
    let schedules = bus.schedules();
    let what = format!("DULY_SCHEDULE_SEED={}: {:?}", known.seed, known.set);
    let is_found = |changed: duly::Result<()>| match changed {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => panic!("{error}"),
    };
    match random.u32(..5) {
        0 | 1 => {
            let options = some(random);
            schedules.set(NAME, options.clone()).await.unwrap();
            if known.set.replace(options).is_none() {
                known.is_made(bus.now());
            }
        }
        2 => {
            let paused = schedules.pause(NAME).await;
            assert_eq!(is_found(paused), known.set.is_some(), "{what}");
            known.is_paused = true;
        }
        3 => {
            let resumed = schedules.resume(NAME).await;
            assert_eq!(is_found(resumed), known.set.is_some(), "{what}");
            known.is_paused = false;
        }
        _ => {
            let was_there = schedules.remove(NAME).await.unwrap();
            let was = known.set.take();
            assert_eq!(was_there, was.is_some(), "{what}");
            known.again.append(&mut known.by_hand.clone());
            // What is leased ahead of its time runs, and may run of another schedule.
            let soon = |at: &Timestamp| *at <= bus.now() + NEARLY_DUE;
            let was = was.iter().flat_map(|it| it.instants(bus.now()));
            known.again.extend(was.take_while(soon));
        }
    }
    let found = schedules.get(NAME).await.unwrap();
    let found = found.map(|found| found.options);
    assert_eq!(found, known.set, "after {what}");
}

async fn run(seed: u64) {
    let mut random = Rng::with_seed(seed);
    fastrand::seed(seed);
    let (shared, seen) = (Shared::new(), Seen::default());
    let maker = start(&shared, Bus::builder().publish_only(), random.fork()).await;
    let mut buses = start_all(&shared, &seen, random.fork()).await;
    let mut known = Known {
        seed,
        ..Known::default()
    };
    for burst in 0..20 {
        if random.bool() {
            interfere(&maker, &mut known, &mut random).await;
        }
        let stop = random.usize(..16);
        let began = maker.now();
        for number in 0..random.usize(1..8) {
            if number == stop {
                stop_all(&mut buses, &maker, async || {
                    start_all(&shared, &seen, random.fork()).await
                })
                .await;
            }
            if !buses.is_empty() && random.u8(..4) == 0 {
                near(&maker, &known, &mut random).await;
            }
            let bus = random.choice(&buses).filter(|_| random.bool());
            change(bus.unwrap_or(&maker), &mut known, &mut random).await;
            tokio::time::sleep(Duration::from_millis(random.u64(..200))).await;
        }
        // What was due then may still be under way.
        let (mut from, mut settled) = (maker.now(), Duration::from_secs(3));
        let was_stopped = buses.is_empty();
        if was_stopped {
            maker.advance(Duration::from_secs(random.u64(..25))).await;
            buses = start_all(&shared, &seen, random.fork()).await;
            settled = Duration::from_secs(25); // a link that was leased is leased again
        }
        let settled = maker.now() + settled;
        if was_stopped || known.made.last().is_some_and(|made| *made >= began) {
            known.unclear.push((began, settled));
        }
        let options = known.set.as_ref().filter(|_| !known.is_paused);
        // Of several that are due at once, one is run.
        let is_skip = |it: &ScheduleOptions| it.overlap_policy() == OverlapPolicy::Skip;
        if settled < from + Duration::from_secs(4) || options.is_none_or(is_skip) {
            from = settled;
        }
        maker.advance(MINUTE * random.u32(1..6)).await;
        let until = maker.now();
        maker.advance(Duration::from_secs(3)).await;
        let is_own = |at: &Timestamp| from < *at && *at <= until && !known.by_hand.contains(at);
        let expected = options.into_iter().flat_map(|it| it.instants(from));
        let expected = expected.take_while(|at| *at <= until).filter(is_own);
        let expected: Vec<_> = expected.collect();
        let mut all = instants(&seen, NAME);
        all.sort_unstable();
        let ran = all.iter().copied().filter(is_own);
        // What was due of other options before somebody could take it back has run as well.
        let ran = ran.filter(|at| *at > settled || expected.contains(at));
        let what = format!("DULY_SCHEDULE_SEED={seed}, burst {burst}: {known:?}");
        assert_eq!(ran.collect::<Vec<_>>(), expected, "{what}");
        let is_twice = |pair: &&[Timestamp]| pair[0] == pair[1] && !known.again.contains(&pair[0]);
        let twice = all.windows(2).find(is_twice);
        assert_eq!(twice, None, "{what}");
        let is_cancelled =
            |at: &&Timestamp| known.cancelled.contains(*at) && !known.again.contains(*at);
        let came = all.iter().find(is_cancelled);
        assert_eq!(came, None, "{what}");
        known.check_previous(&seen, &what);
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test(start_paused = true)]
#[allow(clippy::print_stdout)] // it tells where to look again
async fn of_changes_within_a_second_the_last_holds_and_no_instant_runs_twice() {
    if let Some(seed) = number("DULY_SCHEDULE_SEED") {
        return run(seed).await;
    }
    let seeds = number("DULY_SCHEDULE_SEEDS").unwrap_or(6);
    let anywhere = || fastrand::u64(..1 << 32);
    let first = number("DULY_SCHEDULE_FROM").unwrap_or_else(anywhere);
    println!("{seeds} seeds from {first} on");
    for seed in first..first + seeds {
        run(seed).await;
    }
}

/// A process carries a schedule out and dies, or hangs for a while, before it acks a link.
#[tokio::test(start_paused = true)]
async fn a_link_whose_ack_is_late_does_not_bring_a_removed_schedule_back() {
    let second = Duration::from_secs(1);
    for fault in [
        Fault::Hung,
        Fault::LatePolicy(second * 5),
        Fault::Held(second * 5),
    ] {
        let (shared, seen) = (Shared::new(), Seen::default());
        let way = Faulty::to(&shared.store);
        way.meets(move |_, op| match op {
            StoreOp::Settle { .. } => fault,
            _ => Fault::None,
        });
        let hanging = Bus::builder().publish_only().run_schedules(true);
        let hanging = hanging.shared_store(way as _);
        let _hanging = TestBus::start_on(shared.clock(), hanging).await.unwrap();
        let maker = shared.start(Bus::builder().publish_only()).await;
        let schedules = maker.schedules();
        schedules.set(NAME, options("every 30s")).await.unwrap();
        maker.advance(second).await;
        let bus = shared.start(builder(&seen, &[])).await;
        assert!(schedules.remove(NAME).await.unwrap());
        for passed in 0..40 {
            bus.advance(second).await;
            let found = schedules.get(NAME).await.unwrap();
            assert!(found.is_none(), "{fault:?}, {passed} s: {found:?}");
        }
        let from = bus.now();
        schedules.set(NAME, options("every 1m")).await.unwrap();
        bus.advance(MINUTE * 3).await;
        let all = instants(&seen, NAME);
        let expected: Vec<_> = options("every 1m").instants(from).take(3).collect();
        assert_eq!(all, expected, "{fault:?}");
    }
}
