//! Who is told of new records.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duly::event::Payload;
use duly::store::operation::{Holding, PushOutcome, Reply, StartMark, StoreOp};
use duly::store::{Outbox, OutboxWatcher, Store};
use duly::time::When;
use duly::{CancelOutcome, LatePolicy, Unique};

use crate::redis_store::kit::{Bare, NODE, fresh, until};
use crate::servers::shared;

#[tokio::test]
async fn watchers_are_told_of_what_wrote_records_and_of_nothing_else() {
    struct Told(AtomicUsize, Outbox);

    impl OutboxWatcher for Told {
        fn recorded(&self, outbox: &Outbox) {
            assert_eq!(*outbox, self.1);
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    let (url, _) = fresh(&shared().url());
    let bare = Bare::open(&url).await;
    let told = Arc::new(Told(AtomicUsize::new(0), bare.outbox()));
    let watcher: Arc<dyn OutboxWatcher> = told.clone();
    bare.store.watch_outboxes(Arc::downgrade(&watcher)).unwrap();
    let told = |what: &str, times: usize| {
        assert_eq!(told.0.swap(0, Ordering::SeqCst), times, "{what}");
    };

    let id = bare.new_id();
    bare.push(id, Duration::from_secs(60)).await.unwrap();
    told("push", 0);
    let when = When::Now;
    bare.apply(StoreOp::Reschedule { id, when }).await.unwrap();
    bare.apply(StoreOp::MoveDue {
        limit: 10,
        calls: false,
    })
    .await
    .unwrap();
    bare.fetch(1, 10).await.unwrap();
    bare.fetch(2, 10).await.unwrap();
    bare.apply(StoreOp::Heartbeat {
        node: NODE,
        holds: Holding::default(),
        started: StartMark::default(),
    })
    .await
    .unwrap();
    let silent = vec![(NODE, 0)];
    bare.apply(StoreOp::Reap { silent, limit: 10 })
        .await
        .unwrap();
    bare.page(0, 10).await;
    bare.trim(0).await;
    told("what ends nothing", 0);
    bare.ack(1, &[id]).await.unwrap();
    told("settle", 1);
    bare.ack(9, &[id]).await.unwrap();
    told("a settle that is refused", 0);

    let id = bare.new_id();
    bare.push(id, Duration::from_secs(60)).await.unwrap();
    bare.apply(StoreOp::Cancel { id }).await.unwrap();
    told("cancel", 1);
    let unknown = bare.new_id();
    bare.apply(StoreOp::Cancel { id: unknown }).await.unwrap();
    told("nobody is cancelled", 0);
    let is_too_late = async || {
        let pushed_us = bare.store.now_us();
        until("it is too late", async || {
            bare.store.now_us() > pushed_us + 2_000
        })
        .await;
    };
    for late in [
        LatePolicy::Bury(Duration::ZERO),
        LatePolicy::Expire(Duration::ZERO),
    ] {
        let id = bare.push_with(|event| event.late = late).await;
        is_too_late().await;
        let cancelled = bare.typed(StoreOp::cancel(id)).await.unwrap();
        assert!(matches!(cancelled, CancelOutcome::TooLate(_)));
        told("a cancel of what is too late", 1);
    }

    for _ in 0..2 {
        bare.push_with(|event| event.unique = Some("one".to_owned()))
            .await;
    }
    told("a push that replaces", 1);
    let expired = Some(duly::time::Timestamp::from_millis(1));
    for (rule, late, expires) in [
        (Unique::Keep, LatePolicy::Deliver, expired),
        (Unique::Replace, LatePolicy::Deliver, expired),
        (Unique::Keep, LatePolicy::Bury(Duration::ZERO), None),
        (Unique::Replace, LatePolicy::Expire(Duration::ZERO), None),
    ] {
        let unique = Some("two".to_owned());
        let holder = bare.push_with(|event| {
            (event.unique, event.late, event.expires) = (unique.clone(), late, expires);
        });
        let holder = holder.await;
        is_too_late().await;
        told("what only has the key", 0);
        let mut event = bare.plain(bare.new_id(), When::Now);
        Arc::make_mut(&mut event.envelope).unique = unique;
        event.on_taken = rule;
        let id = event.envelope.id;
        let pushed = bare.typed(StoreOp::push(vec![event])).await.unwrap();
        assert_eq!(pushed[0].verdict, PushOutcome::Accepted, "{holder} is over");
        told("a push that ends what has expired", 1);
        bare.apply(StoreOp::Cancel { id }).await.unwrap();
        told("cancel again", 1);
    }
    bare.push_with(|event| event.expires = Some(duly::time::Timestamp::from_millis(1)))
        .await;
    told("a push of what has expired", 0);
    assert_eq!(bare.fetch(3, 10).await.unwrap().len(), 1);
    told("a fetch that sets aside", 1);
    bare.bury(3).await;
    told("bury", 1);

    let dead = bare.rest(0, 100).await.pop().unwrap().1.id;
    let (ids, by) = (vec![dead], None);
    let update = StoreOp::Update {
        id: dead,
        payload: Payload::default(),
        by: None,
        dead_only: false,
    };
    bare.apply(update.clone()).await.unwrap();
    told("an update of a dead one", 1);
    let revive = StoreOp::Revive {
        ids: ids.clone(),
        by,
    };
    bare.apply(revive.clone()).await.unwrap();
    told("revive", 1);
    bare.apply(revive).await.unwrap();
    bare.apply(update).await.unwrap();
    told("what is not dead", 0);
    bare.bury(4).await;
    told("bury again", 1);
    bare.apply(StoreOp::Drop { ids, by: None }).await.unwrap();
    told("drop", 1);

    bare.push(bare.new_id(), When::Now).await.unwrap();
    bare.fetch(5, 1).await.unwrap();
    let Reply::Reaped(seen) = bare
        .apply(StoreOp::Reap {
            silent: Vec::new(),
            limit: 1,
        })
        .await
        .unwrap()
    else {
        panic!("a reap answers what it reaped");
    };
    told("a reap of nobody", 0);
    let silent = seen.holders;
    bare.apply(StoreOp::Reap { silent, limit: 10 })
        .await
        .unwrap();
    told("reap", 1);
}
