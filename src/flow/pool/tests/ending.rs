//! Tests: jobs that panic or exceed their limit.

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, pending};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;

use super::{Books, all_finished, pool, within};
use crate::flow::pool::work::JobEnd;

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
            (0, JobEnd::Finished(())) => {}
            (2, JobEnd::Panicked(words)) => assert_eq!(words, "in drop"),
            (3, JobEnd::Panicked(words)) => {
                assert!(words.starts_with("in poll, ä") && words.len() <= 1_024);
            }
            (4, JobEnd::Panicked(words)) => assert_eq!(words, "a panic without words"),
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
    assert_eq!(pool.work().ends(), BTreeMap::from([(1, JobEnd::TimedOut)]));
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
        expected.insert(0, JobEnd::TimedOut);
        assert_eq!(pool.work().ends(), expected);
    }
}
