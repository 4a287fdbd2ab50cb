//! What one step of a check looks at is bounded by events, however they wait.

use std::time::Duration;

use duly::store::operation::StoreOp;
use duly::store::{CheckTask, Store};
use duly::time::When;

use crate::redis_store::kit::{Bare, fresh};
use crate::redis_store::meter::Meter;
use crate::servers::Redis;

const LATER: When = When::After(Duration::from_secs(3_600));

/// Pushes so many events, in pages or alone.
async fn push(bare: &Bare, count: usize, in_pages: bool, when: When) {
    let ids = if in_pages {
        bare.new_run(count)
    } else {
        (0..count).map(|_| bare.new_id()).collect()
    };
    for some in ids.chunks(512) {
        let events = some.iter().map(|id| bare.plain(*id, when)).collect();
        bare.apply(StoreOp::Push(events)).await.expect("a push");
    }
}

#[tokio::test]
async fn an_audit_only_lists_a_bucket_of_many_events_however_they_wait() {
    let server = Redis::plain();
    for when in [When::Now, LATER] {
        for in_pages in [true, false] {
            for (count, is_checked) in [(300, true), (2_500, false)] {
                let bare = Bare::open(&fresh(&server.url()).0).await;
                push(&bare, count, in_pages, when).await;
                let found = bare.store.audit().await.expect("an audit");
                let is_listed = found.iter().any(|it| it.contains("was not checked"));
                let what = format!("{count}, {when:?}, in pages: {in_pages}");
                assert_eq!(is_listed, !is_checked, "{what}: {found:?}");
                assert_eq!(found.len(), usize::from(is_listed), "{what}: {found:?}");
                assert_eq!(bare.store.audit_whole().await.unwrap(), [""; 0], "{what}");
            }
        }
    }
}

/// What is in no event's name: after a failure there may be any number of it.
#[tokio::test]
async fn an_audit_only_lists_a_bucket_of_few_events_and_much_that_is_strayed() {
    let server = Redis::plain();
    for part in [
        "delay", "sizes", "dead", "lease", "holds", "by_key", "held", "requests", "nodes",
    ] {
        let (url, prefix) = fresh(&server.url());
        let bare = Bare::open(&url).await;
        push(&bare, 3, false, When::Now).await;
        let fill = "local command = ({held='HSET', nodes='HSET'})[ARGV[1]] or 'ZADD' \
            for i = 1, 2500 do local name = string.format('%016d', i) \
            if command == 'HSET' then redis.call('HSET', KEYS[1], name, name) \
            else redis.call('ZADD', KEYS[1], i, name) end end";
        let key = format!("{prefix}:{{letters:0}}:{part}");
        server.cli(&["EVAL", fill, "1", &key, part]);
        let found = bare.store.audit().await.expect("an audit");
        let is_listed = found.len() == 1 && found[0].contains("was not checked");
        assert!(is_listed, "{part}: {} of {found:?}", found.len());
    }
}

#[tokio::test]
async fn a_check_looks_at_no_more_in_a_step_where_events_wait_in_pages() {
    const EVENTS: usize = 19_200; // in 300 pages
    let server = Redis::plain();
    for when in [When::Now, LATER] {
        let mut meter = Meter::new(&server);
        let bare = Bare::open(&fresh(&server.url()).0).await;
        push(&bare, EVENTS, true, when).await;
        push(&bare, 50, false, When::Now).await;
        let task = CheckTask::new(false);
        let check = bare.store.check_bucket(&bare.bucket, task.clone());
        assert_eq!(meter.step(check).await.expect("a check"), []);
        assert!(
            task.looked() as usize > EVENTS,
            "{} looked at",
            task.looked()
        );
        let (steps, ..) = meter.found["check"];
        assert!(steps > EVENTS / 400, "{steps} steps, {when:?}");
        assert!(steps < EVENTS / 20, "{steps} steps, {when:?}");
    }
}
