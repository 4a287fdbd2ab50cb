//! What happened in each attempt.

use duly::prelude::*;
use duly::testing::Probe;

use crate::world::{ORDERS, World, secs};

over_every_store! {
    the_last_attempts_are_told_and_the_others_counted,
    what_was_done_by_hand_says_by_whom,
}

async fn the_last_attempts_are_told_and_the_others_counted(world: World) {
    let probe = Probe::<u64>::answering(|event, _cx| {
        Err(Failure::retry(format!("number {}", event.attempt())))
    });
    let (bus, queue) = world.serve(ORDERS.attempts(100), &probe).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    queue.push(2, When::Now).await.unwrap();
    bus.advance(secs(50)).await;
    let explained = bus.explain(id).await.unwrap();
    let told = explained.attempts.records.iter().map(|it| it.attempt);
    assert!(told.eq(32..=51), "{explained}");
    assert_eq!(explained.attempts.earlier, 31);
    assert!(explained.attempts.is_all_counted);
    assert_eq!(explained.attempts.unread, None);
    let words = explained.to_string();
    assert!(words.contains("31 records before these"), "{words}");
    assert!(words.ends_with("number 51"), "{words}");
}

async fn what_was_done_by_hand_says_by_whom(world: World) {
    let probe = Probe::<u64>::answering(|_, _| Err(Failure::permanent("no")));
    let (bus, queue) = world.serve(ORDERS, &probe).await;
    let id = queue.push(1, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    let letters = bus.dead_letters().by("ann");
    assert_eq!(letters.revive([id]).await.unwrap().done, 1);
    bus.advance(secs(1)).await;
    let words = bus.explain(id).await.unwrap().to_string();
    assert!(words.contains("  revived by ann"), "{words}");
}
