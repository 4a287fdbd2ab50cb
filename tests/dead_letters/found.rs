//! Dead letters are found by what is asked for, in a stable order, page by page.

use std::collections::BTreeSet;

use duly::__server::payloads;
use duly::dead_letters::{DeadLetterCursor, LastRecord};
use duly::event::BucketId;
use duly::lease::LeaseStatus;
use duly::prelude::*;
use duly::records::Cause;

use crate::dead_letters::kit::{
    MAILS, found, graveyard, namesakes, numbers, picky, tells_namesakes_apart,
};
use crate::world::{ORDERS, World, ms, secs};

const NONE: [u64; 0] = [];

over_every_store! {
    a_letter_says_what_is_known_of_it,
    letters_are_found_by_queue,
    letters_are_found_by_the_time_of_death,
    letters_are_found_by_cause_error_key_and_id,
    letters_of_one_id_are_found_by_what_each_has_died_of,
    what_is_asked_for_together_must_all_be_so,
    pages_are_in_one_order_and_miss_nothing,
    a_page_goes_on_while_letters_come_and_go,
    what_is_not_possible_is_refused_with_words,
    many_empty_buckets_do_not_stop_the_pages,
}

async fn a_letter_says_what_is_known_of_it(world: World) {
    let (bus, _queue, ids) = graveyard(&world).await;
    let page = bus.dead_letters().ids([ids[2]]).page().await.unwrap();
    let [letter] = &page.items[..] else {
        panic!("{page:?}");
    };
    assert_eq!(page.next, None);
    assert_eq!(letter.id, ids[2]);
    assert_eq!(letter.queue.as_str(), "orders");
    assert_eq!(letter.key.as_deref(), Some("customer:0"));
    assert_eq!(letter.died, Some(bus.clock().start() + secs(3)));
    assert_eq!(letter.tries, 1);
    assert_eq!(letter.cause(), Some(Cause::Failed));
    assert_eq!(letter.error(), Some("no order 2"));
    assert_eq!(letter.payload_as::<u64>().unwrap(), 2);
    let error = letter.payload_as::<String>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let words = letter.to_string();
    assert!(
        words.ends_with("after 1 attempt, failed: no order 2"),
        "{words}"
    );
}

async fn letters_are_found_by_queue(world: World) {
    let (bus, _queue, _ids) = graveyard(&world).await;
    let all = [0, 1, 2, 3, 4, 10, 11, 12, 13, 14];
    assert_eq!(numbers(bus.dead_letters()).await, all);
    assert_eq!(numbers(bus.dead_letters().queue("orders")).await, all[..5]);
    let both = bus.dead_letters().queue("mails").queue("orders");
    assert_eq!(numbers(both).await, all);
    assert_eq!(numbers(bus.dead_letters().queue("others")).await, NONE);
}

async fn letters_are_found_by_the_time_of_death(world: World) {
    let (bus, _queue, _ids) = graveyard(&world).await;
    let start = bus.clock().start();
    let asked = bus.dead_letters().since(start + secs(3));
    assert_eq!(numbers(asked.clone().queue("orders")).await, [2, 3, 4]);
    assert_eq!(numbers(asked.until(start + secs(5))).await, [2, 3]);
    let asked = bus.dead_letters().until(start + secs(3) + ms(1));
    assert_eq!(numbers(asked).await, [0, 1, 2]);
}

async fn letters_of_one_id_are_found_by_what_each_has_died_of(world: World) {
    let builder = world.builder().register_as(ORDERS.attempts(1), picky());
    let bus = world.start(builder.register_as(MAILS, picky())).await;
    namesakes(&bus).await;
    tells_namesakes_apart(&bus).await;
}

async fn letters_are_found_by_cause_error_key_and_id(world: World) {
    let (bus, _queue, ids) = graveyard(&world).await;
    let letters = || bus.dead_letters().queue("orders");
    assert_eq!(numbers(letters().cause(Cause::Panicked)).await, [1, 3]);
    assert_eq!(numbers(letters().cause(Cause::TimedOut)).await, NONE);
    assert_eq!(numbers(letters().error("order 4")).await, [4]);
    assert_eq!(numbers(letters().error("cannot")).await, [1, 3]);
    assert_eq!(numbers(letters().key("customer:0")).await, [0, 2, 4]);
    let named = letters().ids([ids[0], ids[3]]).ids([ids[0]]);
    assert_eq!(numbers(named).await, [0, 3]);
    assert_eq!(numbers(letters().ids([])).await, NONE);
}

async fn what_is_asked_for_together_must_all_be_so(world: World) {
    let (bus, _queue, ids) = graveyard(&world).await;
    let letters = || bus.dead_letters().key("customer:0");
    assert_eq!(numbers(letters().error("order 2")).await, [2]);
    assert_eq!(numbers(letters().cause(Cause::Panicked)).await, NONE);
    assert_eq!(numbers(letters().ids([ids[1], ids[4]])).await, [4]);
}

async fn pages_are_in_one_order_and_miss_nothing(world: World) {
    let (bus, _queue, _ids) = graveyard(&world).await;
    let all = found(bus.dead_letters()).await;
    for limit in [1, 2, 3, 4, 7] {
        assert_eq!(found(bus.dead_letters().limit(limit)).await, all);
        let errors = bus.dead_letters().error("order").limit(limit);
        assert_eq!(numbers(errors).await, [0, 2, 4, 10, 12, 14]);
    }
    let page = bus.dead_letters().limit(3).page().await.unwrap();
    let next = page.next.unwrap();
    assert_eq!(next, page.items[2].cursor());
    assert_eq!(next.to_string().parse::<DeadLetterCursor>().unwrap(), next);
    for wrong in [
        "",
        "orders",
        "orders/x",
        "no spaces/01KDVDNA00000F92PAWX9BNDY1",
    ] {
        let error = wrong.parse::<DeadLetterCursor>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

async fn a_page_goes_on_while_letters_come_and_go(world: World) {
    let (bus, _queue, _ids) = graveyard(&world).await;
    let all = found(bus.dead_letters()).await;
    let page = bus.dead_letters().limit(4).page().await.unwrap();
    let revived = page.items.iter().map(|letter| letter.id);
    assert_eq!(bus.dead_letters().drop(revived).await.unwrap().done, 4);
    let rest = found(bus.dead_letters().after(page.next)).await;
    assert_eq!(rest, all[4..]);
}

async fn what_is_not_possible_is_refused_with_words(world: World) {
    let (bus, _queue, ids) = graveyard(&world).await;
    let refused = async |letters: duly::dead_letters::DeadLetters, words: &str| {
        let error = letters.clone().revive_all().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(words), "{error}");
        let error = letters.clone().edit(ids[0], &1).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        let error = letters.page().await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    };
    let letters = || bus.dead_letters();
    refused(letters().by("x".repeat(129)), "129 bytes, at most 128").await;
    refused(letters().limit(0), "the limit is 0").await;
    refused(letters().queue("no spaces"), "queue name").await;
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        refused(letters().rate(rate), "0.001 to 1000000").await;
    }
    let many = (0..10_001).map(|number| {
        let first = ids[0];
        EventId::from_parts(first.created(), first.bucket(), number)
    });
    refused(letters().ids(many), "at most 10000").await;
    assert_eq!(numbers(letters()).await.len(), 10, "nothing was done");
    let by = "x".repeat(128);
    assert_eq!(letters().by(by).revive([ids[0]]).await.unwrap().done, 1);
}

/// The store keeps ten records, and letters for as long as nobody drops them.
#[tokio::test(start_paused = true)]
async fn a_letter_whose_record_is_gone_is_listed_all_the_same() {
    let world = World::memory_of_ten_records();
    let (bus, queue) = world.serve(ORDERS.attempts(1), &picky()).await;
    let id = queue.push(2, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    queue.push_many(100..120, secs(0)).await.unwrap();
    bus.advance(secs(1)).await;
    let page = bus.dead_letters().page().await.unwrap();
    assert_eq!((page.items.len(), page.items[0].id), (1, id));
    assert_eq!(page.items[0].last, LastRecord::Pruned);
    assert_eq!((page.items[0].cause(), page.items[0].error()), (None, None));
    assert!(page.items[0].to_string().contains("pruned"));
    assert_eq!(numbers(bus.dead_letters().error("order")).await, NONE);
}

/// Each page looks at a bounded number of buckets, and goes on behind them.
async fn many_empty_buckets_do_not_stop_the_pages(world: World) {
    let (bus, _queue, _ids) = graveyard(&world).await;
    for name in ["empty-0", "empty-1"] {
        let queue = bus.queue_named::<u64>(name).unwrap();
        bus.set_buckets(name, Some(1_024)).await.unwrap();
        for bucket in 0..1_024 {
            let id = queue.new_id();
            let id = EventId::from_parts(id.created(), BucketId(bucket), id.entropy());
            let event = queue.event(1).id(id).after(secs(60));
            event.push().await.unwrap();
            let _ = queue.cancel(id).await.unwrap();
        }
    }
    assert!(bus.bucket_stats("empty-0").await.unwrap().len() > 1_000);
    let odd = bus.dead_letters().error("cannot");
    assert_eq!(numbers(odd).await, [1, 3, 11, 13]);
}

/// So many payloads of a megabyte.
const LARGE: usize = 40;

/// Forty dead letters of a megabyte each.
async fn large_letters() -> (Bus, Queue<String>) {
    let builder = Bus::builder().store_url("memory:").only_registered();
    let builder = builder.settings(Default::default()).publish_only();
    let bus = builder.start().await.unwrap();
    let queue = bus.queue_named::<String>("orders").unwrap();
    let large = vec!["x".repeat(1_000_000); LARGE];
    queue.push_many(large, When::Now).await.unwrap();
    let mut buried = 0;
    while buried < LARGE {
        for leased in queue.lease(LARGE, secs(600)).send().await.unwrap() {
            assert_eq!(leased.bury("it is so").await.unwrap(), LeaseStatus::Held);
            buried += 1;
        }
    }
    (bus, queue)
}

#[tokio::test]
async fn a_page_ends_after_16_mib_of_payloads() {
    let (bus, _queue) = large_letters().await;
    let (mut seen, mut place) = (BTreeSet::new(), None);
    loop {
        let letters = bus.dead_letters().queue("orders").limit(1_000);
        let page = letters.after(place).page().await.unwrap();
        let many = page.items.len();
        assert!(many <= 22, "{many}");
        seen.extend(page.items.iter().map(|letter| letter.id));
        place = page.next;
        if place.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), LARGE);
}

#[tokio::test]
async fn ids_of_dead_letters_are_read_without_their_payloads() {
    let (bus, queue) = large_letters().await;
    let letters = || bus.dead_letters().queue("orders");
    let page = payloads::dead_ids(letters().limit(1_000)).await.unwrap();
    assert_eq!((page.items.len(), &page.next), (LARGE, &None));
    let mut ids: Vec<EventId> = page.items.iter().map(|(_, id)| *id).collect();
    assert!(page.items.iter().all(|(died, _)| died.is_some()));
    let (mut by_pages, mut place) = (Vec::new(), None);
    loop {
        let page = payloads::dead_ids(letters().limit(7).after(place)).await;
        let page = page.unwrap();
        assert!(page.items.len() <= 7);
        by_pages.extend(page.items.into_iter().map(|(_, id)| id));
        place = page.next;
        if place.is_none() {
            break;
        }
    }
    assert_eq!(by_pages, ids);
    // What is named is read in parts, too, and all of it is done.
    ids.push(queue.new_id());
    let dropped = letters().drop(ids).await.unwrap();
    assert_eq!((dropped.done, dropped.passed_over), (LARGE as u64, 1));
}
