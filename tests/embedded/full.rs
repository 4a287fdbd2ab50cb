//! A full disk refuses pushes, and what is stored is still handled.

use std::path::{Path, PathBuf};
use std::process::Command;

use duly::ErrorKind;
use duly::event::Payload;
use duly::store::operation::AttemptOutcome;
use duly::store::{EmbeddedOptions, EmbeddedStore, Store};
use duly::time::When;

use crate::embedded::child::{self, Running};
use crate::embedded::harness::*;

/// A disk of 16 MiB in memory, on a mount of its own: the child is alone with it.
///
/// Needs the right to mount, as root or in a user namespace.
pub(crate) fn on_a_small_disk(part: &str, mount: &Path) -> Command {
    let own = child::command(part, &mount.join("duly.db"));
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=16m tmpfs \"$0\" && exec \"$@\"";
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    command
        .arg(mount)
        .arg(own.get_program())
        .args(own.get_args());
    for (name, value) in own.get_envs() {
        command.env(name, value.expect("set, not removed"));
    }
    command.stdout(std::process::Stdio::piped());
    command
}

pub(crate) fn runs_on_a_small_disk(part: &str) {
    let mount = tempfile::tempdir().expect("a directory");
    let mut child = Running::start(on_a_small_disk(part, mount.path()));
    let passed = child.next("passed");
    let end = child.child.wait().expect("its end");
    assert!(end.success() && passed.is_some(), "{part} failed: {end}");
}

#[test]
fn a_full_disk_refuses_pushes_while_everything_else_goes_on() {
    runs_on_a_small_disk("full::fills_its_disk");
}

pub(crate) fn big(n: u64) -> duly::store::operation::NewEvent {
    let mut event = event(n, When::Now, 3);
    std::sync::Arc::make_mut(&mut event.envelope).payload = Payload::from(vec![n as u8; 20_000]);
    event
}

/// Fills the rest of the disk with a file of its own and answers its path.
pub(crate) fn ballast(path: &Path) -> PathBuf {
    use std::io::Write;
    let ballast = path.with_file_name("ballast");
    let mut file = std::fs::File::create(&ballast).expect("a file");
    for piece in [1 << 20, 4_096, 1] {
        while file.write_all(&vec![1; piece]).is_ok() {}
    }
    ballast
}

#[tokio::test]
#[allow(clippy::print_stdout)] // it talks to its parent
async fn fills_its_disk() {
    let Some(path) = child::path() else { return };
    let options = EmbeddedOptions::new().reserve_bytes(1 << 20);
    let store = EmbeddedStore::open_with(&path, options).expect("a store");
    let push = |n| {
        let op = duly::store::operation::StoreOp::Push(vec![big(n)]);
        store.apply(&key(), op)
    };
    for n in 1..=100 {
        push(n).await.expect("there is room");
    }
    let ballast = ballast(&path);

    // Full: an error, and nothing of it happened, not even the part for which there was room.
    let batch = || duly::store::operation::StoreOp::Push((1_001..=1_100).map(big).collect());
    let get = |n| store.apply(&key(), duly::store::operation::StoreOp::Get { id: id(n) });
    let refused = store.apply(&key(), batch()).await;
    let refused = refused.expect_err("two megabytes and no room");
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    for n in 1_001..=1_100 {
        let answer = get(n).await.expect("a look");
        assert_eq!(answer.reply, duly::store::operation::Reply::Snapshot(None));
    }
    let mut stored = 100;
    let refused = loop {
        match push(stored + 1).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    assert!(refused.to_string().contains("full"), "{refused}");
    let answer = get(stored + 1).await.expect("a look");
    assert_eq!(answer.reply, duly::store::operation::Reply::Snapshot(None));

    // Everything that is stored is delivered and settled all the same.
    let mut handled = 0;
    for request in 1.. {
        let answer = store
            .apply(&key(), fetch_op(request))
            .await
            .expect("a fetch");
        let duly::store::operation::Reply::Fetched(duly::store::operation::FetchReport {
            deliveries,
            ..
        }) = answer.reply
        else {
            panic!("no fetch")
        };
        if deliveries.is_empty() {
            break;
        }
        for delivery in deliveries {
            let n = delivery.id.entropy();
            assert_eq!(delivery.body.payload.as_bytes(), vec![n as u8; 20_000]);
            store.starting(&key().queue, &[&delivery]).expect("a note");
            let op = duly::store::operation::StoreOp::Settle {
                node: NODE,
                settlements: vec![settlement(&delivery, AttemptOutcome::Ack)],
                started: duly::store::operation::StartMark::default(),
            };
            store
                .apply(&key(), op)
                .await
                .expect("a settle on a full disk");
            handled += 1;
        }
    }
    assert_eq!(handled, stored);

    // Room again: the same id is pushed as if nothing had been.
    std::fs::remove_file(ballast).expect("the ballast");
    let mut tries = 0;
    while let Err(error) = push(stored + 1).await {
        assert_eq!(error.kind(), ErrorKind::Full);
        tries += 1;
        assert!(tries < 1_000, "pushes do not work again");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    store.close().await.expect("a close");
    let store = EmbeddedStore::open(&path).expect("a store");
    let answer = store
        .apply(&key(), duly::store::operation::StoreOp::Stats)
        .await;
    let stats = answer.expect("stats").reply;
    assert!(matches!(stats, duly::store::operation::Reply::Stats(stats) if stats.ready == 1));
    println!("passed");
}

/// Only by handling what is stored: somebody else takes everything that the store gives up.
#[test]
fn a_disk_that_was_full_takes_pushes_again_when_everything_was_handled() {
    runs_on_a_small_disk("full::drains_a_full_disk");
}

#[tokio::test]
#[allow(clippy::print_stdout)] // it talks to its parent
async fn drains_a_full_disk() {
    use duly::store::operation::{Reply, StartMark, StoreOp};
    let Some(path) = child::path() else { return };
    // More than the disk has: a reserve is at most half of the room that there is.
    let options = EmbeddedOptions::new().reserve_bytes(64 << 20);
    let store = EmbeddedStore::open_with(&path, options).expect("a store");
    let push = async |n| store.apply(&key(), StoreOp::Push(vec![big(n)])).await;
    let mut stored = 0;
    let refused = loop {
        match push(stored + 1).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    assert!(stored > 100, "{stored}");
    let len = || std::fs::metadata(&path).expect("the file").len();
    let len_when_full = len();
    // The reserve that was given up is somebody else's now, and everything else.
    let _ballast = ballast(&path);
    let mut over = 0;
    let mut unknown = 0;
    for request in 1.. {
        let answer = store.apply(&key(), fetch_op(request)).await;
        let Reply::Fetched(fetched) = answer.expect("a fetch").reply else {
            panic!("no fetch")
        };
        if fetched.deliveries.is_empty() {
            break;
        }
        for delivery in &fetched.deliveries {
            let settle = || StoreOp::Settle {
                node: NODE,
                settlements: vec![settlement(delivery, AttemptOutcome::Ack)],
                started: StartMark::default(),
            };
            // Nobody waits for room that may never come.
            let limit = std::time::Duration::from_secs(60);
            let settled = tokio::time::timeout(limit, store.apply(&key(), settle())).await;
            if let Err(error) = settled.expect("an answer") {
                assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
                unknown += 1;
                assert!(unknown < 3, "{over} of {stored} are handled");
            }
            over += 1;
        }
    }
    assert_eq!(over, stored);
    let mut tries = 0;
    while let Err(error) = push(stored + 1).await {
        assert_eq!(error.kind(), ErrorKind::Full);
        tries += 1;
        assert!(tries < 3_000, "pushes do not work again");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    // Pushes work before all is given back.
    let mut tries = 0;
    while 2 * len() >= len_when_full {
        tries += 1;
        assert!(tries < 3_000, "{} of {len_when_full} bytes", len());
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    store.close().await.expect("a close");
    println!("passed");
}

/// Full to the last byte, with a log that finds no room in the file.
#[test]
fn a_change_that_finds_no_room_is_answered_and_written_when_there_is_some() {
    runs_on_a_small_disk("full::changes_without_room");
}

#[tokio::test]
#[allow(clippy::print_stdout)] // it talks to its parent
async fn changes_without_room() {
    use duly::store::operation::{Reply, StoreOp};
    const LONG: usize = 3_000_000;
    let Some(path) = child::path() else { return };
    let options = EmbeddedOptions::new().reserve_bytes(0);
    let store = EmbeddedStore::open_with(&path, options).expect("a store");
    let push = async |numbers: std::ops::Range<u64>| {
        let op = StoreOp::Push(numbers.map(big).collect());
        store.apply(&key(), op).await
    };
    push(1..21).await.expect("there is room");
    let ballast = ballast(&path);
    // Nobody knows yet that the disk is full, and so it is decided.
    let update = |n, bytes| StoreOp::Update {
        id: id(n),
        payload: Payload::from(vec![2; bytes]),
        by: None,
        dead_only: false,
    };
    let limit = std::time::Duration::from_secs(60);
    let updated = store.apply(&key(), update(1, LONG));
    let updated = tokio::time::timeout(limit, updated).await;
    let error = updated.expect("an answer").expect_err("there is no room");
    // What brings a payload is refused from then on, and leaves the room to what handlers say.
    let refused = store.apply(&key(), update(2, 10)).await;
    let refused = refused.expect_err("there is no room");
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert!(
        error.to_string().contains("full to the last byte"),
        "{error}"
    );
    let refused = push(100..101).await.expect_err("there is no room");
    assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");

    std::fs::remove_file(ballast).expect("the ballast");
    let mut tries = 0;
    while push(100..101).await.is_err() {
        tries += 1;
        assert!(tries < 3_000, "pushes do not work again");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let answer = store.apply(&key(), StoreOp::Get { id: id(1) }).await;
    let Reply::Snapshot(Some(found)) = answer.expect("a look").reply else {
        panic!("the event is lost")
    };
    assert_eq!(found.body.expect("it waits").payload.len(), LONG);
    store.close().await.expect("a close");
    println!("passed");
}

#[test]
fn when_too_much_waits_to_be_written_pushes_are_refused_and_the_rest_goes_on() {
    let place = Place::new();
    let store = place.open();
    push_now(&store, 1);
    drop(store);
    let options = place.options().pending_max(0);
    let store = EmbeddedStore::open_with(place.path(), options).expect("a store");
    let refused = push(&store, event(2, When::Now, 1)).expect_err("there is no room");
    assert_eq!(refused.kind(), ErrorKind::Full);
    assert!(get(&store, 2).is_none());
    let delivery = fetch(&store, 1).remove(0);
    assert!(settle(&store, &delivery, AttemptOutcome::Ack).expect("a settle"));
}

/// A file that was large once is small again when its events are over.
#[tokio::test]
async fn space_is_given_back_when_nothing_else_is_to_do() {
    let place = Place::new();
    let options = EmbeddedOptions::new().reserve_bytes(4_096);
    let store = EmbeddedStore::open_with(place.path(), options).expect("a store");
    for numbers in [1..=150, 151..=300] {
        let push = duly::store::operation::StoreOp::Push(numbers.map(big).collect());
        store.apply(&key(), push).await.expect("a push");
    }
    // A call carries some 4 MiB.
    for request in 1..=2 {
        let answer = store.apply(&key(), fetch_op(request)).await;
        let duly::store::operation::Reply::Fetched(duly::store::operation::FetchReport {
            deliveries,
            ..
        }) = answer.expect("a fetch").reply
        else {
            panic!("no fetch")
        };
        let settlements = deliveries
            .iter()
            .map(|d| settlement(d, AttemptOutcome::Ack));
        let settle = duly::store::operation::StoreOp::Settle {
            node: NODE,
            settlements: settlements.collect(),
            started: duly::store::operation::StartMark::default(),
        };
        store.apply(&key(), settle).await.expect("a settle");
    }
    let len = || std::fs::metadata(place.path()).expect("the file").len();
    assert!(len() > 6_000_000, "{}", len());
    let mut waits = 0;
    // Less than 1 MiB of free pages stays, beside what the records take.
    while len() > 1_200_000 {
        waits += 1;
        assert!(waits < 3_000, "the file still has {} bytes", len());
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
