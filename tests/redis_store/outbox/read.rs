//! Reading from any number on, and letting go.

use duly::ErrorKind;
use duly::records::Query;
use duly::store::{OUTBOX_BATCH_MAX, Store};

use super::{entries, key, numbers};
use crate::redis_store::kit::{Bare, fresh};
use crate::servers::shared;

#[tokio::test]
async fn records_are_read_from_any_number_on_in_pages_of_any_length() {
    let (url, _) = fresh(&shared().url());
    let bare = Bare::open(&url).await;
    let empty = bare.page(0, 10).await;
    assert_eq!((empty.first, empty.next, empty.records.len()), (1, 1, 0));
    assert!(!empty.has_more());

    let mut ids = Vec::new();
    for (request, many) in [5, 1, 3, 40, 2].into_iter().enumerate() {
        ids.extend(bare.handle(request as u64 + 1, many).await);
    }
    let all = ids.len() as u64;
    let span = bare.page(7, 0).await;
    assert_eq!((span.first, span.next, span.last), (1, all + 1, 7));
    assert!(span.records.is_empty());
    for after in 0..=all + 2 {
        for limit in [1, 2, 7, OUTBOX_BATCH_MAX] {
            let read = bare.rest(after, limit).await;
            assert!(numbers(&read).into_iter().eq(after + 1..=all), "{after}");
            let read = read.into_iter().map(|(_, record)| record.id);
            assert!(read.eq(ids[(after.min(all) as usize)..].iter().copied()));
        }
    }
    let beyond = bare.page(u64::MAX, 10).await;
    assert_eq!((beyond.next, beyond.last), (all + 1, u64::MAX));
}

#[tokio::test]
async fn what_is_trimmed_is_read_no_more_and_what_is_not_stays() {
    let server = shared();
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    bare.trim(5).await; // there is nothing yet
    for (request, many) in [3, 1, 4, 2].into_iter().enumerate() {
        bare.handle(request as u64 + 1, many).await;
    }
    // Entries begin at 1, 4, 5 and 9.
    for (through, left) in [
        (1, 4),
        (2, 4),
        (3, 3),
        (4, 2),
        (5, 2),
        (7, 2),
        (8, 1),
        (9, 1),
    ] {
        bare.trim(through).await;
        for again in [through, through - 1, 0] {
            bare.trim(again).await; // nothing goes back
            let page = bare.page(0, 100).await;
            assert_eq!((page.first, page.next), (through + 1, 11));
            assert!(numbers(&page.records).into_iter().eq(through + 1..=10));
            assert_eq!(page.damaged, 0);
        }
        assert_eq!(entries(server, &prefix), left, "{through}");
    }
    bare.trim(u64::MAX).await;
    let page = bare.page(0, 100).await;
    assert_eq!((page.first, page.next, page.records.len()), (11, 11, 0));
    assert!(!page.has_more());
    assert_eq!(entries(server, &prefix), 0);
    bare.handle(5, 1).await;
    assert_eq!(numbers(&bare.rest(0, 10).await), [11]);
    assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn a_trim_does_not_let_go_of_records_that_got_the_numbers_of_lost_ones() {
    let server = shared();
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    bare.handle(1, 2).await;
    let (outbox, aside) = (key(&prefix, "outbox"), key(&prefix, "aside"));
    server.cli(&["COPY", &outbox, &aside]);
    bare.handle(2, 2).await;
    let read = bare.page(0, 10).await;
    assert_eq!(numbers(&read.records), [1, 2, 3, 4]);

    // A replica takes over that has not got the last two.
    server.cli(&["RENAME", &aside, &outbox]);
    server.cli(&["HSET", &key(&prefix, "meta"), "record", "3"]);
    let others = bare.handle(3, 2).await;
    let error = bare.store.trim_outbox(&bare.outbox(), 4).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");

    let again = bare.page(0, 10).await.records;
    assert_eq!(numbers(&again), [1, 2, 3, 4]);
    assert_eq!([again[2].1.id, again[3].1.id], others[..]);
    bare.trim(4).await;
    assert!(bare.rest(0, 10).await.is_empty());
}

#[tokio::test]
async fn a_damaged_record_is_passed_over_and_counted() {
    let server = shared();
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    for (request, many) in [3, 2, 2].into_iter().enumerate() {
        bare.handle(request as u64 + 1, many).await;
    }
    // The outcome of the second record, and the length of the fourth one's key.
    let script = "local all = redis.call('XRANGE', KEYS[1], '-', '+') redis.call('DEL', KEYS[1]) \
                  for i, it in ipairs(all) do local s = it[2][2] \
                  if i == 1 then s = s:sub(1, 72 + 16) .. 'x' .. s:sub(72 + 18) end \
                  if i == 2 then s = s:sub(1, 68) .. 'xxxx' .. s:sub(73) end \
                  redis.call('XADD', KEYS[1], it[1], 'r', s) end return #all";
    let outbox = key(&prefix, "outbox");
    assert_eq!(server.cli(&["EVAL", script, "1", &outbox]), "3");

    let page = bare.page(0, 100).await;
    assert_eq!(numbers(&page.records), [1, 3, 6, 7]);
    assert_eq!((page.damaged, page.last, page.next), (3, 7, 8));
    let page = bare.page(3, 1).await;
    assert_eq!((page.records.len(), page.damaged, page.last), (0, 1, 4));
    assert!(page.has_more());
    assert_eq!(numbers(&bare.rest(0, 2).await), [1, 3, 6, 7]);
    bare.trim(7).await;
    assert!(bare.rest(0, 10).await.is_empty());
}

#[tokio::test]
async fn a_page_of_damaged_records_alone_hides_none_of_the_others() {
    let server = shared();
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    bare.handle(1, 1_000).await; // a page, as records are read
    let others = bare.handle(2, 1).await;
    // The first entry ends within its first record.
    let script = "local all = redis.call('XRANGE', KEYS[1], '-', '+') redis.call('DEL', KEYS[1]) \
                  for i, it in ipairs(all) do local s = it[2][2] \
                  if i == 1 then s = s:sub(1, 68) end \
                  redis.call('XADD', KEYS[1], it[1], 'r', s) end return #all";
    assert_eq!(
        server.cli(&["EVAL", script, "1", &key(&prefix, "outbox")]),
        "2"
    );

    let page = bare.page(0, 1_000).await;
    assert_eq!(
        (page.records.len(), page.damaged, page.last),
        (0, 1_000, 1_000)
    );
    let read = duly::testing::records(&bare.store, Query::default()).await;
    let read = read.expect("records can be read").items;
    assert!(read.iter().map(|record| record.id).eq(others));
}
