//! What one step of a check looks at is bounded by events, however they wait; what it finds is not.

use std::time::Duration;

use duly::admin::DamageKind::{SilentNode, Stray, Unreadable};
use duly::event::State;
use duly::store::operation::StoreOp;
use duly::store::{CheckTask, Store};
use duly::time::When;

use crate::redis_store::kit::{Bare, ID, builder, fresh, hex, stop};
use crate::redis_store::meter::Meter;
use crate::servers::Redis;

const LATER: When = When::After(Duration::from_secs(3_600));

/// Pushes so many events, in pages or alone.
pub(super) async fn push(bare: &Bare, count: usize, in_pages: bool, when: When) {
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
        "delay", "sizes", "dead", "lease", "holds", "by_key", "expiry", "held", "requests", "nodes",
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

/// The list of what was found has an end; what is counted, repaired and named has none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_hidden_by_what_was_found_before_it() {
    const STRAYS: u64 = 10_050;
    let server = Redis::plain();
    let (url, prefix) = fresh(&server.url());
    let bare = Bare::open(&url).await;
    let held = bare.push_with(|envelope| envelope.attempts = 3).await;
    assert_eq!(bare.fetch(1, 1).await.expect("a fetch"), [held]);
    let cut = bare.new_id();
    bare.push(cut, LATER).await.expect("a push");
    let damage = |id, script: &str| {
        let base = format!("{prefix}:{{letters:0}}:");
        let script = format!(
            "{ID} local c, k = redis.call, function(part) return ARGV[2] .. part end {script} \
             return 'done'"
        );
        let words = ["EVAL", &script, "0", &hex(id), &base];
        assert_eq!(server.cli(&words), "done", "{script}");
    };
    let strays = format!(
        "for i = 1, {STRAYS} do c('ZADD', k('by_key'), 0, string.format('%08d', i) .. id) end"
    );
    damage(held, &strays);
    damage(
        cut,
        "c('HSET', k('body'), id, c('HGET', k('body'), id):sub(1, -2))",
    );
    let silent = "local nodes = c('HGETALL', k('nodes')) local of = nodes[2] \
                  c('HSET', k('nodes'), nodes[1], of:sub(1, 34) .. string.rep('\\0', 8) .. of:sub(43))";
    damage(held, silent);

    let bus = builder(&url).publish_only().start().await.expect("a bus");
    let check = || bus.check_store().queue("letters");
    let report = check().run().await.expect("a check");
    let counts: Vec<_> = report
        .counts
        .iter()
        .map(|(kind, count)| (*kind, *count))
        .collect();
    assert_eq!(counts, [(SilentNode, 1), (Stray, STRAYS), (Unreadable, 1)]);
    let named = report
        .damage
        .iter()
        .find(|damage| damage.kind == Unreadable);
    assert_eq!(named.and_then(|damage| damage.id), Some(cut));
    let report = check().repair().run().await.expect("a repair");
    assert_eq!((report.repaired, report.left()), (STRAYS + 1, 1));
    assert_eq!(bare.state(held).await, State::Ready, "it was taken back");
    let report = check().run().await.expect("a check");
    let kinds: Vec<_> = report.counts.into_keys().collect();
    assert_eq!(kinds, [Unreadable]);
    stop(&bus).await;
}
