//! The check of a file: nothing is found while it is used, and what was damaged is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duly::Annotation;
use duly::admin::DamageKind;
use duly::prelude::*;

use crate::embedded::damage::meddle;
use crate::embedded::harness::*;

/// Fails often.
#[derive(Clone, Default)]
struct Fickle(Arc<AtomicUsize>);

impl Handler for Fickle {
    type Payload = u32;

    async fn handle(&self, event: Event<u32>, _cx: &Context) -> Result<(), Failure> {
        self.0.fetch_add(1, Ordering::Relaxed);
        match event.payload % 5 {
            0 if event.attempt() < 3 => Err(Failure::retry("once more")),
            1 => Err(Failure::permanent("never")),
            _ => Ok(()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_found_in_a_file_that_is_used_and_what_is_damaged_is() {
    let place = Place::new();
    let url = format!("sqlite:{}", place.path().display());
    let builder = || {
        let builder = Bus::builder().only_registered();
        builder.settings(Default::default()).store_url(&url)
    };
    let handled = Fickle::default();
    let annotation = Annotation::new("letters").buckets(2);
    let bus = builder().register_as(annotation, handled.clone());
    let bus = bus.start().await.unwrap();
    let queue = bus.queue_named::<u32>("letters").unwrap();
    let mut checks = 0;
    while handled.0.load(Ordering::Relaxed) < 2_000 || checks < 10 {
        let pushes = futures_util::future::join_all((0..100).map(|it| queue.push(it, When::Now)));
        let (pushed, report) = tokio::join!(pushes, bus.check_store().run());
        assert!(pushed.iter().all(Result::is_ok));
        assert_eq!(report.unwrap().damage, [], "check {checks}");
        checks += 1;
    }
    queue.push(7, Duration::from_secs(3_600)).await.unwrap();
    bus.shutdown(Duration::from_secs(20)).await.unwrap();

    let last = "UPDATE events SET due = due - 1 WHERE row = (SELECT max(row) FROM events)";
    meddle(&place, last);
    let bus = builder().publish_only().start().await.unwrap();
    let report = bus.check_store().repair().run().await.unwrap();
    let kinds: Vec<_> = report.counts.keys().copied().collect();
    assert_eq!(kinds, [DamageKind::SetAside]);
    assert!(report.damage.iter().all(|damage| !damage.repaired));
    assert!(report.left() > 0 && !report.is_healthy());
    bus.shutdown(Duration::from_secs(20)).await.unwrap();
}

#[tokio::test]
async fn a_damaged_body_is_found_and_a_lost_tally_is_told_once() {
    let place = Place::new();
    let url = format!("sqlite:{}", place.path().display());
    let open = || {
        let builder = Bus::builder().only_registered().publish_only();
        builder.settings(Default::default()).store_url(&url).start()
    };
    let bus = open().await.unwrap();
    let queue = bus.queue_named::<u32>("letters").unwrap();
    for number in 0..3 {
        queue
            .push(number, Duration::from_secs(3_600))
            .await
            .unwrap();
    }
    // While it is open: a start would set it aside.
    let file = rusqlite::Connection::open(place.path()).unwrap();
    let damage = "UPDATE events SET body = CAST(substr(body, 1, length(body) - 1) AS BLOB) \
                  WHERE row = (SELECT max(row) FROM events)";
    let report = bus.check_store().run().await.unwrap();
    assert_eq!(report.damage, []);
    assert_eq!(file.execute(damage, []).unwrap(), 1);
    let report = bus.check_store().repair().run().await.unwrap();
    let kinds: Vec<_> = report.counts.keys().copied().collect();
    assert_eq!(kinds, [DamageKind::Unreadable], "{report:?}");
    assert_eq!(report.repaired, 0);
    drop(file);
    bus.shutdown(Duration::from_secs(20)).await.unwrap();

    meddle(&place, "DELETE FROM tally");
    let mut counts = Vec::new();
    for _ in 0..3 {
        let bus = open().await.unwrap();
        let report = bus.check_store().run().await.unwrap();
        counts.push(report.counts.get(&DamageKind::SetAside).copied());
        assert!(report.damage.iter().all(|damage| damage.found.is_some()));
        bus.shutdown(Duration::from_secs(20)).await.unwrap();
    }
    assert_eq!(counts[0], Some(2), "the body and the tally");
    assert_eq!(counts, [counts[0]; 3]);
}

#[tokio::test]
async fn all_damage_of_a_file_is_counted_and_the_first_of_it_is_listed() {
    const MANY: u32 = 10_050;
    let place = Place::new();
    let builder = Bus::builder().only_registered().publish_only();
    let builder = builder.settings(Default::default());
    let builder = builder.store_url(format!("sqlite:{}", place.path().display()));
    let bus = builder.start().await.unwrap();
    let queue = bus.queue_named::<u32>("letters").unwrap();
    let later = Duration::from_secs(3_600);
    let pushes = futures_util::future::join_all((0..MANY).map(|it| queue.push(it, later)));
    assert!(pushes.await.iter().all(Result::is_ok));
    let file = rusqlite::Connection::open(place.path()).unwrap();
    let damage = "UPDATE events SET body = CAST(substr(body, 1, length(body) - 1) AS BLOB)";
    assert_eq!(file.execute(damage, []).unwrap(), MANY as usize);
    let report = bus.check_store().run().await.unwrap();
    let counts: Vec<_> = report.counts.into_iter().collect();
    assert_eq!(counts, [(DamageKind::Unreadable, u64::from(MANY))]);
    assert_eq!(report.damage.len(), 1_000);
    drop(file);
    bus.shutdown(Duration::from_secs(20)).await.unwrap();
}
