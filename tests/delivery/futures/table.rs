//! The table of all public futures.

use std::collections::VecDeque;
use std::time::Duration;

use duly::lease::LeaseOutcome;
use duly::prelude::*;
use duly::records::Format;
use futures_util::future::BoxFuture;

use super::stage::{PULLED, Stage};
use crate::world::{ms, secs};

/// What a call must return on a bus that has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The error `Closed`.
    Closed,
    /// The same, and so if the runtime of the bus has ended.
    ClosedWithItsRuntime,
    /// The same, or what the store still has.
    Read,
}

/// One public future.
pub(super) struct Call {
    /// Its file below `src/bus`, and its name there.
    pub(super) place: (&'static str, &'static str),
    pub(super) after: After,
    pub(super) run: fn(Stage) -> BoxFuture<'static, duly::Result<()>>,
}

macro_rules! calls {
    ($($after:ident $file:literal $name:ident: |$stage:ident| $call:expr;)+) => {
        pub(super) const CALLS: &[Call] = &[$(Call {
            place: ($file, stringify!($name)),
            after: After::$after,
            run: |$stage| Box::pin(async move { $call.await.map(drop) }),
        }),+];
    };
}

fn day() -> Duration {
    secs(86_400)
}

/// Ends the test of a bulk operation with its error.
async fn finished(
    result: impl Future<Output = duly::Result<duly::dead_letters::BulkResult>>,
) -> duly::Result<()> {
    result.await?.finished().map(drop)
}

calls! {
    Closed "push.rs" send: |it| it.pulled.event(1).after(day()).key("other").send();
    Closed "queue.rs" push: |it| it.pulled.push(1, day());
    Closed "queue.rs" push_now: |it| it.handled.push_now(1);
    Closed "queue.rs" push_at: |it| it.pulled.push_at(1, it.bus.store_time() + day());
    Closed "queue.rs" cancel: |it| it.pulled.cancel(it.waiting);
    Closed "queue.rs" reschedule: |it| it.pulled.reschedule(it.waiting, 2 * day());
    Closed "queue.rs" update: |it| it.pulled.update(it.waiting, &9);
    Closed "queue.rs" get: |it| it.pulled.get(it.waiting);
    Closed "push_many.rs" push_many: |it| it.handled.push_many(0..100, Duration::ZERO);
    Closed "send_many.rs" send_many: |it| it.handled.send_many([1, 2, 3].map(|n| it.handled.event(n)));
    Closed "send_many.rs" send_each: |it| it.handled.send_each([1, 2, 3].map(|n| it.handled.event(n)));
    Closed "send_all.rs" send_all: |it| it.handled.send_all([1, 2, 3].map(|n| it.handled.event(n)));
    ClosedWithItsRuntime "publish.rs" publish: |it| async {
        it.bus.publish::<handled>(1).await
    };
    ClosedWithItsRuntime "publish.rs" publish: |it| it.handled.publish(1);
    ClosedWithItsRuntime "publish.rs" publish: |it| async {
        it.handled.publisher()?.publish(1).await
    };
    ClosedWithItsRuntime "publish.rs" publish_many: |it| async {
        let mut values: VecDeque<u64> = (0..500).collect(); // more than the ring has room for
        it.handled.publisher()?.publish_many(&mut values).await
    };
    ClosedWithItsRuntime "call.rs" call: |it| it.handled.call::<u64>(7, secs(20));
    ClosedWithItsRuntime "lease/mod.rs" send: |it| it.pulled.lease(3, secs(60)).send();
    ClosedWithItsRuntime "lease/mod.rs" send: |it| it.pulled.lease(3, secs(60)).wait(ms(20)).send();
    Closed "lease/leased.rs" ack: |it| it.leased.ack();
    Closed "lease/leased.rs" retry: |it| it.leased.retry("again");
    Closed "lease/leased.rs" retry_after: |it| it.leased.retry_after(day(), "later");
    Closed "lease/leased.rs" snooze: |it| it.leased.snooze(day());
    Closed "lease/leased.rs" release: |it| it.leased.release();
    Closed "lease/leased.rs" bury: |it| it.leased.bury("it is so");
    Closed "lease/leased.rs" discard: |it| it.leased.discard("no use");
    Closed "lease/leased.rs" extend: |it| async {
        let mut leased = it.leased;
        leased.extend(secs(7_200)).await
    };
    Closed "lease/outcome.rs" settle_lease: |it| it.bus.settle_lease(&it.token, LeaseOutcome::Ack);
    Closed "lease/outcome.rs" extend_lease: |it| it.bus.extend_lease(&it.token, secs(7_200));
    Closed "lease/outcome.rs" end: |it| it.pulled.end(it.waiting);
    Closed "control.rs" pause: |it| it.bus.pause("handled");
    Closed "control.rs" resume: |it| it.bus.resume("handled");
    Closed "control.rs" set_workers_everywhere: |it| it.bus.set_workers_everywhere("handled", Some(3));
    Closed "control.rs" set_rate: |it| it.bus.set_rate("handled", Some(1_000.0));
    Closed "control.rs" set_buckets: |it| it.bus.set_buckets("handled", Some(4));
    Closed "control.rs" controls: |it| it.bus.controls();
    Closed "dead_letters/edit.rs" edit: |it| it.bus.dead_letters().edit(it.dead, &5_u64);
    Closed "dead_letters/edit.rs" edit_bytes: |it| async {
        let payload = duly::event::Payload::from(b"5".to_vec());
        it.bus.dead_letters().edit_bytes(it.dead, payload).await
    };
    Closed "dead_letters/edit.rs" edit_and_revive: |it| async {
        let was = duly::event::Payload::from(b"2".to_vec());
        it.bus.dead_letters().edit_and_revive(it.dead, &was, &5_u64).await
    };
    Closed "dead_letters/page.rs" page: |it| it.bus.dead_letters().page();
    Closed "dead_letters/bulk.rs" revive: |it| finished(it.bus.dead_letters().revive([it.dead]));
    Closed "dead_letters/bulk.rs" revive_all: |it| finished(it.bus.dead_letters().revive_all());
    Closed "dead_letters/bulk.rs" drop: |it| finished(it.bus.dead_letters().drop([it.dead]));
    Closed "dead_letters/bulk.rs" drop_all: |it| finished(it.bus.dead_letters().drop_all());
    Read "records/minute_stats.rs" page: |it| it.bus.records().minutes().page();
    Read "records/mod.rs" page: |it| it.bus.records().page();
    Read "records/stream.rs" next: |it| async {
        let mut records = it.bus.records().stream();
        records.next().await.transpose()
    };
    Read "records/stream.rs" export: |it| async {
        let mut file = Vec::new();
        it.bus.records().export(Format::JsonLines, &mut file).await
    };
    Closed "checks/store.rs" run: |it| it.bus.check_store().run();
    Closed "checks/payloads.rs" run: |it| it.bus.check_payloads().run();
    Closed "explain/mod.rs" explain: |it| it.bus.explain(it.waiting);
    Closed "explain/mod.rs" explain_in: |it| it.bus.explain_in(PULLED, it.waiting);
    Closed "events/page.rs" page: |it| it.bus.events().page();
    Closed "events/stored.rs" cancel: |it| async {
        match it.bus.event(it.waiting).await? {
            Some(event) => event.cancel().await.map(drop),
            None => Ok(()),
        }
    };
    Closed "events/stored.rs" reschedule: |it| async {
        match it.bus.event(it.waiting).await? {
            Some(event) => event.reschedule(day()).await.map(drop),
            None => Ok(()),
        }
    };
    Closed "events/mod.rs" event: |it| it.bus.event(it.waiting);
    Closed "events/mod.rs" event_in: |it| it.bus.event_in(PULLED, it.waiting);
    Closed "events/mod.rs" cancel_by_key: |it| it.pulled.cancel_by_key("key");
    Closed "events/mod.rs" cancel: |it| it.pulled.events().key("key").cancel();
    Closed "events/mod.rs" reschedule: |it| it.pulled.events().key("key").reschedule(day());
    Closed "reencrypt.rs" run: |it| async { it.bus.reencrypt(PULLED).run().await?.finished() };
    Closed "reencrypt.rs" count: |it| it.bus.reencrypt(PULLED).count();
    Closed "forecast.rs" forecast: |it| it.bus.forecast(PULLED, secs(60), secs(10));
    Closed "admin.rs" nodes: |it| it.bus.nodes();
    Closed "admin.rs" stats_page: |it| it.bus.stats_page(None, 10);
    Closed "admin.rs" queues: |it| it.bus.queues();
    Closed "admin.rs" stats: |it| it.bus.stats(PULLED);
    Closed "admin.rs" bucket_stats: |it| it.bus.bucket_stats(PULLED);
}

/// The annotation by which [`Bus::publish`] finds the queue of the probe.
#[delay_event(queue = "handled", register = false)]
async fn handled(_event: Event<u64>) -> Result<(), Failure> {
    Ok(())
}
