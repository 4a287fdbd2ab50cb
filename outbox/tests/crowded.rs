//! A store that is away as a whole while many rows are deferred: the others stay where they are.

use std::sync::Arc;

use duly::prelude::*;
use duly::store::MemoryStore;
use duly_outbox::Relay;
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::aged::{few_ends, forget};
use crate::databases::{Outbox, REFUSED};
use crate::faulty::{Fault, Faulty};
use crate::partly::{away, faulty};
use crate::world::{Seen, eventually, orders};

/// So many rows are deferred.
const ROWS: u64 = 10_000;

/// A relay that defers no more. The table `backup` has an event that was never pushed, and whose id is
/// too old.
struct Crowded {
    outbox: Outbox,
    seen: Seen,
    store: Arc<Faulty>,
    bus: Bus,
    relay: Relay,
}

impl Crowded {
    async fn new(outbox: Outbox) -> Self {
        let seen = Seen::default();
        let memory = MemoryStore::new().with_window(few_ends());
        let (store, bus) = faulty(&seen, memory).await;
        let queue = orders(&bus);
        outbox.push(&queue, 7..8, When::Now).await;
        outbox
            .execute(
                "create table backup as select event from duly_outbox; delete from duly_outbox",
            )
            .await;
        forget(&queue, &seen).await;
        store.meets(away("orders", None, Fault::Refused(ErrorKind::Unavailable)));
        store.rolls_are(Fault::Refused(ErrorKind::Unavailable));
        let at = match outbox {
            Outbox::Postgres(_) => "now()",
            Outbox::Sqlite(_) | Outbox::Mysql(_) => "0",
        };
        let sql = format!(
            "insert into duly_outbox_deferred (at, repeated, event, bucket) \
             with recursive k (i) as (select 1 union all select i + 1 from k where i < {ROWS}) \
             select {at}, true, event, 'orders/before' from k, backup"
        );
        outbox.execute(&sql).await;
        let relay = outbox.relay(&bus).await;
        let is_counted = async || {
            let backlog = bus.outbox_backlog();
            backlog.is_some_and(|backlog| backlog.waiting >= ROWS)
        };
        eventually("the deferred rows are counted", is_counted).await;
        Self {
            outbox,
            seen,
            store,
            bus,
            relay,
        }
    }

    /// Waits for some turns of the relay.
    async fn turns(&self) {
        let claims = match self.outbox {
            Outbox::Postgres(_) => "select max(n) / 2 from duly_outbox_step",
            Outbox::Sqlite(_) | Outbox::Mysql(_) => "select claims from duly_outbox_step",
        };
        let wanted = self.outbox.number(claims).await + 5;
        let reached = async || self.outbox.number(claims).await >= wanted;
        eventually("the relay has taken rows again", reached).await;
    }

    /// The store returns, and what was deferred before is out of the way.
    async fn returns(&self) {
        self.outbox
            .execute("delete from duly_outbox_deferred")
            .await;
        self.store.is(Fault::None);
    }
}

/// A relay has died between a push and the step that passes it, and the next one finds this.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_have_been_pushed_is_known_for_as_long_as_it_stays() {
    for outbox in Outbox::all().await {
        let died = match outbox {
            Outbox::Postgres(_) => {
                "insert into duly_outbox (event) select event from backup; \
                 insert into duly_outbox_step (n, part, cluster, done, reading, passed_xid, passed_n, \
                     repeated, holder, until) \
                 select n + 1, part, cluster, done, (x || ':' || x || ':')::pg_snapshot, '0', 0, \
                     true, '', now() \
                 from duly_outbox_step, (select pg_current_xact_id()::text::bigint + 1 as x) as now \
                 order by n desc limit 1"
            }
            Outbox::Sqlite(_) => {
                "begin immediate; insert into duly_outbox (event) select event from backup; \
                 update duly_outbox_step set pushed = (select max(n) from duly_outbox); commit"
            }
            Outbox::Mysql(_) => continue, // it counts in each row
        };
        let crowded = Crowded::new(outbox).await;
        crowded.outbox.execute(died).await;
        crowded.turns().await;
        crowded.returns().await;
        let refused = "select count(*) from duly_outbox_refused \
                       where reason like '%may have been accepted%'";
        crowded.outbox.until(refused, 1).await;
        assert!(!crowded.seen.numbers().contains(&7), "doubled");
        crowded.relay.stop().await;
    }
}

#[tokio::test]
async fn what_stays_behind_a_row_that_waits_is_not_counted_as_refused() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _guard = ::metrics::set_default_local_recorder(&recorder);
    let page = recorder.handle();
    let is_counted = |refused: u64| {
        let line = format!("duly_relay_refused_total {refused}");
        page.render().lines().any(|it| it == line)
    };
    let [outbox, ..] = Outbox::all().await;
    let crowded = Crowded::new(outbox).await;
    let sql = "insert into duly_outbox (event) select event from backup; \
               insert into duly_outbox (event) select substr(event, 2) from backup";
    crowded.outbox.execute(sql).await;
    crowded.turns().await;
    assert!(is_counted(0));
    assert_eq!(crowded.outbox.number(REFUSED).await, 0);
    crowded.returns().await;
    crowded.outbox.until(REFUSED, 1).await;
    eventually("it is counted once", async || is_counted(1)).await;
    let is_shown = async || crowded.bus.outbox_backlog().unwrap().refused == 1;
    eventually("it is shown", is_shown).await;
    // By whom the table is emptied makes no difference.
    crowded
        .outbox
        .execute("delete from duly_outbox_refused")
        .await;
    let is_gone = async || crowded.bus.outbox_backlog().unwrap().refused == 0;
    eventually("it is shown no more", is_gone).await;
    assert!(is_counted(1));
    crowded.relay.stop().await;
}
