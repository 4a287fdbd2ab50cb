//! Each public future is polled n times and dropped, for each n until it completes: the bus still
//! works, nothing stays leased, and what is set is applied.

use duly::Bus;
use duly::lease::LeaseOutcome;
use duly::testing::{Probe, TestBus};
use duly::time::When;
use futures_util::FutureExt;
use tokio::time::Instant;

use super::beside::WATCHDOG;
use super::slow::Slow;
use super::stage::{PULLED, Stage, builder, echo, serving};
use super::table::{CALLS, Call};
use crate::servers;
use crate::world::{World, ms, secs};

over_every_store! {
    what_is_dropped_half_way_leaves_a_bus_that_works,
    a_start_that_is_dropped_half_way_leaves_its_store_to_the_next,
}

/// No call is polled more often.
pub(crate) const POLLS_MAX: usize = 500;

/// Polls a future at most `polls` times and drops it; returns its result if it has one by then.
pub(crate) async fn polled<T>(
    mut future: impl Future<Output = T> + Unpin,
    polls: usize,
) -> Option<T> {
    for _ in 0..polls {
        if let Some(result) = (&mut future).now_or_never() {
            return Some(result);
        }
        tokio::time::sleep(ms(1)).await; // of the virtual clock: all others have had their turn
    }
    None
}

/// When what a bus does by itself is done.
enum Time<'a> {
    /// After a second of its clock.
    Virtual(&'a TestBus),
    /// Soon.
    Real,
}

impl Time<'_> {
    /// Waits until a check has nothing to complain of.
    async fn until(&self, check: impl AsyncFn() -> Result<(), String>) {
        let began = Instant::now();
        if let Self::Virtual(bus) = self {
            bus.advance(secs(1)).await;
        }
        while let Err(why) = check().await {
            let is_over = matches!(self, Self::Virtual(_)) || began.elapsed() > WATCHDOG;
            assert!(!is_over, "{why}");
            tokio::time::sleep(ms(1)).await;
        }
    }

    /// Returns how often a future is polled after it was polled so often: nearly each number, where
    /// polls are not all of a server's time.
    fn next(&self, polls: usize) -> usize {
        match self {
            Self::Virtual(_) => polls + 1,
            Self::Real => polls + 1 + polls / 4,
        }
    }
}

async fn what_is_dropped_half_way_leaves_a_bus_that_works(world: World) {
    let probe = echo();
    let bus = world.start(builder(Slow::over(&world.store), &probe)).await;
    each_dropped(&bus, &Time::Virtual(&bus), &probe).await;
    bus.shutdown(secs(5)).await.unwrap();
}

/// On real time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_dropped_half_way_leaves_a_bus_on_a_server_that_works() {
    let probe = echo();
    // A machine that is busy is no outage.
    let patient = "timeout=30s&connect_timeout=30s";
    let (server, prefix) = (servers::shared().url(), servers::prefix());
    let url = format!("{server}?prefix={prefix}&{patient}");
    let bus = serving(Bus::builder().store_url(url), &probe);
    let bus = bus.settings(Default::default()).start().await.unwrap();
    each_dropped(&bus, &Time::Real, &probe).await;
    bus.shutdown(secs(30)).await.unwrap();
}

/// On real time, and on a server that nobody else connects to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_is_dropped_half_way_leaves_no_connection_to_a_server() {
    let probe = echo();
    let server = servers::Redis::plain();
    let clients = || server.cli(&["CLIENT", "LIST"]).lines().count();
    let url = format!("{}?prefix={}", server.url(), servers::prefix());
    let builder = || {
        let bus = serving(Bus::builder().store_url(url.clone()), &probe);
        bus.settings(Default::default())
    };
    let before = clients();
    let mut polls = 0;
    let bus = loop {
        assert!(polls < POLLS_MAX, "the start is never done");
        if let Some(bus) = polled(Box::pin(builder().start()), polls).await {
            break bus.unwrap();
        }
        let is_left = async || match clients() {
            now if now <= before => Ok(()),
            now => Err(format!("after {polls} polls: {now} connections")),
        };
        Time::Real.until(is_left).await;
        polls = Time::Real.next(polls);
    };
    assert!(polls > 3, "it awaits nothing");
    let handled = bus.queue_named::<u64>("handled").unwrap();
    assert_eq!(handled.call::<u64>(7, secs(30)).await.unwrap(), 7);
    // Those that were dropped are no nodes any more.
    let is_alone = async || match bus.nodes().await.unwrap().len() {
        1 => Ok(()),
        many => Err(format!("{many} nodes")),
    };
    Time::Real.until(is_alone).await;
    bus.shutdown(secs(30)).await.unwrap();
}

async fn each_dropped(bus: &Bus, time: &Time<'_>, probe: &Probe<u64>) {
    for call in CALLS {
        let mut polls = 1;
        loop {
            assert!(polls < POLLS_MAX, "{:?} is never done", call.place);
            let stage = Stage::of(bus).await.unwrap();
            let (waiting, token) = (stage.waiting, stage.token.clone());
            let result = polled((call.run)(stage), polls).await;
            if let Some(result) = &result {
                assert!(result.is_ok(), "{:?}: {result:?}", call.place);
            }
            // What the stage has prepared.
            let _ = bus
                .settle_lease(&token, LeaseOutcome::Release)
                .await
                .unwrap();
            let pulled = bus.queue_named::<u64>(PULLED).unwrap();
            let _ = pulled.cancel(waiting).await.unwrap();
            pulled.cancel_by_key("other").await.unwrap();
            let _ = bus
                .dead_letters()
                .drop_all()
                .await
                .unwrap()
                .finished()
                .unwrap();
            works(bus, time, probe, (call, polls)).await;
            if result.is_some() {
                break;
            }
            polls = time.next(polls);
        }
    }
}

/// Checks the bus after a call was polled so often.
async fn works(bus: &Bus, time: &Time<'_>, probe: &Probe<u64>, (call, polls): (&Call, usize)) {
    let at = format!("{:?} after {polls} polls", call.place);
    let at = &at;
    let applied = async || {
        let set = bus.controls().await.unwrap();
        let set = set.get("handled").copied().unwrap_or_default();
        let expected = if set.paused {
            0
        } else {
            set.workers.map_or(4, usize::from)
        };
        match bus.load()[0].workers {
            workers if workers == expected => Ok(()),
            workers => Err(format!("{at}: stored, not applied: {workers}")),
        }
    };
    time.until(applied).await;
    reset(bus).await;
    let before = probe.count();
    let handled = bus.queue_named::<u64>("handled").unwrap();
    handled.push(77, When::Now).await.unwrap();
    let is_handled = async || {
        let stats = bus.stats("handled").await.unwrap();
        if probe.count() > before && (stats.ready, stats.leased) == (0, 0) {
            return Ok(());
        }
        reset(bus).await; // what goes on without its caller may be stored only now
        Err(format!(
            "{at}: no handler runs, or not to its end: {stats:?}"
        ))
    };
    time.until(is_handled).await;
    let is_free = async || {
        let stats = bus.stats(PULLED).await.unwrap();
        match stats.leased {
            0 => Ok(()),
            _ => Err(format!("{at}: {stats:?}")),
        }
    };
    time.until(is_free).await;
    let pulled = bus.queue_named::<u64>(PULLED).unwrap();
    pulled.push(78, When::Now).await.unwrap();
    let leased = pulled.lease(1_000, secs(60)).send().await.unwrap();
    let payloads: Vec<u64> = leased.iter().map(|it| it.event().payload).collect();
    assert!(payloads.contains(&78), "{at}: {payloads:?}");
    for leased in leased {
        let _ = leased.ack().await.unwrap();
    }
}

/// Sets what was set of the queue with the handler back.
async fn reset(bus: &Bus) {
    let set = bus.controls().await.unwrap();
    let set = set.get("handled").copied().unwrap_or_default();
    if set != duly::store::Control::default() {
        bus.resume("handled").await.unwrap();
        bus.set_workers_everywhere("handled", None).await.unwrap();
        bus.set_rate("handled", None).await.unwrap();
        bus.set_buckets("handled", None).await.unwrap();
    }
}

async fn a_start_that_is_dropped_half_way_leaves_its_store_to_the_next(world: World) {
    let probe = echo();
    for polls in 1.. {
        assert!(polls < POLLS_MAX, "the start is never done");
        let store = Slow::over(&world.store);
        let clock = std::sync::Arc::clone(&world.clock);
        let start = TestBus::start_on(clock, builder(store, &probe));
        let started = polled(Box::pin(start), polls).await;
        let is_done = started.is_some();
        if let Some(bus) = started {
            drop(bus.unwrap());
        }
        tokio::time::sleep(ms(10)).await;
        let users = std::sync::Arc::strong_count(&world.store);
        assert_eq!(
            users, 1,
            "after {polls} polls somebody holds on to the store"
        );
        if is_done {
            break;
        }
    }
}
