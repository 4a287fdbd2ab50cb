//! The table of all public futures.

use std::collections::VecDeque;
use std::time::Duration;

use duly::__outbox::{self as outbox, StagedPush};
use duly::__server::{ends, moved_clock, payloads, queues, replies, schedules};
use duly::admin::{EventAction, Schedules};
use duly::lease::LeaseOutcome;
use duly::prelude::*;
use duly::records::{Format, Record};
use duly::schedule::ScheduleOptions;
use duly::time::Timestamp;
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
    /// Its type, and its name there.
    pub(super) place: (&'static str, &'static str),
    pub(super) after: After,
    pub(super) run: fn(Stage) -> BoxFuture<'static, duly::Result<()>>,
}

macro_rules! calls {
    ($($after:ident $of:ident $name:ident: |$stage:ident| $call:expr;)+) => {
        pub(super) const CALLS: &[Call] = &[$(Call {
            place: (stringify!($of), stringify!($name)),
            after: After::$after,
            run: |$stage| Box::pin(async move { $call.await.map(drop) }),
        }),+];
    };
}

fn day() -> Duration {
    secs(86_400)
}

/// A record of an event that has ended.
fn ended(id: EventId) -> Record {
    Record {
        id,
        queue: duly::QueueName::new(PULLED).expect("a legal name"),
        key: None,
        attempt: 1,
        outcome: Outcome::Acked,
        cause: None,
        due: Timestamp::default(),
        stages: Default::default(),
        node: Default::default(),
        error: None,
        trace: None,
        payload: Some(b"1".to_vec().into()),
        by: None,
    }
}

/// Ends the test of a bulk operation with its error.
async fn finished(
    result: impl Future<Output = duly::Result<duly::dead_letters::BulkResult>>,
) -> duly::Result<()> {
    result.await?.finished().map(drop)
}

/// Does something with a schedule that is made for it.
async fn of_nightly<F: Future<Output = duly::Result<()>>>(
    it: Stage,
    then: impl FnOnce(Schedules) -> F,
) -> duly::Result<()> {
    let nightly = ScheduleOptions::new(PULLED, "0 2 * * *")?;
    it.bus.schedules().set("nightly", nightly).await?;
    then(it.bus.schedules()).await
}

calls! {
    Closed EventBuilder push: |it| it.pulled.event(1).after(day()).key("other").push();
    Closed Queue push: |it| it.pulled.push(1, day());
    Closed Queue cancel: |it| it.pulled.cancel(it.waiting);
    Closed Queue reschedule: |it| it.pulled.reschedule(it.waiting, 2 * day());
    Closed Queue update: |it| it.pulled.update(it.waiting, &9);
    Closed Queue get: |it| it.pulled.get(it.waiting);
    Closed PushMany each: |it| it.handled.push_many(0..100, Duration::ZERO).each();
    Closed PushMany each: |it| async {
        let events = [1, 2, 3].map(|n| it.handled.event(n));
        it.handled.push_many(events, When::Now).await
    };
    Closed PushMany all_or_none: |it| it.handled.push_many([1, 2, 3], When::Now).all_or_none();
    ClosedWithItsRuntime Bus publish: |it| async {
        it.bus.publish::<handled>(1).await
    };
    ClosedWithItsRuntime Queue publish: |it| it.handled.publish(1);
    ClosedWithItsRuntime Publisher publish: |it| async {
        it.handled.publisher()?.publish(1).await
    };
    ClosedWithItsRuntime Publisher publish_many: |it| async {
        let mut values: VecDeque<u64> = (0..500).collect(); // more than the ring has room for
        it.handled.publisher()?.publish_many(&mut values).await
    };
    ClosedWithItsRuntime Queue call: |it| it.handled.call::<u64>(7, secs(20));
    Closed stored_replies store: |it| async {
        replies::store(&it.bus, &it.token, b"1").await
    };
    Closed stored_replies push: |it| async {
        let event = it.pulled.event(1).after(day()).key("called");
        replies::push(&it.pulled, event).await
    };
    Closed stored_replies look_up: |it| async {
        replies::look_up(&it.pulled, it.waiting).await
    };
    Closed payloads dead_ids: |it| payloads::dead_ids(it.bus.dead_letters());
    Closed queues counts_and_control: |it| async {
        queues::counts_and_control(&it.bus, &PULLED.parse()?).await
    };
    Closed schedules page_with: |it| async {
        schedules::page_with(&it.bus.schedules(), 0, None, (None, 100)).await
    };
    ClosedWithItsRuntime moved_clock settled: |it| moved_clock::settled(&it.bus);
    ClosedWithItsRuntime moved_clock work: |it| moved_clock::work(&it.bus, it.pulled.name());
    Closed __outbox outside: |it| outbox::outside(&it.bus, it.pulled.push(1, day()));
    Closed __outbox push: |it| async {
        let staged = outbox::stage(it.pulled.event(1).after(day()))?;
        match outbox::push(&it.bus, &[staged]).await.pop() {
            Some(StagedPush::Failed(error)) => Err(error),
            _ => Ok(()),
        }
    };
    ClosedWithItsRuntime LeaseRequest send: |it| it.pulled.lease(3, secs(60)).send();
    ClosedWithItsRuntime LeaseRequest send: |it| it.pulled.lease(3, secs(60)).wait(ms(20)).send();
    Closed Leased ack: |it| it.leased.ack();
    Closed Leased retry: |it| it.leased.retry("again");
    Closed Leased retry_after: |it| it.leased.retry_after(day(), "later");
    Closed Leased snooze: |it| it.leased.snooze(day());
    Closed Leased release: |it| it.leased.release();
    Closed Leased bury: |it| it.leased.bury("it is so");
    Closed Leased discard: |it| it.leased.discard("no use");
    Closed Leased extend: |it| async {
        let mut leased = it.leased;
        leased.extend(secs(7_200)).await
    };
    Closed Bus settle_lease: |it| it.bus.settle_lease(&it.token, LeaseOutcome::Ack);
    Closed Bus extend_lease: |it| it.bus.extend_lease(&it.token, secs(7_200));
    Closed Queue end: |it| it.pulled.end(it.waiting);
    Closed ends end_if: |it| ends::end_if(&it.pulled, it.waiting, |_| true);
    Closed Bus pause: |it| it.bus.pause("handled");
    Closed Bus resume: |it| it.bus.resume("handled");
    Closed Bus set_workers_everywhere: |it| it.bus.set_workers_everywhere("handled", Some(3));
    Closed Bus set_rate: |it| it.bus.set_rate("handled", Some(1_000.0));
    Closed Bus set_buckets: |it| it.bus.set_buckets("handled", Some(4));
    Closed Bus controls: |it| it.bus.controls();
    Closed DeadLetters edit: |it| it.bus.dead_letters().edit(it.dead, &5_u64);
    Closed DeadLetters edit_bytes: |it| async {
        let payload = duly::event::Payload::from(b"5".to_vec());
        it.bus.dead_letters().edit_bytes(it.dead, payload).await
    };
    Closed DeadLetters edit_and_revive: |it| async {
        let was = duly::event::Payload::from(b"2".to_vec());
        it.bus.dead_letters().edit_and_revive(it.dead, &was, &5_u64).await
    };
    Closed DeadLetters page: |it| it.bus.dead_letters().page();
    Closed DeadLetters revive: |it| finished(it.bus.dead_letters().revive([it.dead]));
    Closed DeadLetters revive_all: |it| finished(it.bus.dead_letters().revive_all());
    Closed DeadLetters drop: |it| finished(it.bus.dead_letters().drop([it.dead]));
    Closed DeadLetters drop_all: |it| finished(it.bus.dead_letters().drop_all());
    Read MinuteStatsQuery page: |it| it.bus.records().minutes().page();
    Read Records page: |it| it.bus.records().page();
    Read RecordStream next: |it| async {
        let mut records = it.bus.records().stream();
        records.next().await.transpose()
    };
    Read Records export: |it| async {
        let mut file = Vec::new();
        it.bus.records().export(Format::JsonLines, &mut file).await
    };
    Closed StoreCheck run: |it| it.bus.check_store().run();
    Closed PayloadCheck run: |it| it.bus.check_payloads().run();
    Closed Bus explain: |it| it.bus.explain(it.waiting);
    Closed Bus explain_in: |it| it.bus.explain_in(PULLED, it.waiting);
    Closed Events page: |it| it.bus.events().page();
    Closed Bus add_to_audit: |it| it.bus.add_to_audit("ann", "queue paused", "orders");
    Closed Bus audit: |it| it.bus.audit(None, 10);
    Closed Bus audit_of: |it| it.bus.audit_of("shop", None, 10);
    Closed Bus audit_matching: |it| async {
        let filter = duly::admin::AuditFilter::default();
        it.bus.audit_matching(&filter, None, 10).await
    };
    Closed Bus audit_seen: |it| async {
        let filter = duly::admin::AuditFilter::default();
        it.bus.audit_seen(&filter, &|_| true, None, 10).await
    };
    Closed Events list: |it| it.bus.events().list(None);
    Closed StoredEvent cancel: |it| async {
        match it.bus.event(it.waiting).await? {
            Some(event) => event.cancel().await.map(drop),
            None => Ok(()),
        }
    };
    Closed StoredEvent reschedule: |it| async {
        match it.bus.event(it.waiting).await? {
            Some(event) => event.reschedule(day()).await.map(drop),
            None => Ok(()),
        }
    };
    Closed Bus event: |it| it.bus.event(it.waiting);
    Closed Bus event_in: |it| it.bus.event_in(PULLED, it.waiting);
    Closed Queue cancel_by_key: |it| it.pulled.cancel_by_key("key");
    Closed Events change_page: |it| it.pulled.events().change_page(EventAction::Cancel);
    Closed Erasure run: |it| it.bus.erase("customer:8").run();
    Closed Replay push: |it| it.bus.replay("one").push(&[ended(it.waiting)]);
    Closed Erasure step: |it| async { it.bus.erase("customer:8").step(None).await.map(drop) };
    Closed Events cancel: |it| it.pulled.events().key("key").cancel();
    Closed Events reschedule: |it| it.pulled.events().key("key").reschedule(day());
    Closed Reencrypt run: |it| async { it.bus.reencrypt(PULLED).run().await?.finished() };
    Closed Reencrypt count: |it| it.bus.reencrypt(PULLED).count();
    Closed Schedules get: |it| it.bus.schedules().get("nightly");
    Closed Schedules page: |it| it.bus.schedules().page(None, 10);
    Closed Schedules page_of: |it| it.bus.schedules().page_of("shop", None, 10);
    Closed Schedules set: |it| async {
        let nightly = ScheduleOptions::new(PULLED, "0 2 * * *")?;
        it.bus.schedules().set("nightly", nightly).await
    };
    Closed Schedules pause: |it| of_nightly(it, |all| async move { all.pause("nightly").await });
    Closed Schedules resume: |it| of_nightly(it, |all| async move { all.resume("nightly").await });
    Closed Schedules run_now: |it| of_nightly(it, |all| async move {
        all.run_now("nightly").await.map(drop)
    });
    Closed Schedules remove: |it| it.bus.schedules().remove("another");
    Closed Bus forecast: |it| it.bus.forecast(PULLED, secs(60), secs(10));
    Closed Bus nodes: |it| it.bus.nodes();
    Closed Bus stats_page: |it| it.bus.stats_page(None, 10);
    Closed Bus queues: |it| it.bus.queues();
    Closed Bus stats: |it| it.bus.stats(PULLED);
    Closed Bus bucket_stats: |it| it.bus.bucket_stats(PULLED);
}

/// The annotation by which [`Bus::publish`] finds the queue of the probe.
#[delay_event(queue = "handled", register = false)]
async fn handled(_event: Event<u64>) -> Result<(), Failure> {
    Ok(())
}
