//! The same of letters on a real server, where several nodes have a hand in them.

use std::time::Duration;

use duly::Annotation;
use duly::dead_letters::{DeadLetters, Edited};
use duly::event::State as EventState;
use duly::prelude::*;
use duly::records::Cause;
use duly::testing::Probe;

use crate::dead_letters::kit::{numbers, picky};
use crate::servers;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);
const ORDERS: Annotation = Annotation::new("orders").attempts(1).buckets(4);

/// A node, the probe of its handler, and its queue of ten letters: those of 0 to 9.
async fn graveyard() -> (String, Bus, Probe<u64>, Queue<u64>, Vec<EventId>) {
    let url = format!("{}?prefix={}", servers::shared().url(), servers::prefix());
    let probe = picky();
    let builder = Bus::builder().only_registered().store_url(&url);
    let builder = builder.settings(Default::default());
    let bus = builder.register_as(ORDERS, probe.clone()).start().await;
    let bus = bus.unwrap();
    let queue: Queue<u64> = bus.queue_named("orders").unwrap();
    let mut ids = Vec::new();
    for number in 0..10 {
        let event = queue.event(number).key(format!("customer:{}", number % 2));
        ids.push(event.push().await.unwrap().id());
    }
    until("ten are dead", async || {
        numbers(bus.dead_letters()).await.len() == 10
    })
    .await;
    (url, bus, probe, queue, ids)
}

#[allow(clippy::disallowed_methods)] // real time: this is about a real server
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let asked = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let asked = tokio::time::timeout(PATIENCE, asked).await;
    assert!(asked.is_ok(), "{what}: not within {PATIENCE:?}");
}

async fn who(bus: &Bus, outcome: Outcome) -> Vec<(EventId, Option<String>)> {
    let page = bus.records().outcome(outcome).page().await.unwrap();
    let mut who: Vec<_> = page.items.into_iter().map(|it| (it.id, it.by)).collect();
    who.sort();
    who
}

fn named(ids: &[EventId], by: &str) -> Vec<(EventId, Option<String>)> {
    let mut named: Vec<_> = ids.iter().map(|id| (*id, Some(by.to_owned()))).collect();
    named.sort();
    named
}

#[tokio::test]
async fn letters_are_found_by_what_is_asked_for() {
    let (_url, bus, _probe, _queue, ids) = graveyard().await;
    let odd = [1, 3, 5, 7, 9];
    let letters = || bus.dead_letters();
    assert_eq!(numbers(letters().cause(Cause::Panicked)).await, odd);
    assert_eq!(numbers(letters().key("customer:1")).await, odd);
    assert_eq!(numbers(letters().error("order 4")).await, [4]);
    assert_eq!(numbers(letters().ids([ids[7], ids[2]])).await, [2, 7]);
    assert_eq!(numbers(letters().limit(3)).await.len(), 10, "by pages");
    let page = letters().ids([ids[2]]).page().await.unwrap();
    assert_eq!(page.items[0].error(), Some("no order 2"));
    bus.shutdown(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn an_edited_letter_is_revived_with_its_new_payload_and_each_step_is_on_record() {
    let (_url, bus, probe, _queue, ids) = graveyard().await;
    let letters = || bus.dead_letters().by("ann");
    assert_eq!(letters().edit(ids[3], &103).await.unwrap(), Edited::Edited);
    assert_eq!(probe.count(), 10, "it is dead until it is revived");
    let sweep = letters().revive([ids[3]]).await.unwrap();
    assert_eq!((sweep.done, sweep.passed_over), (1, 0));
    until("it is handled", async || probe.count() == 11).await;
    assert_eq!(probe.payloads()[10], 103);
    let sweep = letters().drop([ids[0], ids[3]]).await.unwrap();
    assert_eq!((sweep.done, sweep.passed_over), (1, 1));
    assert_eq!(who(&bus, Outcome::Edited).await, named(&ids[3..4], "ann"));
    assert_eq!(who(&bus, Outcome::Revived).await, named(&ids[3..4], "ann"));
    assert_eq!(who(&bus, Outcome::Dropped).await, named(&ids[..1], "ann"));
    assert_eq!(numbers(bus.dead_letters()).await, [1, 2, 4, 5, 6, 7, 8, 9]);
    bus.shutdown(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_dry_run_changes_nothing_and_a_sweep_only_what_is_asked_for() {
    let (_url, bus, _probe, _queue, ids) = graveyard().await;
    bus.pause("orders").await.unwrap();
    let even = || bus.dead_letters().cause(Cause::Failed);
    let sweep = even().dry_run().revive_all().await.unwrap();
    assert_eq!((sweep.matched, sweep.done), (5, 0));
    assert_eq!(numbers(bus.dead_letters()).await.len(), 10);
    let sweep = even().by("bob").revive_all().await.unwrap();
    assert_eq!((sweep.matched, sweep.done), (5, 5));
    assert_eq!(numbers(bus.dead_letters()).await, [1, 3, 5, 7, 9]);
    let revived: Vec<_> = ids.iter().copied().step_by(2).collect();
    assert_eq!(who(&bus, Outcome::Revived).await, named(&revived, "bob"));
    bus.shutdown(PATIENCE).await.unwrap();
}

/// Whoever is later has the truth for an answer: no payload changes without a record.
#[tokio::test]
async fn an_edit_against_a_revival_by_another_node_is_on_record_or_changed_nothing() {
    let (url, bus, _probe, queue, ids) = graveyard().await;
    let other = Bus::builder().only_registered().publish_only();
    let other = other.settings(Default::default()).store_url(&url);
    let other = other.start().await.unwrap();
    bus.pause("orders").await.unwrap();
    let edit = |letters: DeadLetters, id| async move { letters.edit(id, &100).await.unwrap() };
    let mut edited = Vec::new();
    for id in &ids {
        let revive = other.dead_letters().revive([*id]);
        let (truth, revived) = tokio::join!(edit(bus.dead_letters(), *id), revive);
        assert_eq!(revived.unwrap().done, 1);
        let body = queue.get(*id).await.unwrap().unwrap().body.unwrap();
        let is_new = body.payload.as_bytes() == b"100";
        match truth {
            Edited::Edited => edited.push(*id),
            Edited::NotDead(EventState::Ready) => {}
            truth => panic!("{truth:?}"),
        }
        assert_eq!(is_new, truth == Edited::Edited, "{truth:?}");
    }
    let told = who(&bus, Outcome::Edited).await;
    let told: Vec<_> = told.into_iter().map(|(id, _)| id).collect();
    edited.sort();
    assert_eq!(told, edited);
    other.shutdown(PATIENCE).await.unwrap();
    bus.shutdown(PATIENCE).await.unwrap();
}
