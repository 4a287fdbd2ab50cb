//! Parts of one page that came in any order.

use std::time::Duration;

use duly::EventId;
use duly::store::operation::StoreOp;
use duly::store::{CheckTask, Store};
use duly::time::When;

use crate::redis_store::kit::{Bare, ID, fresh, hex};
use crate::servers::shared;

/// Divides ids into parts of random lengths.
fn divided(mut ids: &[EventId]) -> Vec<&[EventId]> {
    let mut parts = Vec::new();
    while !ids.is_empty() {
        let part;
        (part, ids) = ids.split_at(fastrand::usize(1..=ids.len().min(30)));
        parts.push(part);
    }
    parts
}

/// What a check and an audit find.
async fn found(bare: &Bare) -> Vec<String> {
    let check = bare.store.check_bucket(&bare.bucket, CheckTask::new(false));
    let checked = check.await.expect("a check").into_iter();
    let audited = bare.store.audit_whole().await.expect("an audit");
    checked.map(|it| it.to_string()).chain(audited).collect()
}

#[tokio::test]
async fn a_page_is_sound_in_whatever_order_its_parts_came() {
    for _ in 0..10 {
        let bare = Bare::open(&fresh(&shared().url()).0).await;
        let ids = bare.new_run(64);
        let mut parts = divided(&ids);
        fastrand::shuffle(&mut parts);
        let (mut what, mut ready) = (String::new(), Vec::new());
        for part in parts {
            let place = ids
                .iter()
                .position(|id| *id == part[0])
                .expect("it has one");
            let is_later = fastrand::bool();
            what += &format!("{} from {place}, later: {is_later}; ", part.len());
            let delay = if is_later { 3_600 } else { 0 };
            let when = When::from(Duration::from_secs(delay));
            let events = part.iter().map(|id| bare.plain(*id, when)).collect();
            bare.apply(StoreOp::Push(events)).await.expect("a push");
            assert_eq!(found(&bare).await, [""; 0], "{what}");
            ready.extend(part.iter().copied().filter(|_| !is_later));
        }
        for (request, some) in (1..).zip(ready.chunks(11)) {
            let fetched = bare.fetch(request, 11).await.expect("a fetch");
            assert_eq!(fetched, some, "{what}");
            assert_eq!(found(&bare).await, [""; 0], "{what}");
        }
    }
}

#[tokio::test]
async fn parts_that_share_a_place_are_found_in_whatever_order_they_lie() {
    // The first part has the places 0 to 9, the last one 20 to 29; and the one that is added these.
    for (first, count) in [(5, 3), (9, 11), (29, 1), (0, 30)] {
        let server = shared();
        let (url, prefix) = fresh(&server.url());
        let bare = Bare::open(&url).await;
        let ids = bare.new_run(30);
        for part in [&ids[20..], &ids[..10]] {
            let events = part.iter().map(|id| bare.plain(*id, When::Now)).collect();
            bare.apply(StoreOp::Push(events)).await.expect("a push");
        }
        let key = format!("{prefix}:{{letters:0}}:state");
        let script = format!(
            "{ID} local page = id:sub(1, 15) local it = redis.call('HGET', KEYS[1], page) \
             local added = 'R' .. string.char(ARGV[2], ARGV[3]) .. it:sub(-25) \
             return redis.call('HSET', KEYS[1], page, it .. added)"
        );
        let (first, count) = (first.to_string(), count.to_string());
        server.cli(&["EVAL", &script, "1", &key, &hex(ids[0]), &first, &count]);
        let found = found(&bare).await;
        let overlaps = found.iter().filter(|it| it.contains("overlap"));
        assert!(overlaps.count() >= 2, "{first}, {count}: {found:#?}");
    }
}
