//! Promise 4, its end: a dead letter is kept, listed, and can be revived or dropped.

use duly::prelude::*;
use duly::testing::Probe;

use crate::world::{ORDERS, World, secs};

over_every_store! {
    dead_letters_are_kept_and_listed_page_by_page,
    a_revived_event_has_all_its_attempts_again,
    a_dead_letter_can_be_mended_and_revived,
    a_dropped_dead_letter_is_gone_and_on_record,
    dead_letters_survive_a_restart,
}

fn failing() -> Probe<u64> {
    Probe::answering(|_event, _cx| Err(Failure::retry("no")))
}

async fn dead_letters_are_kept_and_listed_page_by_page(world: World) {
    let (bus, queue) = world.serve(ORDERS.attempts(1), &failing()).await;
    let receipts = queue.push_many(0..50, secs(0)).await.unwrap();
    bus.advance(secs(86_400)).await;

    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = bus
            .dead_letters()
            .after(after)
            .limit(7)
            .page()
            .await
            .unwrap();
        assert!(page.items.len() <= 7);
        listed.extend(page.items.iter().map(|dead| dead.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let mut pushed: Vec<_> = receipts.iter().map(Receipt::id).collect();
    pushed.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, pushed);
}

async fn a_revived_event_has_all_its_attempts_again(world: World) {
    let probe = failing();
    let (bus, queue) = world.serve(ORDERS.attempts(3), &probe).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(100)).await;
    assert_eq!(
        bus.dead_letters()
            .revive([id, queue.new_id()])
            .await
            .unwrap()
            .done,
        1
    );
    bus.advance(secs(100)).await;

    assert_eq!(probe.times(), [0, 1, 2, 100, 101, 102].map(secs));
    let attempts: Vec<_> = probe.seen().iter().map(|seen| seen.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 1, 2, 3]);
    assert_eq!(bus.dead_letters().revive([]).await.unwrap().done, 0);
}

async fn a_dead_letter_can_be_mended_and_revived(world: World) {
    let probe = Probe::answering(|event: &Event<u64>, _cx| match event.payload {
        1 => Err(Failure::permanent("this one kills")),
        _ => Ok(()),
    });
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    let _ = queue.update(id, &2).await.unwrap();
    assert_eq!(bus.dead_letters().revive([id]).await.unwrap().done, 1);
    bus.advance(secs(1)).await;
    let outcomes = bus.outcomes(id).await.unwrap();
    use Outcome::{Acked, Buried, Edited, Revived};
    assert_eq!(outcomes, [Buried, Edited, Revived, Acked]);
}

async fn a_dropped_dead_letter_is_gone_and_on_record(world: World) {
    let (bus, queue) = world.serve(ORDERS.attempts(1), &failing()).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    let letters = || bus.dead_letters();
    assert_eq!(letters().drop([id]).await.unwrap().done, 1);
    assert_eq!(letters().drop([id]).await.unwrap().done, 0);
    assert_eq!(letters().revive([id]).await.unwrap().done, 0);
    let outcomes = bus.outcomes(id).await.unwrap();
    assert_eq!(outcomes, [Outcome::Buried, Outcome::Dropped]);
    assert_eq!(bus.stats("orders").await.unwrap().dead, 0);
}

async fn dead_letters_survive_a_restart(world: World) {
    let (bus, queue) = world.serve(ORDERS.attempts(1), &failing()).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    bus.shutdown(secs(1)).await.unwrap();
    drop((bus, queue));

    let world = world.restart();
    let probe = Probe::<u64>::new();
    let (bus, _queue) = world.serve(ORDERS, &probe).await;
    let dead = bus.dead_letters().page().await.unwrap();
    assert_eq!(dead.items[0].id, id);
    assert_eq!(bus.dead_letters().revive([id]).await.unwrap().done, 1);
    bus.advance(secs(1)).await;
    assert_eq!(probe.attempts(), [(id, 1)]);
}
