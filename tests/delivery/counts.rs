//! Queues are counted by pages, whatever becomes of some of their buckets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use duly::event::BucketKey;
use duly::prelude::*;
use duly::store::operation::StoreOp;

use crate::faulty::{Fault, Faulty};
use crate::world::{World, secs};

const QUEUES: usize = 200;

/// The last bucket of every third queue is away: more than are asked at a time.
#[tokio::test(start_paused = true)]
async fn a_bucket_that_is_away_holds_up_no_other_queue() {
    let world = World::memory();
    let way = Faulty::to(&world.store);
    let builder = Bus::builder().only_registered().publish_only();
    let bus = world
        .start(builder.shared_store(Arc::clone(&way) as _))
        .await;
    for number in 0..QUEUES {
        let queue = bus
            .queue_named::<u64>(&format!("queue-{number:03}"))
            .unwrap();
        queue.push_many(0..8, secs(3_600)).await.unwrap();
    }
    let buckets = world.store.buckets().await.unwrap();
    let last: BTreeMap<_, _> = buckets.iter().map(|key| (&key.queue, key)).collect();
    let away: BTreeSet<BucketKey> = last.into_values().step_by(3).cloned().collect();
    for fault in [Fault::Refused(ErrorKind::Unavailable), Fault::Hung] {
        let away = away.clone();
        let is_away = away.clone();
        way.meets(move |bucket, op| match op {
            StoreOp::Stats if is_away.contains(bucket) => fault,
            _ => Fault::None,
        });
        for limit in [QUEUES, 60] {
            let (mut after, mut read) = (None, Vec::new());
            loop {
                let began = tokio::time::Instant::now();
                let page = bus.stats_page(after, limit).await.unwrap();
                let took = began.elapsed();
                assert!(
                    took < secs(3),
                    "{took:?} of virtual time, {fault:?}, {limit}"
                );
                read.extend(page.items);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(read.len(), QUEUES);
            for (number, (queue, stats)) in read.into_iter().enumerate() {
                assert_eq!(*queue, format!("queue-{number:03}"));
                let scheduled = stats.map(|stats| stats.scheduled).ok();
                let expected = (number % 3 > 0).then_some(8);
                assert_eq!(scheduled, expected, "{queue}, {fault:?}, {limit}");
            }
        }
    }
}
