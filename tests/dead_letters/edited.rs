//! A dead letter gets another payload, and a record says who gave it.

use duly::dead_letters::Edited;
use duly::event::State as EventState;
use duly::prelude::*;
use duly::testing::Probe;

use crate::dead_letters::kit::{graveyard, picky};
use crate::world::{ORDERS, World, secs};

over_every_store! {
    an_edited_letter_is_handled_with_its_new_payload,
    an_edit_is_on_record_with_who_did_it,
    what_is_not_dead_is_not_edited_and_the_answer_says_so,
    a_payload_that_is_too_large_is_refused,
    bytes_that_do_not_decode_are_kept_as_they_are,
    an_edit_survives_a_restart,
}

async fn an_edited_letter_is_handled_with_its_new_payload(world: World) {
    let probe = picky();
    let (bus, queue) = world.serve(ORDERS.attempts(1), &probe).await;
    let id = queue.push(2, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    let edited = bus.dead_letters().edit(id, &102).await.unwrap();
    assert_eq!(edited, Edited::Edited);
    let page = bus.dead_letters().page().await.unwrap();
    assert_eq!(page.items[0].payload_as::<u64>().unwrap(), 102);
    assert_eq!(page.items[0].error(), Some("no order 2"), "why it died");
    bus.advance(secs(1)).await;
    assert_eq!(probe.count(), 1, "it is dead until it is revived");
    let _ = bus.dead_letters().revive([id]).await.unwrap();
    bus.advance(secs(1)).await;
    assert_eq!(probe.payloads(), [2, 102]);
}

async fn an_edit_is_on_record_with_who_did_it(world: World) {
    let (bus, _queue, ids) = graveyard(&world).await;
    let letters = bus.dead_letters().queue("orders").by("ann");
    letters.edit(ids[0], &7).await.unwrap();
    let elsewhere = bus.dead_letters().queue("mails").edit(ids[0], &8).await;
    assert_eq!(elsewhere.unwrap(), Edited::NotFound);
    let page = bus.records().outcome(Outcome::Edited).page().await.unwrap();
    let told: Vec<_> = page
        .items
        .iter()
        .map(|it| (it.id, it.by.as_deref()))
        .collect();
    assert_eq!(told, [(ids[0], Some("ann"))]);
}

async fn what_is_not_dead_is_not_edited_and_the_answer_says_so(world: World) {
    let hanging = Probe::<u64>::running(|event, _cx| async move {
        match event.payload {
            0 => std::future::pending().await,
            _ => Ok(()),
        }
    });
    let (bus, queue) = world.serve(ORDERS.timeout(secs(600)), &hanging).await;
    let running = queue.push(0, When::Now).await.unwrap().id();
    let done = queue.push(1, When::Now).await.unwrap().id();
    let waiting = queue.push(2, secs(60)).await.unwrap().id();
    bus.advance(secs(1)).await;
    for (id, expected) in [
        (running, Edited::NotDead(EventState::Leased)),
        (done, Edited::NotDead(EventState::Done)),
        (waiting, Edited::NotDead(EventState::Scheduled)),
        (queue.new_id(), Edited::NotFound),
    ] {
        assert_eq!(bus.dead_letters().edit(id, &9).await.unwrap(), expected);
    }
    bus.advance(secs(60)).await;
    let mut payloads = hanging.payloads();
    payloads.sort_unstable(); // two workers take the first two
    assert_eq!(payloads, [0, 1, 2]);
    let page = bus.records().outcome(Outcome::Edited).page().await.unwrap();
    assert!(page.items.is_empty());
}

async fn a_payload_that_is_too_large_is_refused(world: World) {
    let builder = world.builder().payload_bytes_max(100);
    let builder = builder.register_as(ORDERS.attempts(1), picky());
    let bus = world.start(builder).await;
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let id = queue.push(2, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    let error = bus
        .dead_letters()
        .edit(id, &"x".repeat(99))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(
        error.to_string().contains("101 bytes, at most 100"),
        "{error}"
    );
    let error = bus.dead_letters().edit_bytes(id, vec![0; 101]).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Invalid);
    let edited = bus.dead_letters().edit_bytes(id, vec![0; 100]).await;
    assert_eq!(edited.unwrap(), Edited::Edited);
}

async fn bytes_that_do_not_decode_are_kept_as_they_are(world: World) {
    let (bus, _queue, ids) = graveyard(&world).await;
    let bytes = [0xff, 0x00, 0x80];
    let letters = || bus.dead_letters();
    letters().edit_bytes(ids[0], &bytes[..]).await.unwrap();
    let page = letters().ids([ids[0]]).page().await.unwrap();
    assert_eq!(page.items[0].payload.as_bytes(), bytes);
    assert_eq!(page.items[0].payload_shown(), "ff 00 80");
    assert!(page.items[0].payload_as::<u64>().is_err());
    let _ = letters().revive([ids[0]]).await.unwrap();
    bus.advance(secs(1)).await;
    let page = letters().ids([ids[0]]).page().await.unwrap();
    assert_eq!(
        page.items[0].cause(),
        Some(duly::records::Cause::Undecodable)
    );
}

async fn an_edit_survives_a_restart(world: World) {
    let (bus, queue) = world.serve(ORDERS.attempts(1), &picky()).await;
    let id = queue.push(2, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    bus.dead_letters().edit(id, &102).await.unwrap();
    bus.shutdown(secs(1)).await.unwrap();
    drop((bus, queue));
    let world = world.restart();
    let probe = picky();
    let (bus, _queue) = world.serve(ORDERS.attempts(1), &probe).await;
    assert_eq!(bus.dead_letters().revive_all().await.unwrap().done, 1);
    bus.advance(secs(1)).await;
    assert_eq!(probe.payloads(), [102]);
}
