//! Randomized stress tests: `DULY_STRESS` sets the rounds, `DULY_SEED` the first seed.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use tokio::task::yield_now;

use super::{Books, NEVER, all_finished, pool, within};

/// Returns how many rounds a stress test runs: `DULY_STRESS`, or a few.
fn rounds() -> u64 {
    std::env::var("DULY_STRESS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(20)
}

/// Returns the first seed: `DULY_SEED` to repeat a failed round, or a random one.
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

/// The job determines what its handler does, so that a round can be repeated.
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
