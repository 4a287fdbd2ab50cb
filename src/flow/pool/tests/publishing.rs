//! Tests: full and closed pools, and waiting for room.

use std::collections::VecDeque;
use std::future::{pending, ready};
use std::pin::pin;

use tokio::runtime::Handle;
use tokio::task::yield_now;

use super::{Books, all_finished, is_pending, pool, within};
use crate::flow::pool::deadlines::DeadlineTable;
use crate::flow::pool::publisher::PoolClosed;
use crate::flow::pool::ring::BadCapacity;
use crate::flow::pool::{Pool, PoolOptions};

#[tokio::test]
async fn a_capacity_that_a_ring_cannot_have_is_refused() {
    let runtime = Handle::current();
    let options = PoolOptions::new(1, runtime.clone(), DeadlineTable::new(runtime));
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

/// A worker that is started before would find nothing and leave, and no other would be started.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_worker_is_called_when_its_job_is_there_and_not_before() {
    let pool = pool(Books::new(|_| ready(())), 1);
    let mut jobs = VecDeque::from([0]);
    pool.publisher().try_publish_many_as(&mut jobs, |job| {
        while pool.active() > 0 {
            std::thread::yield_now();
        }
        job
    });
    within("idling", pool.idle()).await;
    assert_eq!(pool.work().ends(), all_finished(0..=0));
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

/// Whoever waits in line for room does not keep it, however full the pool is.
#[tokio::test]
async fn what_waits_for_room_leaves_with_what_is_withdrawn() {
    let pool = pool(Books::new(|_| pending()), 1);
    let mut publisher = pool.publisher();
    publisher.try_publish(0).unwrap();
    pool.work().until_begun(1).await;
    let mut jobs: VecDeque<_> = (1..300).collect();
    publisher.try_publish_many(&mut jobs);
    let withdrawals = publisher.withdrawals();
    for is_paused in [false, true] {
        let (left, withdrawals) = (jobs.clone(), publisher.withdrawals());
        assert!(left.len() >= 64, "{left:?}");
        {
            let publishing = publisher.publish_until_withdrawn(&mut jobs, withdrawals);
            let mut publishing = pin!(publishing);
            assert!(is_pending(publishing.as_mut()).await, "there is no room");
            if is_paused {
                pool.set_workers(0);
            }
            pool.withdraw();
            within("leaving", publishing).await;
        }
        assert_eq!(jobs, left);
        publisher.try_publish_many(&mut jobs);
    }
    within(
        "a paused pool",
        publisher.publish_until_withdrawn(&mut jobs, withdrawals + 2),
    )
    .await;
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
        Err(PoolClosed(100))
    );
    assert_eq!(publisher.try_publish(101), Err(101));
    jobs.push_back(102);
    assert_eq!(publisher.publish_many(&mut jobs).await, Err(PoolClosed(())));
    assert_eq!(jobs, [102]);

    pool.set_workers(2);
    within("idling", pool.idle()).await;
    assert_eq!(pool.work().ends(), all_finished(0..64));
    assert!(pool.drain().is_empty());
}
