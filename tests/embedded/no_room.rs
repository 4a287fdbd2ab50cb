//! A full disk at a start, and under a push with which something ends.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duly::event::{Envelope, Payload};
use duly::store::operation::{
    AttemptOutcome, Delivery, NewEvent, PushOutcome, Reply, StartMark, StoreOp,
};
use duly::store::{DedupWindow, EmbeddedOptions, EmbeddedStore, Store};
use duly::time::When;
use duly::{ErrorKind, EventId, LatePolicy, Result, Unique};
use futures_util::FutureExt;

use crate::embedded::child;
use crate::embedded::damage::history;
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

/// Else it is over for whoever asks, and waits in the file, without a record.
#[test]
fn what_ends_with_a_push_that_finds_no_room_is_on_record() {
    runs_on_a_small_disk("no_room::ends_others");
}

#[test]
#[allow(clippy::print_stdout)] // it talks to its parent
fn ends_others() {
    let Some(path) = child::path() else { return };
    let soon = Duration::from_millis(1);
    let ends: [fn(Duration, &mut Envelope); 3] = [
        |soon, it| it.late = LatePolicy::Bury(soon),
        |soon, it| it.late = LatePolicy::Expire(soon),
        |soon, it| it.expires = Some(START + soon),
    ];
    let cases = ends.iter().flat_map(|end| [1, 80].map(|many| (end, many)));
    for (number, (end, many)) in cases.enumerate() {
        let clock = Hand::at(START);
        let path = path.with_file_name(format!("{number}.db"));
        let options = EmbeddedOptions::inline().clock(Arc::clone(&clock) as _);
        let open = || EmbeddedStore::open_with(&path, options.clone().reserve_bytes(2 << 20));
        let store = open().expect("a store");
        for n in 1..=many {
            let mut event = event(n, When::Now, 3);
            end(soon, Arc::make_mut(&mut event.envelope));
            push(&store, event).expect("a push");
        }
        clock.advance(Duration::from_secs(1));
        let ballast = ballast(&path);
        let mut large = event(many + 1, When::Now, 3);
        Arc::make_mut(&mut large.envelope).payload = Payload::from(vec![1; 600_000]);
        let pushed = push(&store, large);
        assert_eq!(history(&store).len(), many as usize, "{number}: {pushed:?}");
        let states = |store: &EmbeddedStore| {
            let states = (1..=many + 1).map(|n| get(store, n).map(|it| it.state));
            states.collect::<Vec<_>>()
        };
        let before = states(&store);
        assert_eq!(
            before[many as usize].is_some(),
            pushed.is_ok(),
            "{pushed:?}"
        );
        std::fs::remove_file(ballast).expect("the ballast");
        drop(store);
        // A clock that was set back shows what the file says of them.
        let back = Hand::at(START);
        let options = options.clone().clock(back);
        let store = EmbeddedStore::open_with(&path, options).expect("a store");
        assert_eq!(
            &states(&store)[..many as usize],
            &before[..many as usize],
            "{number}"
        );
        drop(store);
        for file in std::fs::read_dir(path.parent().expect("a folder")).expect("it is there") {
            std::fs::remove_file(file.expect("a file").path()).expect("it goes");
        }
    }
    println!("passed");
}

/// Else the bucket is closed again by a restart, as the file says what was before.
#[test]
fn a_push_that_finds_no_room_lowers_a_watermark_as_well() {
    runs_on_a_small_disk("no_room::lowers_a_watermark");
}

/// Though it is larger than the reserve, and nothing else may wait for its room.
#[test]
fn a_push_that_lowers_a_watermark_is_refused_where_it_has_no_room() {
    runs_on_a_small_disk("no_room::is_refused_and_lowers_it");
}

const AHEAD: Duration = Duration::from_secs(3_600);

/// An event of so many bytes that was made so long after the start.
fn made(after: Duration, n: u64, len: usize) -> NewEvent {
    let mut new = event(n, When::Now, 3);
    let envelope = Arc::make_mut(&mut new.envelope);
    envelope.id = EventId::from_parts(START + after, key().bucket, n);
    envelope.payload = Payload::from(vec![1; len]);
    new
}

/// A file whose watermark is ahead, which the first push lowers; and how to open it at a time.
fn with_a_watermark_ahead(path: &Path) -> impl Fn(Duration) -> EmbeddedStore {
    let clock = Hand::at(START + AHEAD);
    let path = path.to_owned();
    let open = move |span: Duration| {
        clock.set(START + span);
        let window = DedupWindow {
            keep_for: Duration::ZERO,
            max: 0,
            ..DedupWindow::default()
        };
        let options = EmbeddedOptions::inline().clock(Arc::clone(&clock) as _);
        let options = options.window(window).reserve_bytes(2 << 20);
        EmbeddedStore::open_with(&path, options).expect("a store")
    };
    end(&open(AHEAD), made(AHEAD, 1, 1));
    open
}

/// Of a bucket whose watermark is ahead still, this refuses every push.
fn is_open_near(open: impl Fn(Duration) -> EmbeddedStore) {
    let near = AHEAD - Duration::from_secs(30);
    let pushed = verdict(&open(near), made(near, 9, 1));
    assert_eq!(pushed, PushOutcome::Accepted);
}

#[test]
#[allow(clippy::print_stdout)] // it talks to its parent
fn lowers_a_watermark() {
    let Some(path) = child::path() else { return };
    let open = with_a_watermark_ahead(&path);
    let store = open(Duration::ZERO);
    let ballast = ballast(&path);
    let _ = push(&store, made(Duration::ZERO, 2, 600_000)); // it may have found room
    std::fs::remove_file(ballast).expect("the ballast");
    drop(store);
    is_open_near(open);
    println!("passed");
}

#[test]
#[allow(clippy::print_stdout)] // it talks to its parent
fn is_refused_and_lowers_it() {
    let Some(path) = child::path() else { return };
    let open = with_a_watermark_ahead(&path);
    let store = open(Duration::ZERO);
    let ballast = ballast(&path);
    let large = push(&store, made(Duration::ZERO, 2, 4 << 20));
    let error = large.expect_err("no room");
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    // It stops nothing, and nothing of it waits for room: what is no push is written.
    let hold = store.apply(&key(), fetch_op(1)).now_or_never();
    hold.expect("at once").expect("a fetch");
    std::fs::remove_file(ballast).expect("the ballast");
    assert_eq!(stats(&store).ready, 0);
    drop(store);
    is_open_near(open);
    println!("passed");
}

/// The copy of the log that gives room on a full disk would hide it.
#[test]
fn a_file_that_is_cut_is_noticed_on_a_full_disk() {
    runs_on_a_small_disk("no_room::is_cut");
}

#[test]
#[allow(clippy::print_stdout)] // it talks to its parent
fn is_cut() {
    let Some(path) = child::path() else { return };
    let clock = Hand::at(START);
    let options = EmbeddedOptions::inline().clock(Arc::clone(&clock) as _);
    let open = || EmbeddedStore::open_with(&path, options.clone().reserve_bytes(1 << 20));
    let store = open().expect("a store");
    for n in 1..=50 {
        push(&store, big(n)).expect("there is room");
    }
    drop(store); // the log is in the file
    let store = open().expect("a store");
    clock.advance(Duration::from_secs(2));
    push_now(&store, 51); // a look at the file
    let file = std::fs::File::options().write(true).open(&path);
    let file = file.expect("the file");
    let len = file.metadata().expect("its length").len();
    file.set_len(len - (32 << 10)).expect("it is cut");
    let ballast = ballast(&path);
    let _ = push(&store, made(Duration::ZERO, 52, 4 << 20)); // it has no room
    clock.advance(Duration::from_secs(2));
    let error = push(&store, event(53, When::Now, 3)).expect_err("it has stopped");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert!(error.to_string().contains("was cut from"), "{error}");
    std::fs::remove_file(ballast).expect("the ballast");
    println!("passed");
}
