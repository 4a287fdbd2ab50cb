//! Tests: the jobs of a pool or runtime that stops.

use std::collections::{BTreeSet, VecDeque};
use std::future::pending;
use std::pin::pin;

use super::{Books, NEVER, is_pending, pool, within};
use crate::flow::pool::work::JobEnd;

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
        assert!((0..8).all(|job| ends[&job] == JobEnd::Cut));
        assert!((8..20).all(|job| ends[&job] == JobEnd::Finished(())));
    }
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

/// As a change of the settings beside a stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_is_final_whatever_number_of_workers_is_set_after_it() {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let handler = move |job: u64| {
        if job == 1 {
            let _ = held.lock().unwrap().recv(); // its worker has taken the next one as well
        }
        std::future::ready(())
    };
    let pool = pool(Books::new(handler), 0);
    let mut jobs: VecDeque<_> = (0..8).collect();
    pool.publisher().try_publish_many(&mut jobs);
    pool.set_workers(1);
    pool.work().until_ended(1).await;
    pool.halt();
    pool.set_workers(1); // with all the jobs there that it could begin
    drop(hold);
    within("stopping", pool.stopped()).await;
    let mut left = pool.drain();
    left.sort_unstable();
    let ends = pool.work().ends();
    assert!(ends.len() <= 2, "{ends:?}");
    assert!(left.into_iter().eq(ends.len() as u64..8));
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
    assert!(ends.values().all(|ended| *ended == JobEnd::Cut));
    assert_eq!(pool.active(), 0);
    publisher.try_publish(60).unwrap(); // no worker can run it, and nothing fails
    assert_eq!(pool.active(), 0);
    let left: BTreeSet<_> = pool.drain().into_iter().collect();
    assert!(
        left.into_iter()
            .eq((0..=60).filter(|job| !ends.contains_key(job)))
    );
}
