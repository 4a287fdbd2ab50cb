//! A store that is used from several runtimes, of which one ends, or is blocked.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use duly::Annotation;
use duly::prelude::*;
use duly::store::operation::Reply;
use duly::testing::Probe;
use duly::time::When;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::redis_store::kit::{Bare, builder, fresh, until};
use crate::servers::Redis;

#[test]
fn a_push_that_its_runtime_takes_along_keeps_no_other_from_its_bucket() {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let home = Runtime::new().unwrap();
    let bare = home.block_on(Bare::open(&url));
    home.block_on(bare.push(bare.new_id(), When::Now)).unwrap();

    server.stop_process();
    let other = Runtime::new().unwrap();
    let moment = Duration::from_millis(100);
    let unanswered =
        other.block_on(async { timeout(moment, bare.push(bare.new_id(), When::Now)).await });
    assert!(
        unanswered.is_err(),
        "a stopped server answered: {unanswered:?}"
    );
    drop(other);
    server.cont();

    let patience = Duration::from_secs(20);
    let push = async { timeout(patience, bare.push(bare.new_id(), When::Now)).await };
    let pushed = home.block_on(push).expect("it waits for nobody").unwrap();
    assert!(matches!(pushed, Reply::Pushed(_)), "{pushed:?}");
}

/// The queue whose handler blocks the program's runtime has a short timeout, and the other one a
/// runtime of its own.
#[test]
fn a_blocked_runtime_leaves_the_leases_of_its_queues_and_of_no_other() {
    let (stuck, apart) = (Annotation::new("stuck"), Annotation::new("apart"));
    let stuck = stuck.timeout(Duration::from_secs(1)).buckets(1);
    let apart = apart.timeout(Duration::from_secs(600)).buckets(1);
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());

    let (unblock, blocked) = mpsc::channel::<()>();
    let (blocked, end) = (Arc::new(Mutex::new(blocked)), Arc::new(Notify::new()));
    let blocks = Probe::running(move |_: Event<u64>, _cx| {
        let blocked = Arc::clone(&blocked);
        async move {
            let _ = blocked.lock().unwrap().recv();
            Ok(())
        }
    });
    let ends = Arc::clone(&end);
    let waits = Probe::running(move |_: Event<u64>, _cx| {
        let ends = Arc::clone(&ends);
        async move {
            ends.notified().await;
            Ok(())
        }
    });
    let mut program = Builder::new_multi_thread();
    let program = program.worker_threads(1).enable_all().build().unwrap();
    let node = builder(&url)
        .register_as(stuck, blocks.clone())
        .register_as(apart.dedicated(true), waits.clone());
    let node = program.block_on(node.start()).unwrap();

    let home = Runtime::new().unwrap();
    home.block_on(async {
        let pusher = builder(&url).publish_only().start().await.unwrap();
        let push = async |name| {
            let queue = pusher.queue_named::<u64>(name).unwrap();
            (queue.push(1, When::Now).await.unwrap().id(), queue)
        };
        let (kept, of_apart) = push("apart").await;
        until("it waits", async || waits.running_now() == 1).await;
        push("stuck").await;
        until("it blocks", async || blocks.running_now() == 1).await;
        let (left, taken) = (Probe::<u64>::new(), Probe::<u64>::new());
        let heir = builder(&url)
            .register_as(stuck, left.clone())
            .register_as(apart, taken.clone());
        let heir = heir.start().await.unwrap();
        until("another one has it", async || left.count() == 1).await;
        end.notify_one();
        until("it has ended", async || {
            let found = of_apart.get(kept).await.unwrap();
            found.is_none_or(|event| event.state.is_final())
        })
        .await;
        assert_eq!((waits.count(), taken.count()), (1, 0));
        drop(unblock);
        heir.shutdown(Duration::from_secs(10)).await.unwrap();
        pusher.shutdown(Duration::from_secs(10)).await.unwrap();
    });
    let _ = program.block_on(node.shutdown(Duration::from_secs(10)));
}
