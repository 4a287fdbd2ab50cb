//! What the tests here begin with: letters that died of different things at different times.

use duly::dead_letters::DeadLetters;
use duly::prelude::*;
use duly::testing::{Probe, TestBus};

use crate::world::{ORDERS, World, secs};

/// A handler that kills odd numbers below 100 by a panic and the even ones by an error, and does
/// the others.
pub(crate) fn picky() -> Probe<u64> {
    Probe::answering(|event: &Event<u64>, _cx| match event.payload {
        number if number >= 100 => Ok(()),
        number if number % 2 == 0 => Err(Failure::permanent(format!("no order {number}"))),
        number => panic!("cannot do {number}"),
    })
}

/// A bus whose two queues have five dead letters each: `orders` those of 0 to 4, dead at second 1
/// to 5, with the key `customer:0` or `customer:1`, and `mails` those of 10 to 14, dead at second
/// 6.
pub(crate) async fn graveyard(world: &World) -> (TestBus, Queue<u64>, Vec<EventId>) {
    let probe = picky();
    let builder = world
        .builder()
        .register_as(ORDERS.attempts(1), probe.clone())
        .register_as(MAILS, probe);
    let bus = world.start(builder).await;
    let queue: Queue<u64> = bus.queue_named("orders").unwrap();
    let mut ids = Vec::new();
    for number in 0..5 {
        bus.advance(secs(1)).await;
        let event = queue.event(number).key(format!("customer:{}", number % 2));
        ids.push(event.push().await.unwrap().id());
    }
    bus.advance(secs(1)).await;
    let mails = bus.queue_named("mails").unwrap();
    mails.push_many(10..15, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;
    (bus, queue, ids)
}

const MAILS: duly::Annotation = duly::Annotation::new("mails").attempts(1);

/// The numbers that the letters carry, all pages together, in their order.
pub(crate) async fn numbers(letters: DeadLetters) -> Vec<u64> {
    let mut numbers = found(letters).await;
    numbers.sort_unstable();
    numbers
}

/// As [`numbers`], as they come.
pub(crate) async fn found(letters: DeadLetters) -> Vec<u64> {
    let (mut numbers, mut after) = (Vec::new(), None);
    loop {
        let page = letters.clone().after(after).page().await.unwrap();
        let found = page.items.iter().map(|letter| letter.payload_as::<u64>());
        numbers.extend(found.map(|number| number.unwrap()));
        after = page.next;
        if after.is_none() {
            return numbers;
        }
    }
}
