//! Nothing is found on a healthy store that is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duly::Annotation;
use duly::admin::DamageKind;
use duly::prelude::*;
use duly::store::operation::StoreOp;
use duly::store::{CheckTask, Store};
use duly::time::When;
use futures_util::future::join_all;

use crate::redis_store::kit::{Bare, builder, fresh, stop};
use crate::servers::{shared, shared_cluster};

/// Fails often.
#[derive(Clone, Default)]
struct Fickle(Arc<AtomicUsize>);

impl Handler for Fickle {
    type Payload = u32;

    async fn handle(&self, event: Event<u32>, _cx: &Context) -> Result<(), Failure> {
        self.0.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(1)).await; // so that a backlog grows
        match event.payload % 5 {
            0 if event.attempt() < 3 => Err(Failure::retry("once more")),
            1 => Err(Failure::permanent("never")),
            _ => Ok(()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_found_on_a_healthy_store_under_load() {
    is_healthy_under_load(&shared().url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_found_on_a_healthy_cluster_under_load() {
    is_healthy_under_load(&shared_cluster()).await;
}

async fn is_healthy_under_load(url: &str) {
    let (url, _) = fresh(url);
    let handled = Fickle::default();
    let annotation = Annotation::new("letters").buckets(2).workers(4);
    let bus = builder(&url).register_as(annotation, handled.clone());
    let bus = bus.start().await.unwrap();
    let queue = bus.queue_named::<u32>("letters").unwrap();
    queue.push(0, When::Now).await.unwrap(); // the store knows the queue from now on
    let mut checks = 0;
    let mut number = 0;
    while handled.0.load(Ordering::Relaxed) < 4_000 || checks < 20 {
        let plain = (number..number + 100).map(|it| queue.push(it, When::Now));
        let delayed = (number..number + 20).map(|it| queue.push(it, Duration::from_millis(20)));
        let keyed = (number..number + 20).map(|it| {
            // A few keys, which are taken over from events that wait, run, or are dead.
            let unique = format!("{}", it % 7);
            let rule = [Unique::Keep, Unique::Replace][it as usize % 2];
            let event = queue.event(it).key("order:7").unique(unique, rule);
            event.after(Duration::from_millis(5)).push()
        });
        let revived = bus.dead_letters().queue("letters").limit(20).revive_all();
        let pushes = futures_util::future::join4(
            futures_util::future::join_all(plain),
            futures_util::future::join_all(delayed),
            futures_util::future::join_all(keyed),
            revived,
        );
        let (pushed, report) = tokio::join!(pushes, bus.check_store().queue("letters").run());
        assert!(pushed.0.iter().all(Result::is_ok));
        assert!(pushed.3.unwrap().stopped.is_none());
        let report = report.unwrap();
        assert_eq!(report.damage, [], "check {checks}");
        assert!(report.is_healthy());
        checks += 1;
        number += 100;
    }
    let report = bus.check_store().run().await.unwrap();
    assert_eq!(report.buckets, 2);
    assert!(!report.counts.contains_key(&DamageKind::Unregistered));
    // What the program did is in the audit, which is no queue of its.
    let audit = bus.audit(None, 10).await.unwrap().items;
    let done: Vec<_> = audit
        .iter()
        .map(|line| (&*line.action, &*line.target))
        .collect();
    assert_eq!(done, [("dead letters revived", "letters, dead letters")]);
    assert_eq!(bus.queues().await.unwrap().len(), 1);
    stop(&bus).await;
}

/// The list of ready events is read from its end on, in several steps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_found_while_the_newest_ready_events_are_cancelled() {
    let bare = Bare::open(&fresh(&shared().url()).0).await;
    let ids: Vec<_> = (0..10_000).map(|_| bare.new_id()).collect();
    for some in ids.chunks(1_000) {
        let events = some.iter().map(|id| bare.plain(*id, When::Now)).collect();
        bare.apply(StoreOp::Push(events)).await.unwrap();
    }
    let ended = AtomicUsize::new(0);
    let cancels = async {
        for some in ids[2_500..].rchunks(10) {
            let cancels = some
                .iter()
                .rev()
                .map(|id| bare.apply(StoreOp::Cancel { id: *id }));
            assert!(join_all(cancels).await.iter().all(Result::is_ok));
            ended.fetch_add(some.len(), Ordering::Relaxed);
        }
    };
    let checks = async {
        let mut checks = 0;
        while ended.load(Ordering::Relaxed) < 7_500 {
            let task = CheckTask::new(true);
            let found = bare.store.check_bucket(&bare.bucket, task).await.unwrap();
            assert_eq!(found, [], "check {checks}");
            checks += 1;
        }
        assert!(checks > 1, "{checks} checks");
    };
    tokio::join!(cancels, checks);
    let stats = bare.typed(StoreOp::stats()).await.unwrap();
    assert_eq!(stats.ready, 2_500);
}
