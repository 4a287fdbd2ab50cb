//! Names on Redis: the keys that are left, and what the process keeps of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use duly::event::{BucketId, BucketKey, Envelope, Payload};
use duly::prelude::*;
use duly::records::NodeId;
use duly::store::operation::{AttemptOutcome, Fetch, NewEvent, Settlement, StartMark, StoreOp};
use duly::store::{RedisOptions, RedisStore, Store};
use duly::testing::ManualClock;
use duly::time::{Timestamp, When};
use duly::{QueueName, Unique};

use crate::kit::{Kept, QUEUE, foreign, names, seeded, stop};
use crate::servers;

const TTR: Duration = Duration::from_secs(60);

fn url(kept: &Kept) -> &str {
    match kept {
        Kept::Redis(url) => url,
        _ => panic!("it is on Redis"),
    }
}

/// The keys of a store.
async fn keys(kept: &Kept) -> BTreeSet<String> {
    let url = url(kept);
    let (_, prefix) = url.split_once("?prefix=").unwrap();
    let client = redis::Client::open(servers::shared().url()).unwrap();
    let mut link = client.get_multiplexed_async_connection().await.unwrap();
    let keys: Vec<String> = redis::cmd("KEYS")
        .arg(format!("{prefix}:*"))
        .query_async(&mut link)
        .await
        .unwrap();
    keys.into_iter().collect()
}

/// Everything that reads, or changes what is not there, under names that nobody has pushed to.
async fn look(bus: &Bus, name: &str) -> duly::Result<()> {
    let queue = bus.queue_named::<u64>(name)?;
    for absent in [foreign(), queue.new_id(), queue.id_for_name(name)] {
        assert!(queue.get(absent).await?.is_none());
        assert!(bus.event(absent).await?.is_none());
        assert_eq!(queue.cancel(absent).await?, CancelOutcome::NotFound);
        assert_eq!(
            queue.reschedule(absent, TTR).await?,
            duly::ChangeOutcome::NotFound
        );
        assert_eq!(
            queue.update(absent, &7).await?,
            duly::ChangeOutcome::NotFound
        );
        assert_eq!(queue.end(absent).await?, duly::lease::EndResult::NotFound);
        assert_eq!(
            bus.dead_letters().queue(name).revive([absent]).await?.done,
            0
        );
        bus.explain(absent).await?;
        let token = format!("{absent}-7-7-1-1-{name}").parse()?;
        let lost = bus
            .settle_lease(&token, duly::lease::LeaseOutcome::Ack)
            .await?;
        assert_eq!(lost, duly::lease::LeaseStatus::Lost);
        let lost = bus.extend_lease(&token, TTR).await?;
        assert_eq!(lost, duly::lease::LeaseStatus::Lost);
    }
    assert!(queue.lease(1, TTR).send().await?.is_empty());
    let from = [QueueName::new(name)?, QueueName::new("other")?];
    assert!(bus.lease_from(&from, 1, TTR).send().await?.is_empty());
    bus.stats(name).await?;
    bus.forecast(name, TTR, TTR).await?;
    bus.pause(name).await?;
    bus.resume(name).await?;
    bus.events().queue(name).page().await?;
    bus.events().queue(name).key("a").page().await?;
    bus.events().queue(name).unique("a").cancel().await?;
    bus.records().queue(name).page().await?;
    bus.dead_letters().queue(name).page().await?;
    Ok(())
}

#[tokio::test]
async fn what_only_looks_writes_no_key() {
    seeded();
    let [_, _, kept] = Kept::each();
    let bus = kept.start(4).await;
    look(&bus, "warm").await.unwrap();
    let before = keys(&kept).await;
    for number in 0..names(20) {
        look(&bus, &format!("queue-{number}")).await.unwrap();
    }
    let after = keys(&kept).await;
    // What the program pauses is in its audit, which has buckets of its own.
    let is_audit = |key: &&String| key.contains("{duly.audit");
    let new = after.difference(&before).filter(|key| !is_audit(key));
    let new: Vec<_> = new.collect();
    assert!(new.is_empty(), "{new:?}");
    assert!(bus.queues().await.unwrap().is_empty());
    stop(bus).await;
}

#[tokio::test]
async fn what_has_ended_leaves_no_keys_but_the_buckets_own() {
    seeded();
    let [_, _, kept] = Kept::each();
    let bus = kept.start(4).await;
    let queue = bus.queue_named::<u64>(QUEUE).unwrap();
    let many = names(20) as u64 * 10;
    for number in 0..many {
        let name = format!("name-{number}");
        let event = queue.event(number);
        let event = match number % 4 {
            0 => event.id(foreign()).key(&name),
            1 => event.id(queue.id_for_name(&name)),
            2 => event.unique(&name, Unique::Keep),
            _ => event.id(foreign()).after(TTR),
        };
        let sent = event.push().await.unwrap();
        if number % 4 == 3 {
            let cancelled = queue.cancel(sent.id()).await.unwrap();
            assert_eq!(cancelled, CancelOutcome::Cancelled);
        }
    }
    let mut acked = 0;
    while acked < many * 3 / 4 {
        for leased in queue.lease(100, TTR).wait(TTR).send().await.unwrap() {
            let _ = leased.ack().await.unwrap();
            acked += 1;
        }
    }
    let own = ["meta", "past", "outbox", "nodes"];
    let (mut buckets, mut others) = (BTreeSet::new(), Vec::new());
    for key in keys(&kept).await {
        let Some((bucket, part)) = key.split_once("}:") else {
            others.push(key);
            continue;
        };
        if bucket.ends_with("{hub") {
            continue;
        }
        buckets.insert(bucket.to_owned());
        // A state stays with its tombstone.
        if !own.contains(&part) && part != "state" {
            others.push(key);
        }
    }
    assert!(buckets.len() <= 4, "{buckets:?}");
    assert!(others.is_empty(), "{others:?}");
    stop(bus).await;
}

/// What says which ids are too old and which record is next stays, and the outbox, which is empty; not the
/// tombstones, nor any of the nodes that were there.
#[tokio::test]
async fn of_a_name_that_is_idle_for_days_two_keys_are_left() {
    let [_, _, kept] = Kept::each();
    let began = Timestamp::from_millis(1_767_225_600_000);
    let clock = Arc::new(ManualClock::at(began));
    let options = RedisOptions::new().clock(Arc::clone(&clock) as _);
    let store = RedisStore::open_with(url(&kept), options).await.unwrap();
    let queue = QueueName::new(QUEUE).unwrap();
    let bucket = BucketKey::new(queue.clone(), BucketId(0));
    for node in 1..40 {
        let id = EventId::from_parts(began, BucketId(0), node);
        let event = NewEvent {
            envelope: Arc::new(Envelope::new(id, queue.clone(), Payload::default())),
            when: When::Now,
            on_taken: Unique::Keep,
        };
        store
            .apply(&bucket, StoreOp::Push(vec![event]))
            .await
            .unwrap();
        let fetch = Fetch {
            node: NodeId(node),
            request: 1,
            limit: 1,
            ahead: Duration::ZERO,
            ahead_limit: 0,
            hold: Some(TTR),
            starts: usize::MAX,
        };
        store.apply(&bucket, StoreOp::Fetch(fetch)).await.unwrap();
        let ack = Settlement {
            id,
            request: 1,
            verdict: AttemptOutcome::Ack,
            started_us: 1,
            fetched_us: 1,
        };
        let settle = StoreOp::Settle {
            node: NodeId(node),
            settlements: vec![ack],
            started: StartMark::default(),
        };
        store.apply(&bucket, settle).await.unwrap();
    }
    let outbox = &store.outboxes().await.unwrap()[0];
    let page = store.read_outbox(outbox, 0, 100).await.unwrap();
    assert_eq!(page.records.len(), 39);
    store.trim_outbox(outbox, page.last).await.unwrap();
    clock.advance(Duration::from_secs(2 * 86_400));
    for _ in 0..40 {
        let (silent, limit) = (Vec::new(), 100);
        let reap = StoreOp::Reap { silent, limit };
        store.apply(&bucket, reap).await.unwrap();
    }
    let left = keys(&kept).await.into_iter();
    let left: Vec<_> = left.filter(|key| !key.contains("{hub}")).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    let are_own = left[0].ends_with(":meta") && left[1].ends_with(":outbox");
    assert!(are_own, "{left:?}");
}

/// As a journal does, each outbox is read, and trimmed.
#[tokio::test]
async fn of_outboxes_that_are_trimmed_the_process_keeps_nothing() {
    seeded();
    let [_, _, kept] = Kept::each();
    let store = Arc::new(RedisStore::open(url(&kept)).await.unwrap());
    let builder = Bus::builder()
        .only_registered()
        .settings(Default::default());
    let builder = builder.shared_store(Arc::clone(&store) as _);
    let bus = builder.publish_only().start().await.unwrap();
    let many = names(20);
    for number in 0..many {
        let queue = bus.queue_named::<u64>(&format!("queue-{number}")).unwrap();
        let id = queue.push(7, TTR).await.unwrap().id();
        assert_eq!(queue.cancel(id).await.unwrap(), CancelOutcome::Cancelled);
    }
    let read = |many| format!("Outboxes {{ read: {many}, ");
    let outboxes = store.outboxes().await.unwrap();
    let mut ends = Vec::new();
    for outbox in &outboxes {
        let page = store.read_outbox(outbox, 0, 100).await.unwrap();
        ends.push(page.last);
    }
    let debug = format!("{store:?}");
    assert!(debug.contains(&read(many)), "{debug}");
    for (outbox, end) in outboxes.iter().zip(ends) {
        store.trim_outbox(outbox, end).await.unwrap();
    }
    let debug = format!("{store:?}");
    assert!(debug.contains(&read(0)), "{debug}");
    stop(bus).await;
}

/// Each name that somebody polls once is listened to, and no longer than it is in use.
#[tokio::test]
async fn names_that_nobody_polls_any_more_are_not_listened_to() {
    let [_, _, kept] = Kept::each();
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_767_225_600_000)));
    let options = RedisOptions::new().clock(Arc::clone(&clock) as _);
    let store = RedisStore::open_with(url(&kept), options).await.unwrap();
    let poll = async |name: &str, number: usize| {
        let queue = QueueName::new(&format!("{name}-{number}")).unwrap();
        let (limit, calls) = (0, false);
        let op = StoreOp::MoveDue { limit, calls };
        let bucket = BucketKey::new(queue, BucketId(0));
        store.apply(&bucket, op).await.unwrap();
    };
    for round in 0..3 {
        for number in 0..names(20) * 20 {
            poll(&format!("round-{round}"), number).await;
            if number % 100 == 0 {
                // In use all the time.
                clock.advance(Duration::from_secs(1_200));
                poll("used", 0).await;
            }
        }
    }
    clock.advance(Duration::from_secs(7_200));
    poll("used", 0).await;
    let most = names(20) * 20;
    for number in 0..3 * most {
        poll("other", number).await;
        let debug = format!("{store:?}");
        let many = |field: &str| -> usize {
            let (_, rest) = debug.split_once(field).unwrap();
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap();
            digits.parse().unwrap()
        };
        let (listened, channels) = (many("listened: "), many("channels: "));
        if listened.max(channels) < most / 2 {
            return;
        }
    }
    panic!("{store:?}");
}
