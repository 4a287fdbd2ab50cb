//! What a pool promises, seen from inside the crate.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, pending, poll_fn, ready};
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::*;
use crate::flow::work::Ended;

/// Longer than anything here takes; only a lost job waits that long.
const NEVER: Duration = Duration::from_secs(60);

/// Work whose handler is a closure, and which keeps books.
struct Books<H> {
    handler: H,
    limit: Option<Duration>,
    begun: Mutex<Vec<u64>>,
    ended: Mutex<Vec<(u64, Ended<()>)>>,
    running: AtomicUsize,
    most_running: AtomicUsize,
    changed: Notify,
}

impl<H, F> Books<H>
where
    H: Fn(u64) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send,
{
    fn new(handler: H) -> Self {
        Self {
            handler,
            limit: None,
            begun: Mutex::default(),
            ended: Mutex::default(),
            running: AtomicUsize::new(0),
            most_running: AtomicUsize::new(0),
            changed: Notify::new(),
        }
    }

    fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    fn begun(&self) -> Vec<u64> {
        lock(&self.begun).clone()
    }

    /// How each job ended; a job that ended twice is a failure.
    fn ends(&self) -> BTreeMap<u64, Ended<()>> {
        let ended = lock(&self.ended).clone();
        let ends: BTreeMap<_, _> = ended.iter().cloned().collect();
        assert_eq!(ends.len(), ended.len(), "a job ended twice");
        ends
    }

    async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let waiting = async {
            loop {
                let mut changed = pin!(self.changed.notified());
                changed.as_mut().enable();
                if done(self) {
                    return;
                }
                changed.await;
            }
        };
        assert!(
            timeout(NEVER, waiting).await.is_ok(),
            "waited in vain until {what}"
        );
    }

    async fn until_begun(&self, count: usize) {
        self.until("so many have begun", |books| {
            lock(&books.begun).len() >= count
        })
        .await;
    }

    async fn until_ended(&self, count: usize) {
        self.until("so many have ended", |books| {
            lock(&books.ended).len() >= count
        })
        .await;
    }
}

impl<H, F> Work for Books<H>
where
    H: Fn(u64) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send,
{
    type Job = u64;
    type Ticket = u64;
    type Output = ();

    fn begin(&self, job: u64) -> Option<(u64, impl Future<Output = ()> + Send)> {
        let future = (self.handler)(job);
        lock(&self.begun).push(job);
        let running = self.running.fetch_add(1, SeqCst) + 1;
        self.most_running.fetch_max(running, SeqCst);
        self.changed.notify_waiters();
        Some((job, future))
    }

    fn end(&self, job: u64, ended: Ended<()>) {
        self.running.fetch_sub(1, SeqCst);
        lock(&self.ended).push((job, ended));
        self.changed.notify_waiters();
    }

    fn limit(&self) -> Option<Duration> {
        self.limit
    }
}

/// A pool of `workers` in the current runtime, with the smallest ring.
fn pool<W: Work>(work: W, workers: usize) -> Pool<W> {
    let runtime = Handle::current();
    let board = Board::new(runtime.clone());
    pool_with(
        work,
        PoolOptions {
            capacity: 64,
            ..PoolOptions::new(workers, runtime, board)
        },
    )
}

fn pool_with<W: Work>(work: W, options: PoolOptions) -> Pool<W> {
    Pool::new(work, options).expect("the capacity is good")
}

async fn within<F: Future>(what: &str, future: F) -> F::Output {
    match timeout(NEVER, future).await {
        Ok(output) => output,
        Err(_elapsed) => panic!("{what} took for ever"),
    }
}

/// Polls once.
async fn is_pending<F: Future>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

fn all_finished(jobs: impl IntoIterator<Item = u64>) -> BTreeMap<u64, Ended<()>> {
    jobs.into_iter()
        .map(|job| (job, Ended::Finished(())))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_published_is_run() {
    let pool = pool(Books::new(|_| ready(())), 4);
    assert!(pool.is_idle());
    pool.publisher().try_publish(7).unwrap();
    pool.work().until_ended(1).await;
    within("idling", pool.idle()).await;
    assert_eq!(pool.work().ends(), all_finished([7]));
}

#[tokio::test]
async fn a_capacity_that_a_ring_cannot_have_is_refused() {
    let runtime = Handle::current();
    let options = PoolOptions::new(1, runtime.clone(), Board::new(runtime));
    let work = Books::new(|_| ready(()));
    let error = Pool::new(
        work,
        PoolOptions {
            capacity: 100,
            ..options
        },
    )
    .err();
    assert_eq!(error, Some(BadCapacity(100)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_worker_begins_jobs_in_the_order_of_their_publication() {
    let handler = |job: u64| async move {
        for _ in 0..(job * 7 % 5).saturating_sub(2) {
            yield_now().await;
        }
    };
    let pool = pool(Books::new(handler), 1);
    let mut publisher = pool.publisher();
    let mut batch = VecDeque::new();
    for job in 0..5_000 {
        batch.push_back(job);
        if job % 3 == 0 {
            within("publishing", publisher.publish_many(&mut batch))
                .await
                .unwrap();
        }
    }
    within("publishing", publisher.publish_many(&mut batch))
        .await
        .unwrap();
    within("idling", pool.idle()).await;
    assert!(pool.work().begun().into_iter().eq(0..5_000));
    assert_eq!(pool.work().most_running.load(SeqCst), 1);
}

#[tokio::test]
async fn a_full_pool_gives_the_job_back_and_waits_for_room_when_asked_to() {
    let pool = pool(Books::new(|_| ready(())), 0);
    let mut publisher = pool.publisher();
    for job in 0..64 {
        publisher.try_publish(job).unwrap();
    }
    assert_eq!(publisher.try_publish(64), Err(64));
    assert_eq!(pool.queued(), 64);

    let mut publishing = pin!(publisher.publish(64));
    assert!(is_pending(publishing.as_mut()).await);
    pool.set_workers(1);
    within("publishing", publishing).await.unwrap();
    within("idling", pool.idle()).await;
    assert_eq!(pool.work().ends(), all_finished(0..=64));
}

#[tokio::test]
async fn waiting_for_room_can_be_cancelled() {
    let pool = pool(Books::new(|_| ready(())), 0);
    let mut publisher = pool.publisher();
    let mut jobs: VecDeque<_> = (0..100).collect();
    {
        let mut publishing = pin!(publisher.publish_many(&mut jobs));
        assert!(is_pending(publishing.as_mut()).await);
    }
    assert!(jobs.into_iter().eq(64..100), "what was not published stays");
    pool.set_workers(2);
    within("idling", pool.idle()).await;
    assert_eq!(pool.work().ends(), all_finished(0..64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_ends_its_own_job_and_nothing_else() {
    struct PanicsWhenDropped;
    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            resume_unwind(Box::new("in drop"));
        }
    }
    let handler = |job: u64| {
        if job % 5 == 1 {
            resume_unwind(Box::new("in begin"));
        }
        async move {
            let _guard = (job % 5 == 2).then(|| PanicsWhenDropped);
            if job.is_multiple_of(2) {
                yield_now().await;
            }
            match job % 5 {
                3 => resume_unwind(Box::new(format!("in poll, {}", "ä".repeat(2_000)))),
                4 => resume_unwind(Box::new(PanicsWhenDropped)),
                _ => {}
            }
        }
    };
    let pool = pool(Books::new(handler), 3);
    let mut jobs: VecDeque<_> = (0..500).collect();
    within("publishing", pool.publisher().publish_many(&mut jobs))
        .await
        .unwrap();
    within("idling", pool.idle()).await;

    let ends = pool.work().ends();
    assert_eq!(ends.len(), 400, "all but those that were never begun");
    for (job, ended) in ends {
        match (job % 5, ended) {
            (0, Ended::Finished(())) => {}
            (2, Ended::Panicked(words)) => assert_eq!(words, "in drop"),
            (3, Ended::Panicked(words)) => {
                assert!(words.starts_with("in poll, ä") && words.len() <= 1_024);
            }
            (4, Ended::Panicked(words)) => assert_eq!(words, "a panic without words"),
            (_, ended) => panic!("{job} ended as {ended:?}"),
        }
    }
}

#[tokio::test]
async fn a_panic_while_a_future_is_dropped_does_not_change_how_its_job_ended() {
    struct Hostile;
    impl Future for Hostile {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }
    impl Drop for Hostile {
        fn drop(&mut self) {
            resume_unwind(Box::new("in drop"));
        }
    }
    let books = Books::new(|_| Hostile).limit(Duration::from_millis(1));
    let pool = pool(books, 1);
    pool.publisher().try_publish(1).unwrap();
    within("idling", pool.idle()).await;
    assert_eq!(pool.work().ends(), BTreeMap::from([(1, Ended::TimedOut)]));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_takes_too_long_is_dropped_and_the_others_go_on() {
    for (limit, late) in [(5_000, 30), (100, 30), (99, 2), (5, 2)] {
        let limit = Duration::from_millis(limit);
        let handler = |job: u64| async move {
            match job {
                0 => pending().await,
                _ => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        };
        let pool = pool(Books::new(handler).limit(limit), 2);
        let start = Instant::now();
        let mut jobs: VecDeque<_> = (0..50).collect();
        within("publishing", pool.publisher().publish_many(&mut jobs))
            .await
            .unwrap();
        within("idling", pool.idle()).await;

        let took = start.elapsed();
        let latest = limit.max(Duration::from_millis(100)) + Duration::from_millis(late);
        assert!(
            took >= limit && took <= latest,
            "{took:?} for a limit of {limit:?}"
        );
        let mut expected = all_finished(1..50);
        expected.insert(0, Ended::TimedOut);
        assert_eq!(pool.work().ends(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn time_that_stands_still_holds_up_neither_lingering_nor_yielding() {
    let pool = pool(Books::new(|_| ready(())), 2);
    let mut publisher = pool.publisher();
    for job in 0..100 {
        within("publishing", publisher.publish(job)).await.unwrap();
        within("idling", pool.idle()).await;
    }
    assert_eq!(pool.work().ends().len(), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_workers_follows_while_they_run() {
    let gate = Arc::new(Semaphore::new(0));
    let handler = {
        let gate = gate.clone();
        move |_| {
            let gate = gate.clone();
            async move { gate.acquire().await.expect("the gate stays open").forget() }
        }
    };
    let pool = pool(Books::new(handler), 0);
    let mut jobs: VecDeque<_> = (0..40).collect();
    within("publishing", pool.publisher().publish_many(&mut jobs))
        .await
        .unwrap();
    for _ in 0..10 {
        yield_now().await;
    }
    assert_eq!(
        (pool.active(), pool.queued()),
        (0, 40),
        "a paused pool begins nothing"
    );

    let books = pool.work();
    for workers in [3, 5] {
        pool.set_workers(workers);
        books.until_begun(workers).await;
        assert_eq!(books.running.load(SeqCst), workers);
    }
    pool.set_workers(1);
    gate.add_permits(5);
    books
        .until("the new number is kept", |books| {
            lock(&books.ended).len() == 5 && lock(&books.begun).len() == 6
        })
        .await;
    books.most_running.store(0, SeqCst);
    gate.add_permits(35);
    within("idling", pool.idle()).await;
    assert_eq!(books.most_running.load(SeqCst), 1);
    assert_eq!(books.ends(), all_finished(0..40));
}

#[tokio::test]
async fn a_paused_pool_does_not_even_begin_what_its_workers_have_taken() {
    type Act = Box<dyn Fn() + Send + Sync>;
    let pause = Arc::new(std::sync::OnceLock::<Act>::new());
    let handler = {
        let pause = pause.clone();
        move |job: u64| {
            if job == 20 {
                pause.get().expect("set before anything is published")();
            }
            ready(())
        }
    };
    let pool = Arc::new(pool(Books::new(handler), 1));
    let weak = Arc::downgrade(&pool);
    let act = move || weak.upgrade().expect("the pool is there").set_workers(0);
    assert!(pause.set(Box::new(act)).is_ok());

    let mut jobs: VecDeque<_> = (0..64).collect();
    pool.publisher().try_publish_many(&mut jobs);
    pool.work().until_begun(21).await;
    within("stopping", pool.stopped()).await;
    assert!(pool.work().begun().into_iter().eq(0..=20));
    assert!(pool.drain().into_iter().eq(21..64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_job_that_suspends_holds_up_no_other_one() {
    let handler = |job: u64| async move {
        if job == 5 {
            pending::<()>().await;
        }
    };
    let pool = pool(Books::new(handler), 2);
    let mut jobs: VecDeque<_> = (0..60).collect();
    within("publishing", pool.publisher().publish_many(&mut jobs))
        .await
        .unwrap();
    pool.work().until_ended(59).await;
    pool.cut();
    within("idling", pool.idle()).await;
    assert_eq!(pool.work().ends().remove(&5), Some(Ended::Cut));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cutting_drops_what_runs_and_the_pool_goes_on() {
    for limit in [None, Some(NEVER)] {
        let handler = |job: u64| async move {
            if job < 8 {
                pending::<()>().await;
            }
        };
        let mut books = Books::new(handler);
        books.limit = limit;
        let pool = pool(books, 8);
        let mut publisher = pool.publisher();
        let mut jobs: VecDeque<_> = (0..20).collect();
        within("publishing", publisher.publish_many(&mut jobs))
            .await
            .unwrap();
        pool.work().until_begun(8).await;
        pool.cut();
        within("idling", pool.idle()).await;
        let ends = pool.work().ends();
        assert!((0..8).all(|job| ends[&job] == Ended::Cut));
        assert!((8..20).all(|job| ends[&job] == Ended::Finished(())));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_pool_works_off_what_it_has_and_takes_nothing_more() {
    let pool = pool(Books::new(|_| yield_now()), 0);
    let mut publisher = pool.publisher();
    let mut jobs: VecDeque<_> = (0..64).collect();
    publisher.try_publish_many(&mut jobs);

    let mut waiting = pool.publisher();
    let waiting = tokio::spawn(async move { waiting.publish(100).await });
    yield_now().await;
    pool.close();
    assert_eq!(
        within("publishing", waiting).await.unwrap(),
        Err(Closed(100))
    );
    assert_eq!(publisher.try_publish(101), Err(101));
    jobs.push_back(102);
    assert_eq!(publisher.publish_many(&mut jobs).await, Err(Closed(())));
    assert_eq!(jobs, [102]);

    pool.set_workers(2);
    within("idling", pool.idle()).await;
    assert_eq!(pool.work().ends(), all_finished(0..64));
    assert!(pool.drain().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_hands_back_what_was_not_begun_in_order() {
    let pool = pool(Books::new(|_| pending()), 2);
    let mut jobs: VecDeque<_> = (0..64).collect();
    pool.publisher().try_publish_many(&mut jobs);
    pool.work().until_begun(2).await;
    pool.set_workers(0);
    let mut stopped = pin!(pool.stopped());
    assert!(is_pending(stopped.as_mut()).await);
    pool.cut();
    within("stopping", stopped).await;
    assert!(pool.drain().into_iter().eq(2..64));
    assert!(pool.drain().is_empty());
    assert!(pool.is_idle());
    assert_eq!(pool.publisher().try_publish(1), Err(1));
    assert_eq!(pool.work().ends().len(), 2);
}

#[test]
fn a_runtime_that_goes_away_ends_every_job_that_was_begun() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let books = Books::new(|_| pending()).limit(NEVER);
    let pool = {
        let _inside = runtime.enter();
        pool(books, 5)
    };
    let mut publisher = pool.publisher();
    let mut jobs: VecDeque<_> = (0..60).collect();
    publisher.try_publish_many(&mut jobs);
    runtime.block_on(pool.work().until_begun(5));
    drop(runtime);

    let ends = pool.work().ends();
    assert_eq!(ends.len(), 5);
    assert!(ends.values().all(|ended| *ended == Ended::Cut));
    assert_eq!(pool.active(), 0);
    publisher.try_publish(60).unwrap(); // nobody can run it, and nothing goes wrong
    assert_eq!(pool.active(), 0);
    let left: BTreeSet<_> = pool.drain().into_iter().collect();
    assert!(
        left.into_iter()
            .eq((0..=60).filter(|job| !ends.contains_key(job)))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_whose_jobs_all_hang_does_not_stop_another_one() {
    let hung = pool(Books::new(|_| pending()), 16);
    let mut jobs: VecDeque<_> = (0..64).collect();
    hung.publisher().try_publish_many(&mut jobs);
    hung.work().until_begun(16).await;

    let other = pool(Books::new(|_| yield_now()), 4);
    let mut jobs: VecDeque<_> = (0..2_000).collect();
    within("publishing", other.publisher().publish_many(&mut jobs))
        .await
        .unwrap();
    within("idling", other.idle()).await;
    assert_eq!(other.work().ends().len(), 2_000);
    assert_eq!(hung.active(), 16);
}

#[tokio::test]
async fn work_that_refuses_a_job_is_not_told_of_its_end() {
    struct Picky(Mutex<Vec<u64>>);
    impl Work for Picky {
        type Job = u64;
        type Ticket = u64;
        type Output = ();
        fn begin(&self, job: u64) -> Option<(u64, impl Future<Output = ()> + Send)> {
            (job % 3 == 0).then(|| (job, ready(())))
        }
        fn end(&self, job: u64, ended: Ended<()>) {
            assert_eq!(ended, Ended::Finished(()));
            lock(&self.0).push(job);
        }
        fn limit(&self) -> Option<Duration> {
            None
        }
    }
    let pool = pool(Picky(Mutex::default()), 1);
    let mut jobs: VecDeque<_> = (0..60).collect();
    pool.publisher().try_publish_many(&mut jobs);
    within("idling", pool.idle()).await;
    assert!(lock(&pool.work().0).iter().copied().eq((0..60).step_by(3)));
}

/// How many rounds a stress test runs: `DULY_STRESS`, or a few.
fn rounds() -> u64 {
    std::env::var("DULY_STRESS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(20)
}

/// The first round's seed: `DULY_SEED` to run a failed round again, or another one each time.
fn seed() -> u64 {
    let seed = std::env::var("DULY_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    seed.unwrap_or_else(|| fastrand::u64(..1 << 32))
}

/// Passes some time without sleeping, mostly none.
fn pause(random: &mut fastrand::Rng) {
    match random.u8(..) {
        0..=2 => thread::yield_now(),
        3..=9 => (0..random.u32(..20_000)).for_each(|_| std::hint::spin_loop()),
        _ => {}
    }
}

/// What a handler does is decided by its job, so that a round can be run again.
async fn at_random(job: u64) {
    let mut random = fastrand::Rng::with_seed(job);
    for _ in 0..random.u8(..4).saturating_sub(1) {
        pause(&mut random);
        yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_under_stress_and_the_number_of_workers_is_kept() {
    let seed = seed();
    for seed in seed..seed + rounds() {
        let mut random = fastrand::Rng::with_seed(seed);
        let workers = *random.choice(&[1, 2, 3, 16]).unwrap();
        let pool = pool(Books::new(at_random).limit(NEVER), workers);
        let (publishers, each) = (random.u64(1..4), random.u64(1..2_000));
        let publishing: Vec<_> = (0..publishers)
            .map(|who| {
                let (mut publisher, mut random) = (pool.publisher(), random.fork());
                tokio::spawn(async move {
                    let mut batch = VecDeque::new();
                    for job in who * each..(who + 1) * each {
                        batch.push_back(job);
                        pause(&mut random);
                        if random.bool() {
                            publisher.publish_many(&mut batch).await.unwrap();
                        }
                    }
                    for job in batch {
                        publisher.publish(job).await.unwrap();
                    }
                })
            })
            .collect();
        let what = format!("the round of DULY_SEED={seed}");
        for publishing in publishing {
            within(&what, publishing).await.unwrap();
        }
        within(&what, pool.idle()).await;
        let books = pool.work();
        assert_eq!(books.ends(), all_finished(0..publishers * each), "{what}");
        assert!(books.most_running.load(SeqCst) <= workers, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_publishes_late_gets_the_job_back_or_it_is_accounted_for() {
    let seed = seed();
    for seed in seed..seed + rounds() {
        let what = format!("the round of DULY_SEED={seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let pool = pool(Books::new(at_random), random.usize(..4));
        let publishing: Vec<_> = (0..3)
            .map(|who| {
                let (mut publisher, mut random) = (pool.publisher(), random.fork());
                thread::spawn(move || {
                    let mut next = who << 32;
                    loop {
                        pause(&mut random);
                        match publisher.try_publish(next) {
                            Ok(()) => next += 1,
                            Err(_) if publisher.is_closed() => return who << 32..next,
                            Err(_) => thread::yield_now(),
                        }
                    }
                })
            })
            .collect();
        for _ in 0..random.u8(..20) {
            pool.set_workers(random.usize(..4));
            (0..random.u32(..20)).for_each(|_| pause(&mut random));
            yield_now().await;
        }
        pool.set_workers(0);
        if random.bool() {
            pool.close();
        }
        pool.cut();
        within(&what, pool.stopped()).await;
        let handed_back = pool.drain();

        let accepted: BTreeSet<_> = publishing
            .into_iter()
            .flat_map(|publishing| publishing.join().unwrap())
            .collect();
        let mut accounted: BTreeSet<_> = pool.work().ends().into_keys().collect();
        for job in handed_back {
            assert!(
                accounted.insert(job),
                "{what}: {job} was begun and handed back"
            );
        }
        assert_eq!(accounted, accepted, "{what}");
        assert!(pool.is_idle(), "{what}");
    }
}
