//! Tests: which jobs are begun, and when.

use std::collections::VecDeque;
use std::future::{Future, pending, ready};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::yield_now;

use super::{Books, all_finished, pool, within};
use crate::flow::pool::job_queue::lock;
use crate::flow::pool::work::{JobEnd, Work};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_published_is_run() {
    let pool = pool(Books::new(|_| ready(())), 4);
    assert!(pool.is_idle());
    pool.publisher().try_publish(7).unwrap();
    pool.work().until_ended(1).await;
    within("idling", pool.idle()).await;
    assert_eq!(pool.work().ends(), all_finished([7]));
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
    assert_eq!(pool.work().ends().remove(&5), Some(JobEnd::Cut));
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
        type Scratch = ();
        type Ticket = u64;
        type Output = ();
        fn scratch(&self) {}
        fn begin(&self, job: u64, (): &mut ()) -> Option<(u64, impl Future<Output = ()> + Send)> {
            job.is_multiple_of(3).then(|| (job, ready(())))
        }
        fn end(&self, job: u64, ended: JobEnd<()>) {
            assert_eq!(ended, JobEnd::Finished(()));
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
