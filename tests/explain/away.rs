//! A store that does not answer is a part of the explanation.

use std::sync::Arc;

use duly::explain::Reason;
use duly::prelude::*;
use duly::store::operation::StoreOp;
use duly::testing::{Probe, TestBus};

use crate::faulty::{Fault, Faulty};
use crate::world::{ORDERS, World, secs};

over_every_store! {
    a_store_that_refuses_is_told_with_its_words,
    a_store_that_never_answers_is_not_waited_for,
    what_the_records_know_is_told_while_the_store_is_away,
    what_could_be_found_out_is_told_beside_what_could_not,
    a_bucket_that_is_refused_to_this_process_alone_is_told_with_the_words,
}

async fn distant(world: &World, probe: &Probe<u64>) -> (TestBus, Queue<u64>, Arc<Faulty>) {
    let way = Faulty::to(&world.store);
    let (bus, queue) = world.serve_by(way.clone(), ORDERS, probe).await;
    (bus, queue, way)
}

async fn a_store_that_refuses_is_told_with_its_words(world: World) {
    let (bus, queue, way) = distant(&world, &Probe::new()).await;
    let id = queue.push(1, secs(600)).await.unwrap().id();
    for kind in [ErrorKind::Unavailable, ErrorKind::Closed] {
        way.is(Fault::Refused(kind));
        let explained = bus.explain(id).await.unwrap();
        assert_eq!(explained.state, None);
        let away = Reason::StoreAway {
            kind,
            error: "the test says so".to_owned(),
        };
        assert_eq!(explained.reasons, [away]);
        let words = explained.to_string();
        assert!(
            words.contains("did not respond: the test says so"),
            "{words}"
        );
        assert_eq!(explained.advice().len(), 1);
    }
}

async fn a_store_that_never_answers_is_not_waited_for(world: World) {
    let (bus, queue, way) = distant(&world, &Probe::new()).await;
    let id = queue.push(1, secs(600)).await.unwrap().id();
    way.is(Fault::Hung);
    let began = world.clock.elapsed();
    let explained = bus.explain(id).await.unwrap();
    assert!(matches!(explained.reasons[..], [Reason::StoreAway { .. }]));
    assert!(world.clock.elapsed() - began <= secs(4));
}

async fn what_the_records_know_is_told_while_the_store_is_away(world: World) {
    let probe = Probe::<u64>::answering(|_, _| Err(Failure::retry("not yet")));
    let (bus, queue, way) = distant(&world, &probe).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(3)).await;
    way.is(Fault::Refused(ErrorKind::Unavailable));
    let explained = bus.explain(id).await.unwrap();
    assert!(matches!(explained.reasons[..], [Reason::StoreAway { .. }]));
    assert_eq!(explained.queue.unwrap().as_str(), "orders");
    assert_eq!(explained.attempts.records.len(), 4);
}

async fn what_could_be_found_out_is_told_beside_what_could_not(world: World) {
    let (bus, queue, way) = distant(&world, &Probe::new()).await;
    let id = queue.push(1, secs(600)).await.unwrap().id();
    way.meets(|_, op| match op {
        StoreOp::Stats => Fault::Refused(ErrorKind::Unavailable),
        _ => Fault::None,
    });
    let explained = bus.explain(id).await.unwrap();
    assert!(matches!(
        explained.reasons[..],
        [Reason::NotDue { .. }, Reason::StoreAway { .. }]
    ));
}

async fn a_bucket_that_is_refused_to_this_process_alone_is_told_with_the_words(world: World) {
    let probe = Probe::new();
    let (bus, queue, way) = distant(&world, &probe).await;
    way.meets(|_, op| match op {
        StoreOp::Fetch(_) | StoreOp::MoveDue { .. } => Fault::Refused(ErrorKind::Invalid),
        _ => Fault::None,
    });
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(5)).await;
    let explained = bus.explain(id).await.unwrap();
    let refused = Reason::StoreAway {
        kind: ErrorKind::Invalid,
        error: "the test says so".to_owned(),
    };
    assert_eq!(explained.reasons.last(), Some(&refused), "{explained}");
    assert!(explained.to_string().contains("rejects"), "{explained}");

    way.is(Fault::None);
    bus.advance(secs(31)).await;
    assert_eq!(probe.count(), 1);
    let explained = bus.explain(id).await.unwrap();
    assert!(matches!(explained.reasons[..], [Reason::Over { .. }]));
}
