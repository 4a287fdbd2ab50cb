//! Events of one instant, spread over a window: never early, and always the same for one id.

use duly::event::{SPREAD_HEADER, spread_part};
use duly::prelude::*;
use duly::testing::Probe;

use crate::world::{ORDERS, World, ms, secs};

over_every_store! {
    a_herd_is_spread_evenly_and_nothing_is_early,
    an_id_that_is_pushed_again_is_due_at_the_same_time,
    a_spread_counts_from_now_for_what_is_past,
    the_window_of_an_event_is_stronger_than_that_of_its_queue,
    a_spread_that_does_not_fit_is_refused,
}

async fn a_herd_is_spread_evenly_and_nothing_is_early(world: World) {
    let probe = Probe::<u64>::new();
    let (bus, _queue) = world.serve(ORDERS.spread(secs(10)), &probe).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let at = bus.now() + secs(60);
    queue.push_many(0..9_000, at).await.unwrap();
    for number in 9_000..10_000 {
        queue.push(number, at).await.unwrap();
    }
    bus.advance(secs(80)).await;
    let mut counted = [0; 10];
    for time in probe.times() {
        assert!(time >= secs(60) && time <= secs(70), "{time:?}");
        counted[usize::try_from((time - secs(60)).as_millis() / 1_000)
            .unwrap()
            .min(9)] += 1;
    }
    assert_eq!(counted.iter().sum::<u64>(), 10_000);
    // Of 1,000 that are drawn, so many at least: six times the spread of chance.
    assert!(
        counted.iter().all(|count| (820..=1_180).contains(count)),
        "{counted:?}"
    );
}

async fn an_id_that_is_pushed_again_is_due_at_the_same_time(world: World) {
    let (bus, queue) = world.push_only::<u64>("orders").await;
    let (id, at) = (queue.new_id(), bus.now() + secs(60));
    let push = || queue.event(7).id(id).at(at).spread(secs(10)).push();
    let first = push().await.unwrap();
    assert_eq!(first.due(), at + spread_part(id, secs(10)));
    bus.advance(secs(5)).await;
    let again = push().await.unwrap();
    assert!(again.is_duplicate());
    assert_eq!(again.due(), first.due());

    let after = queue.event(8).after(secs(60)).spread(secs(10)).push();
    let after = after.await.unwrap();
    assert_eq!(
        after.due(),
        bus.now() + secs(60) + spread_part(after.id(), secs(10))
    );
}

async fn a_spread_counts_from_now_for_what_is_past(world: World) {
    let (bus, queue) = world.push_only::<u64>("orders").await;
    let past = bus.now() - secs(60);
    let part = |id| spread_part(id, secs(10));
    let due = queue
        .event(7)
        .at(past)
        .spread(secs(10))
        .push()
        .await
        .unwrap();
    assert_eq!(due.due(), bus.now() + part(due.id()));
    let now = queue.event(7).spread(secs(10)).push().await.unwrap();
    assert_eq!(now.due(), bus.now() + part(now.id()));
}

async fn the_window_of_an_event_is_stronger_than_that_of_its_queue(world: World) {
    let builder = world.builder().publish_only();
    let choices = QueueChoices {
        spread: Some(secs(10)),
        ..QueueChoices::default()
    };
    let bus = world.start(builder.queue("orders", choices)).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let none = queue.event(7).after(secs(60)).spread(ms(0)).push();
    let none = none.await.unwrap();
    assert_eq!(none.due(), bus.now() + secs(60));
    let own = queue.event(7).after(secs(60)).spread(secs(1_000)).push();
    let own = own.await.unwrap();
    assert_eq!(
        own.due(),
        bus.now() + secs(60) + spread_part(own.id(), secs(1_000))
    );
    let found = queue.get(own.id()).await.unwrap().unwrap();
    let body = found.body.unwrap();
    assert_eq!(body.spread(), Some(secs(1_000)));
    assert_eq!(
        body.headers,
        [(SPREAD_HEADER.to_owned(), "16m40s after 1m".to_owned())]
    );
}

async fn a_spread_that_does_not_fit_is_refused(world: World) {
    let (_bus, queue) = world.push_only::<u64>("orders").await;
    let error = queue
        .event(7)
        .spread(secs(86_401))
        .push()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("at most 1d"), "{error}");
    let full = (0..32).fold(queue.event(7).spread(secs(1)), |event, number| {
        event.header(format!("h{number}"), "")
    });
    let error = full.push().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "its header is one of 32");
}
