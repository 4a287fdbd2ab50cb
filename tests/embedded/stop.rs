//! Doubt about the disk stops the store at once, and says so to everyone.

use duly::ErrorKind;
use duly::core::op::StoreOp;
use duly::event::Payload;
use duly::store::{EmbeddedOptions, EmbeddedStore, Store};
use duly::time::When;

use crate::child::{self, Running};
use crate::harness::*;

/// The limit on the size of files makes a write fail as on a broken disk, with a real error.
#[test]
fn after_a_failed_write_nothing_is_acknowledged_any_more() {
    let place = Place::new();
    drop(place.open());
    let part = "stop::writes_until_it_fails";
    let mut child = Running::start(child::limited(part, &place.path(), 1_000));
    let stored: u64 = child
        .next("stored ")
        .expect("its count")
        .parse()
        .expect("a number");
    assert!(child.next("passed").is_some());
    assert!(child.child.wait().expect("its end").success());
    let store = place.open();
    for n in 1..=stored {
        let found = get(&store, n).unwrap_or_else(|| panic!("event {n} was answered and is lost"));
        assert_eq!(found.body.expect("it is not over").payload.len(), 10_000);
    }
}

#[tokio::test]
#[allow(clippy::print_stdout)] // it talks to its parent
async fn writes_until_it_fails() {
    let Some(path) = child::path() else { return };
    let options = EmbeddedOptions::new().reserve_bytes(0);
    let store = EmbeddedStore::open_with(path, options).expect("a store");
    let event = |n| {
        let mut event = event(n, When::Now, 3);
        std::sync::Arc::make_mut(&mut event.envelope).payload = Payload::from(vec![1; 10_000]);
        StoreOp::Push(vec![event])
    };
    let mut stored = 0;
    let first = loop {
        match store.apply(&key(), event(stored + 1)).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    println!("stored {stored}");
    // It was on its way: nobody knows. What comes later is refused, and says why.
    assert_eq!(first.kind(), ErrorKind::Unknown, "{first}");
    assert!(std::error::Error::source(&first).is_some(), "{first}");
    let delivery = duly::core::op::Delivery {
        id: id(1),
        body: std::sync::Arc::new(duly::event::Envelope::new(id(1), key().queue, payload(1))),
        due: START,
        attempt: 1,
        request: 1,
        moved_us: 0,
    };
    for _ in 0..3 {
        let later = store
            .apply(&key(), event(stored + 2))
            .await
            .expect_err("it is stopped");
        assert_eq!(later.kind(), ErrorKind::Closed, "{later}");
        assert!(later.to_string().contains("a commit failed"), "{later}");
        assert!(
            later.to_string().contains("open the store again"),
            "{later}"
        );
        let fetched = store
            .apply(&key(), fetch_op(1))
            .await
            .expect_err("it is stopped");
        assert_eq!(fetched.kind(), ErrorKind::Closed);
        let started = store
            .starting(&key().queue, &[&delivery])
            .expect_err("it is stopped");
        assert_eq!(started.kind(), ErrorKind::Closed);
    }
    assert!(store.close().await.is_err());
    println!("passed");
}
