//! A full disk at a start, and under a push that takes a unique key.

use std::sync::Arc;
use std::time::Duration;

use duly::event::Payload;
use duly::store::operation::{AttemptOutcome, Delivery, PushOutcome, Reply, StartMark, StoreOp};
use duly::store::{EmbeddedOptions, EmbeddedStore, Store};
use duly::{ErrorKind, Result, Unique};

use crate::embedded::child;
use crate::embedded::full::{ballast, big, runs_on_a_small_disk};
use crate::embedded::harness::*;

async fn fetch_all(store: &EmbeddedStore) -> Vec<Delivery> {
    let (limit, calls) = (1_000, false);
    let moved = StoreOp::MoveDue { limit, calls };
    store.apply(&key(), moved).await.expect("a move");
    let fetched = store.apply(&key(), fetch_op(1)).await.expect("a fetch");
    let Reply::Fetched(fetched) = fetched.reply else {
        panic!("no fetch")
    };
    fetched.deliveries
}

async fn ack(store: &EmbeddedStore, deliveries: &[Delivery]) {
    let settlements = deliveries.iter();
    let settlements = settlements.map(|it| settlement(it, AttemptOutcome::Ack));
    let settle = StoreOp::Settle {
        node: NODE,
        settlements: settlements.collect(),
        started: StartMark::default(),
    };
    store.apply(&key(), settle).await.expect("a settle");
}

#[test]
fn a_store_opens_on_a_full_disk_within_its_reserve_and_drains() {
    runs_on_a_small_disk("no_room::starts_on_a_full_disk");
}

#[tokio::test]
#[allow(clippy::print_stdout)] // it talks to its parent
async fn starts_on_a_full_disk() {
    let Some(path) = child::path() else { return };
    let open = || {
        let options = EmbeddedOptions::new().reserve_bytes(1 << 20);
        EmbeddedStore::open_with(&path, options).expect("a store")
    };
    let store = open();
    let push = StoreOp::Push((1..=20).map(big).collect());
    store.apply(&key(), push).await.expect("there is room");
    // Its log and the index of it go, and so does the room that they had.
    store.close().await.expect("a close");
    drop(store);
    let ballast = ballast(&path);

    let store = open();
    let deliveries = fetch_all(&store).await;
    assert_eq!(deliveries.len(), 20);
    for delivery in &deliveries {
        let expected = Payload::from(vec![delivery.id.entropy() as u8; 20_000]);
        assert_eq!(delivery.body.payload, expected);
        store.starting(&key().queue, &[delivery]).expect("a note");
    }
    ack(&store, &deliveries).await;
    std::fs::remove_file(ballast).expect("the ballast");
    store.close().await.expect("a close");
    println!("passed");
}

/// Else half of it was done: the event that held the key has lost it, and nobody else has it.
#[test]
fn a_push_that_finds_no_room_leaves_the_key_taken_that_an_event_held_after_its_end() {
    runs_on_a_small_disk("no_room::takes_a_key");
}

#[tokio::test]
#[allow(clippy::print_stdout)] // it talks to its parent
async fn takes_a_key() {
    let Some(path) = child::path() else { return };
    let options = EmbeddedOptions::new().reserve_bytes(4 << 20);
    let store = EmbeddedStore::open_with(&path, options).expect("a store");
    let push = async |n, len, on_taken| -> Result<PushOutcome> {
        let mut event = unique(n);
        event.on_taken = on_taken;
        Arc::make_mut(&mut event.envelope).payload = Payload::from(vec![1; len]);
        let answer = store.apply(&key(), StoreOp::Push(vec![event])).await?;
        let Reply::Pushed(reports) = answer.reply else {
            panic!("no push")
        };
        Ok(reports[0].verdict)
    };
    let first = push(1, 1, Unique::Keep).await.expect("a push");
    assert_eq!(first, PushOutcome::Accepted);
    let deliveries = fetch_all(&store).await;
    ack(&store, &deliveries).await;
    let ballast = ballast(&path);

    // Its log has no room for it.
    let replaced = push(2, 600_000, Unique::Replace).await;
    std::fs::remove_file(ballast).expect("the ballast");
    let mut tries = 0;
    let kept = loop {
        match push(3, 1, Unique::Keep).await {
            Ok(verdict) => break verdict,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Full, "{error}"),
        }
        tries += 1;
        assert!(tries < 3_000, "pushes do not work again");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let holder = if replaced.is_ok() { id(2) } else { id(1) };
    assert_eq!(kept, PushOutcome::Duplicate(holder), "{replaced:?}");
    store.close().await.expect("a close");
    println!("passed");
}
