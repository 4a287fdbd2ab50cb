//! The bucket of an event whose caller chose its id.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use duly::dead_letters::DeadLetterCursor;
use duly::event::{BucketId, State};
use duly::lease::{EndResult, LeaseOutcome, LeaseStatus, LeaseToken};
use duly::prelude::*;
use duly::{ErrorKind, EventId};

use crate::kit::{Kept, QUEUE, foreign, seeded, stop};

const HOUR: Duration = Duration::from_secs(3_600);
const TTR: Duration = Duration::from_secs(600);

async fn buckets(bus: &Bus) -> BTreeSet<u16> {
    let stats = bus.bucket_stats(QUEUE).await.unwrap();
    stats.iter().map(|(bucket, _)| bucket.0).collect()
}

#[tokio::test]
async fn ids_of_another_library_and_names_lie_in_the_buckets_of_their_queue() {
    seeded();
    for kept in Kept::each() {
        for many in [1, 3, 40] {
            let kept = match &kept {
                Kept::Memory(_) => &Kept::each()[0],
                Kept::Embedded(_) => &Kept::each()[1],
                Kept::Redis(_) => &Kept::each()[2],
            };
            let bus = kept.start(many).await;
            let queue = bus.queue_named::<u64>(QUEUE).unwrap();
            let name = |number: u64| queue.id_for_name(&format!("name-{number}"));
            let ids: Vec<_> = (0..400_u64)
                .map(|it| if it % 2 == 0 { foreign() } else { name(it) })
                .collect();
            for (number, id) in (0_u64..).zip(&ids) {
                let event = queue.event(number).after(HOUR).id(*id);
                assert!(event.push().await.unwrap().is_accepted());
            }
            let used = buckets(&bus).await;
            assert!(
                used.iter().all(|bucket| *bucket < many),
                "{used:?} of {many}"
            );
            assert!(
                used.len() >= usize::from(many / 2).max(1),
                "{used:?} of {many}"
            );
            for id in &ids[..20] {
                assert_eq!(queue.get(*id).await.unwrap().unwrap().id, *id);
                assert!(bus.event_in(QUEUE, *id).await.unwrap().is_some());
                let event = bus.event(*id).await.unwrap().expect("it waits");
                assert_eq!(event.cancel().await.unwrap(), CancelOutcome::Cancelled);
                assert_eq!(queue.end(*id).await.unwrap(), EndResult::Cancelled);
            }
            stop(bus).await;
        }
    }
}

/// What became of each id, and the number that was pushed under it.
type Pushed = BTreeMap<EventId, u64>;

async fn repeat_all(queue: &Queue<u64>, pushed: &Pushed, what: &str) {
    for (id, number) in pushed {
        let again = queue.event(*number).after(HOUR).id(*id).push().await;
        let again = again.unwrap_or_else(|error| panic!("{what}: {id}: {error}"));
        assert!(again.is_duplicate() && again.id() == *id, "{what}: {id}");
    }
    let many = pushed.iter().take(50);
    let many = many.map(|(id, number)| queue.event(*number).after(HOUR).id(*id));
    let again = queue.push_many(many, When::Now).await.unwrap();
    assert!(again.iter().all(Receipt::is_duplicate), "{what}");
    if let Some((id, number)) = pushed.first_key_value() {
        let other = queue.event(number + 1).after(HOUR).id(*id).push().await;
        let kind = other.map(|_| ()).map_err(|error| error.kind());
        assert_eq!(kind, Err(ErrorKind::Conflict), "{what}");
    }
}

#[tokio::test]
async fn a_repeat_is_a_duplicate_whatever_number_of_buckets_its_queue_has_had() {
    seeded();
    for kept in Kept::each() {
        let (mut pushed, mut numbers) = (Pushed::new(), 0..);
        for (round, own) in [8, 2, 40, 8, 1, 13].into_iter().enumerate() {
            let bus = kept.start(own).await;
            let queue = bus.queue_named::<u64>(QUEUE).unwrap();
            repeat_all(&queue, &pushed, "after a restart").await;
            for set in [None, Some(fastrand::u16(1..=64))] {
                bus.set_buckets(QUEUE, set).await.unwrap();
                let what = format!("round {round}, own {own}, set {set:?}");
                repeat_all(&queue, &pushed, &what).await;
                for turn in 0..9 {
                    let number = numbers.next().unwrap();
                    let id = match turn % 3 {
                        0 => foreign(),
                        1 => queue.id_for_name(&number.to_string()),
                        _ => queue.new_id(),
                    };
                    let sent = queue.event(number).after(HOUR).id(id).push().await.unwrap();
                    assert!(sent.is_accepted(), "{what}");
                    pushed.insert(id, number);
                }
            }
            bus.set_buckets(QUEUE, None).await.unwrap();
            for id in pushed.keys() {
                let found = queue.get(*id).await.unwrap();
                assert_eq!(found.unwrap().state, State::Scheduled, "{id}");
                assert!(bus.event(*id).await.unwrap().is_some(), "{id}");
            }
            stop(bus).await;
        }
        let bus = kept.start(5).await;
        let queue = bus.queue_named::<u64>(QUEUE).unwrap();
        for id in pushed.keys() {
            let now = queue.reschedule(*id, Duration::ZERO).await.unwrap();
            assert!(
                matches!(now, duly::ChangeOutcome::Changed(_)),
                "{id}: {now:?}"
            );
        }
        let mut acked = BTreeSet::new();
        while acked.len() < pushed.len() {
            let leased = queue.lease(100, TTR).wait(TTR).send().await.unwrap();
            for leased in leased {
                let token: LeaseToken = leased.token().to_string().parse().unwrap();
                let ack = bus.settle_lease(&token, LeaseOutcome::Ack).await.unwrap();
                assert_eq!(ack, LeaseStatus::Held, "{token}");
                assert!(acked.insert(leased.id()), "leased twice");
            }
        }
        for (id, number) in &pushed {
            let again = queue.event(*number).id(*id).push().await.unwrap();
            assert!(again.is_duplicate(), "{id} is done");
        }
        stop(bus).await;
        let bus = kept.start(3).await;
        let queue = bus.queue_named::<u64>(QUEUE).unwrap();
        for (id, number) in &pushed {
            let again = queue.event(*number).id(*id).push().await.unwrap();
            assert!(again.is_duplicate(), "{id} is done, also after a restart");
        }
        stop(bus).await;
    }
}

#[tokio::test]
async fn dead_letters_with_any_id_are_paged_edited_and_revived() {
    seeded();
    for kept in Kept::each() {
        let bus = kept.start(4).await;
        let queue = bus.queue_named::<u64>(QUEUE).unwrap();
        let ids: BTreeSet<_> = (0..12).map(|_| foreign()).collect();
        for id in &ids {
            queue.event(7).id(*id).push().await.unwrap();
        }
        let mut buried = 0;
        while buried < ids.len() {
            for leased in queue.lease(10, TTR).wait(TTR).send().await.unwrap() {
                assert_eq!(leased.bury("broken").await.unwrap(), LeaseStatus::Held);
                buried += 1;
            }
        }
        let (mut seen, mut after) = (Vec::new(), None::<DeadLetterCursor>);
        loop {
            let page = bus
                .dead_letters()
                .queue(QUEUE)
                .limit(1)
                .after(after.clone());
            let page = page.page().await.unwrap();
            seen.extend(page.items.iter().map(|letter| letter.id));
            let Some(next) = page.next else { break };
            after = Some(next.to_string().parse().unwrap());
        }
        assert_eq!(seen.len(), ids.len(), "each once");
        assert_eq!(seen.iter().copied().collect::<BTreeSet<_>>(), ids);
        let named = bus
            .dead_letters()
            .ids(ids.iter().copied())
            .page()
            .await
            .unwrap();
        assert_eq!(named.items.len(), ids.len());
        assert!(
            named
                .items
                .iter()
                .all(|letter| letter.error() == Some("broken"))
        );
        for id in ids.iter().take(3) {
            let edited = bus.dead_letters().edit(*id, &8).await.unwrap();
            assert_eq!(edited, duly::dead_letters::Edited::Edited);
        }
        let revived = bus
            .dead_letters()
            .revive(ids.iter().copied())
            .await
            .unwrap();
        assert_eq!(revived.done, ids.len() as u64);
        for id in &ids {
            let records = bus.records().id(*id).page().await.unwrap();
            assert!(!records.items.is_empty(), "{id}");
            let explained = bus.explain(*id).await.unwrap();
            assert_eq!(explained.state, Some(State::Ready), "{id}");
        }
        stop(bus).await;
    }
}

#[tokio::test]
async fn an_id_that_names_a_bucket_of_its_queue_lies_there() {
    for kept in Kept::each() {
        let bus = kept.start(8).await;
        let queue = bus.queue_named::<u64>(QUEUE).unwrap();
        let id = queue.new_id_for("customer:8");
        let sent = queue
            .event(1)
            .after(HOUR)
            .id(id)
            .unique("customer:8", duly::Unique::Keep);
        assert!(sent.push().await.unwrap().is_accepted());
        let again = queue
            .event(1)
            .after(HOUR)
            .unique("customer:8", duly::Unique::Keep);
        assert_eq!(again.push().await.unwrap().id(), id, "found by its key");
        let used = bus.bucket_stats(QUEUE).await.unwrap();
        let used: Vec<BucketId> = used.iter().map(|(bucket, _)| *bucket).collect();
        assert_eq!(used, [id.bucket()]);
        stop(bus).await;
    }
}

/// Ids that tell no time, or nothing at all.
fn timeless() -> Vec<EventId> {
    let mut ids = vec![EventId::from_bytes([0; 16])];
    for bucket in [0, 1, 7, 63, u16::MAX] {
        for entropy in [0, 1, 127, 128, 129, 255, fastrand::u64(..), u64::MAX] {
            let id = EventId::from_parts(duly::time::Timestamp::EPOCH, BucketId(bucket), entropy);
            ids.extend((!ids.contains(&id)).then_some(id));
        }
    }
    ids
}

#[derive(Clone, Default)]
struct Seen(std::sync::Arc<std::sync::Mutex<Vec<EventId>>>);

impl Handler for Seen {
    type Payload = u64;

    async fn handle(&self, event: Event<u64>, _cx: &Context) -> Result<(), Failure> {
        self.0.lock().unwrap().push(event.id());
        Ok(())
    }
}

#[tokio::test]
async fn events_whose_ids_tell_no_time_are_handled_once_and_end() {
    seeded();
    for kept in Kept::each() {
        let mut ids = timeless();
        let bus = kept.start(4).await;
        let queue = bus.queue_named::<u64>(QUEUE).unwrap();
        for id in &ids {
            assert!(queue.event(1).id(*id).push().await.unwrap().is_accepted());
        }
        let mut leased = Vec::new();
        while leased.len() < ids.len() / 2 {
            for lease in queue
                .lease(ids.len() / 2 - leased.len(), TTR)
                .wait(TTR)
                .send()
                .await
                .unwrap()
            {
                let token: LeaseToken = lease.token().to_string().parse().unwrap();
                let ack = bus.settle_lease(&token, LeaseOutcome::Ack).await.unwrap();
                assert_eq!(ack, LeaseStatus::Held, "{token}");
                leased.push(lease.id());
            }
        }
        stop(bus).await;
        let seen = Seen::default();
        let annotation = duly::Annotation::new(QUEUE).buckets(3);
        let bus = kept.builder().register_as(annotation, seen.clone());
        let bus = bus.start().await.expect("a start");
        let waits = async || bus.stats(QUEUE).await.unwrap() != Default::default();
        while waits().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut all = [leased, seen.0.lock().unwrap().clone()].concat();
        all.sort();
        ids.sort();
        assert_eq!(all, ids, "each once");
        let queue = bus.queue_named::<u64>(QUEUE).unwrap();
        for id in &ids {
            assert!(
                queue.event(1).id(*id).push().await.unwrap().is_duplicate(),
                "{id}"
            );
        }
        stop(bus).await;
    }
}
