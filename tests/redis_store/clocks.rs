//! A server whose clock steps.

mod timed;

use std::collections::BTreeMap;
use std::time::Duration;

use duly::EventId;
use duly::event::{BucketId, BucketKey, State};
use duly::records::NodeId;
use duly::store::operation::{PushReport, Reply, StoreOp};
use duly::store::{MemberInfo, Store};
use duly::time::When;
use tokio::time::Instant;

use crate::redis_store::kit::{Bare, fresh, until};
use crate::servers::{Redis, RedisOptions, WallClock};

const MINUTE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);
const STEPS: [f64; 10] = [
    3_600.0, -3_600.0, 86_400.0, -86_400.0, 10.0, -10.0, 2.0, -2.0, 1.0, -1.0,
];

/// The time of this machine, which is the server's when that is right.
#[allow(clippy::disallowed_methods)] // it is compared with a server's
fn now_us() -> u64 {
    let now = duly::time::Timestamp::from(std::time::SystemTime::now());
    now.as_micros()
}

struct Stepping {
    bare: Bare,
    url: String,
    request: std::cell::Cell<u64>,
    _server: Redis,
    clock: WallClock,
    wrong_since: std::cell::Cell<Option<Instant>>,
    slow: std::cell::Cell<bool>,
}

/// An event that was pushed: when, by the clock of the test, and with which delay.
struct Waiting(EventId, Instant, Duration);

impl Stepping {
    async fn new() -> Self {
        let clock = WallClock::new();
        let server = Redis::start(RedisOptions {
            under: clock.words(),
            ..RedisOptions::default()
        });
        let (url, _) = fresh(&server.url());
        let bare = Bare::open(&url).await;
        Self {
            _server: server,
            clock,
            wrong_since: std::cell::Cell::default(),
            slow: std::cell::Cell::default(),
            bare,
            url,
            request: std::cell::Cell::new(0),
        }
    }

    fn set(&self, ahead_s: f64) {
        self.was_slow();
        self.clock.set(ahead_s);
        let since = self.wrong_since.take().unwrap_or_else(Instant::now);
        self.wrong_since.set((ahead_s != 0.0).then_some(since));
    }

    /// Whether the clock has been wrong for so long, on a busy machine, that it may be believed.
    fn was_slow(&self) -> bool {
        let since = self.wrong_since.get();
        let is_slow = since.is_some_and(|since| since.elapsed() > Duration::from_secs(7));
        self.slow.set(self.slow.get() || is_slow);
        self.slow.get()
    }

    /// Pushes through a store, with an id of this machine's time.
    async fn push(&self, bare: &Bare, delay: Duration) -> Waiting {
        // A call that is long under way counts its delay from its beginning.
        let since = Instant::now();
        let id = self.bare.new_id();
        let pushed = bare.push(id, When::After(delay)).await.expect("a push");
        let Reply::Pushed(pushed) = pushed else {
            panic!("{pushed:?}")
        };
        let [PushReport { verdict, .. }] = pushed[..] else {
            panic!("{pushed:?}")
        };
        let is_accepted = format!("{verdict:?}").starts_with("Accepted");
        assert!(is_accepted || self.was_slow(), "{verdict:?}");
        Waiting(id, since, delay)
    }

    /// Leases and acks what is due, and checks that it was not early.
    async fn take(&self, waiting: &mut Vec<Waiting>, what: &str) {
        self.bare
            .apply(StoreOp::MoveDue {
                limit: 1_000,
                calls: false,
            })
            .await
            .expect("a move");
        let request = self.request.get() + 1;
        self.request.set(request);
        let taken = self.bare.fetch(request, 100).await.expect("a fetch");
        for id in &taken {
            let at = waiting.iter().position(|it| it.0 == *id).expect("it waits");
            let Waiting(_, since, delay) = waiting.swap_remove(at);
            // A step of a second or less is followed at once.
            let least = delay.saturating_sub(Duration::from_millis(1_100));
            let waited = since.elapsed();
            assert!(
                waited >= least || self.was_slow(),
                "{what}: {waited:?} instead of {delay:?}"
            );
        }
        if !taken.is_empty() {
            self.bare.ack(request, &taken).await.expect("an ack");
        }
    }

    /// Until all events with a short delay were taken.
    async fn take_all(&self, waiting: &mut Vec<Waiting>, what: &str) {
        let began = Instant::now();
        while waiting.iter().any(|it| it.2 < MINUTE) && !self.was_slow() {
            self.take(waiting, what).await;
            let late = began.elapsed();
            assert!(late < MINUTE, "{what}: {late:?} for {SHORT:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_clock_that_steps_for_a_moment_makes_nothing_early_or_late_and_holds_no_bucket() {
    let mut world = Stepping::new().await;
    let mut waiting = vec![world.push(&world.bare, MINUTE * 5).await];
    for step in STEPS {
        if world.was_slow() {
            world = Stepping::new().await;
            waiting = vec![world.push(&world.bare, MINUTE * 5).await];
        }
        let what = format!("a step of {step} s");
        waiting.push(world.push(&world.bare, SHORT).await);
        world.set(step);
        for _ in 0..3 {
            waiting.push(world.push(&world.bare, SHORT).await);
            world.take(&mut waiting, &what).await;
        }
        world.set(0.0);
        waiting.push(world.push(&world.bare, SHORT).await);
        world.take_all(&mut waiting, &what).await;
    }
    if !world.was_slow() {
        assert_eq!(world.bare.state(waiting[0].0).await, State::Scheduled);
    }
}

#[tokio::test]
async fn a_bucket_that_was_first_used_while_the_clock_was_ahead_goes_on_after_it_was_set_back() {
    let world = Stepping::new().await;
    world.set(3_600.0);
    let other = Bare::open(&world.url).await; // believes what it finds
    let id = other.new_id();
    other.push(id, When::Now).await.expect("a push");
    world.set(0.0);
    let mut waiting = vec![world.push(&world.bare, SHORT).await];
    let request = 1_000;
    assert_eq!(world.bare.fetch(request, 1).await.expect("a fetch"), [id]);
    world.request.set(request);
    world.bare.ack(request, &[id]).await.expect("an ack");
    waiting.push(world.push(&other, SHORT).await);
    for bare in [&world.bare, &other] {
        let ahead_us = bare.store.now_us().abs_diff(now_us());
        assert!(ahead_us < 3_000_000, "{ahead_us} us from the server's time");
    }
    world.take_all(&mut waiting, "set back").await;
}

#[tokio::test]
async fn a_clock_that_was_set_is_believed_when_it_has_stood() {
    for step in [3_600.0, -3_600.0] {
        let world = Stepping::new().await;
        world.push(&world.bare, SHORT).await;
        let before = world.bare.store.now_us();
        world.set(step);
        until("the store's time follows", async || {
            world
                .bare
                .apply(StoreOp::MoveDue {
                    limit: 1,
                    calls: false,
                })
                .await
                .expect("a move");
            let moved = world.bare.store.now_us().abs_diff(before);
            moved > 3_000_000_000
        })
        .await;
    }
}

#[tokio::test]
async fn a_bucket_that_was_idle_while_the_clock_was_set_follows_at_once() {
    const STEP_S: u32 = 30;
    let world = Stepping::new().await;
    let bare = &world.bare;
    let sweep = StoreOp::MoveDue {
        limit: 1,
        calls: false,
    };
    let idle = BucketKey::new(bare.bucket.queue.clone(), BucketId(1));
    let id = EventId::from_parts(bare.new_id().created(), idle.bucket, 1);
    let event = bare.plain(id, When::After(MINUTE * 5));
    let pushed = bare.store.apply(&idle, StoreOp::Push(vec![event])).await;
    pushed.expect("a push");
    world.push(bare, MINUTE * 5).await;
    world.set(f64::from(STEP_S));
    let off_us = |store_us: u64| {
        let server_us = now_us() + u64::from(STEP_S) * 1_000_000;
        store_us.abs_diff(server_us)
    };
    // The other bucket follows when the clock has stood; then the time of all buckets stands.
    let mut since = None;
    until("the store's time has followed, and stood", async || {
        bare.apply(sweep.clone()).await.expect("a move");
        if off_us(bare.store.now_us()) > 3_000_000 {
            return false;
        }
        since.get_or_insert_with(Instant::now).elapsed() > Duration::from_secs(11)
    })
    .await;
    let moved = bare.store.apply(&idle, sweep.clone()).await;
    let off_us = off_us(moved.expect("a move").now_us);
    assert!(off_us < 3_000_000, "{off_us} us off in the idle bucket");
}

/// Whoever polls first after it: a member, a new one, or one that consumes nothing.
#[tokio::test]
async fn a_clock_that_steps_removes_no_member_that_polls_and_keeps_none_that_does_not() {
    const NEW: u64 = 10;
    const CONSUMES_NOTHING: u64 = 0;
    let world = Stepping::new().await;
    let store = &world.bare.store;
    let poll = async |node: u64| -> BTreeMap<u64, u64> {
        let queues = (node != CONSUMES_NOTHING).then(|| "letters".parse().expect("a name"));
        let me = MemberInfo {
            node: NodeId(node),
            queues: queues.into_iter().collect(),
            host: "web-3".into(),
            leaves: false,
        };
        let members = store.poll_members(me).await.expect("a poll").members;
        members.iter().map(|it| (it.node.0, it.beat)).collect()
    };
    let mut ahead_s = 0.0;
    for first in [2, NEW, CONSUMES_NOTHING, 3, 1] {
        for step_s in [61.0, 86_400.0, -30.0, -86_400.0] {
            let what = format!("{first} polls first after a step of {step_s} s");
            let dead = 100;
            let mut polls = BTreeMap::new();
            for node in [1, 2, dead, 3, 1] {
                polls = poll(node).await;
            }
            ahead_s += step_s;
            world.set(ahead_s);
            let seen = poll(first).await;
            if polls.contains_key(&first) {
                assert!(
                    seen.keys().eq(polls.keys()),
                    "{what}: {seen:?} of {polls:?}"
                );
                assert!(seen[&first] > polls[&first], "{what}: {first} was removed");
                poll(first).await; // and again, before others have come to it
            }
            for node in [1, 2, 3].into_iter().filter(|node| *node != first) {
                let number = poll(node).await[&node];
                assert!(number > polls[&node], "{what}: {node} was removed");
            }
            for _ in 0..4 {
                ahead_s += 20.0;
                world.set(ahead_s);
                for node in [1, 2, 3] {
                    polls = poll(node).await;
                }
            }
            assert_eq!(!polls.contains_key(&dead), step_s > 60.0, "{what}");
        }
    }
}

#[tokio::test]
#[allow(clippy::print_stdout)] // it tells which seed to run again
async fn a_clock_that_steps_at_random_makes_nothing_early_or_late() {
    let world = Stepping::new().await;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut waiting = vec![world.push(&world.bare, MINUTE * 5).await];
    for _ in 0..60 {
        match random.u8(0..6) {
            0 => world.set((random.f64() - 0.5) * 2.0 * 86_400.0),
            1 | 2 => world.set(0.0),
            _ => {}
        }
        let delay = Duration::from_millis(random.u64(0..800));
        waiting.push(world.push(&world.bare, delay).await);
        world.take(&mut waiting, "at random").await;
    }
    world.set(0.0);
    world.take_all(&mut waiting, "at random").await;
    assert!(waiting.len() == 1 || world.was_slow());
}

/// What a bucket has seen of a clock that was wrong for a moment is no reason to believe it later.
#[tokio::test]
async fn a_clock_that_glitches_again_is_not_believed_though_no_call_came_between() {
    let world = Stepping::new().await;
    let mut waiting = vec![world.push(&world.bare, MINUTE * 5).await];
    let other = Bare::open(&world.url).await;
    world.set(3_600.0);
    world.push(&other, MINUTE * 5).await;
    other.store.close().await.expect("a stop"); // and calls no more
    world.set(0.0);
    tokio::time::sleep(Duration::from_secs(11)).await;
    for _ in 0..2 {
        world.set(3_600.0);
        world.take(&mut waiting, "a glitch").await;
        world.set(0.0);
        tokio::time::sleep(Duration::from_secs(11)).await;
    }
    world.take(&mut waiting, "after all").await;
    assert_eq!(waiting.len(), 1);
}

/// One call after the step is enough, whatever it does: the next ones may be minutes apart.
#[tokio::test]
async fn a_bucket_that_is_called_rarely_follows_a_clock_that_was_set() {
    let follows = async |(world, step, at): (Stepping, f64, u8)| {
        let bare = &world.bare;
        let Waiting(id, ..) = world.push(bare, MINUTE * 5).await;
        let before_us = bare.store.now_us();
        world.set(step);
        let op = match at {
            0 => StoreOp::Stats,
            1 => StoreOp::Get { id },
            2 => StoreOp::Cancel { id },
            _ => StoreOp::Push(vec![bare.plain(bare.new_id(), When::After(MINUTE))]),
        };
        let what = format!("after a step of {step} s and {op:?}");
        bare.apply(op).await.expect("a call");
        until(&what, async || {
            let moved_us = bare.store.now_us().cast_signed() - before_us.cast_signed();
            (step - 1.0..step + 60.0).contains(&(moved_us as f64 / 1e6))
        })
        .await;
    };
    let mut all = Vec::new();
    for (at, step) in [3_600.0, -3_600.0, 120.0, -120.0].into_iter().enumerate() {
        for at in [at, at + 1] {
            let world = Stepping::new().await; // one after the other: each blocks for a moment
            all.push(follows((world, step, (at % 4) as u8)));
        }
    }
    futures_util::future::join_all(all).await;
}

#[tokio::test]
async fn a_new_bucket_does_not_believe_a_clock_that_was_set_back() {
    for step in [-30.0, 30.0] {
        let world = Stepping::new().await;
        world.set(step);
        let mut waiting = vec![world.push(&world.bare, Duration::from_secs(20)).await];
        world.set(0.0);
        world.take(&mut waiting, "a new bucket").await;
        assert!(waiting.len() == 1 || world.was_slow());
        let ahead_us = world.bare.store.now_us().abs_diff(now_us());
        assert!(
            ahead_us < 3_000_000 || world.was_slow(),
            "{ahead_us} us off"
        );
    }
}
