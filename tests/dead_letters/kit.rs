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

pub(crate) const MAILS: duly::Annotation = duly::Annotation::new("mails").attempts(1);

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

/// Has an event of `orders` die, and then one of `mails` under the same id, each of its own error.
pub(crate) async fn namesakes(bus: &TestBus) {
    let orders: Queue<u64> = bus.queue_named("orders").unwrap();
    let mails: Queue<u64> = bus.queue_named("mails").unwrap();
    let id = orders.new_id();
    for (queue, number) in [(orders, 20), (mails, 40)] {
        queue.event(number).id(id).push().await.unwrap();
        bus.advance(secs(60)).await;
    }
}

/// Asserts that each of them is found, and chosen, by what it died of itself.
pub(crate) async fn tells_namesakes_apart(bus: &TestBus) {
    for (queue, own, other) in [("orders", 20, 40), ("mails", 40, 20)] {
        let of = |number: u64| {
            let letters = bus.dead_letters().queue(queue);
            letters.error(format!("no order {number}"))
        };
        let page = of(own).page().await.unwrap();
        let errors: Vec<_> = page.items.iter().map(|letter| letter.error()).collect();
        assert_eq!(
            errors,
            [Some(format!("no order {own}").as_str())],
            "{queue}"
        );
        assert_eq!(numbers(of(other)).await, [0; 0], "{queue}");
        assert_eq!(of(other).drop_all().await.unwrap().done, 0, "{queue}");
        assert_eq!(of(own).drop_all().await.unwrap().done, 1, "{queue}");
    }
}
