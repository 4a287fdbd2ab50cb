//! Events whose due time passes while a relay, the store or the database is away.

use std::time::Duration;

use duly::prelude::*;
use duly::store::MemoryStore;

use crate::databases::Outbox;
use crate::faulty::Fault;
use crate::partly::{away, faulty};
use crate::world::{Seen, eventually, orders};

/// What is away while the due time passes.
#[derive(Clone, Copy, Debug)]
enum Away {
    Relay,
    Store,
    /// Its table is elsewhere, which is all that a relay sees of it.
    Database,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_whose_due_time_passes_while_something_is_away_is_handled_once() {
    for outbox in Outbox::all().await {
        for (away, first) in [Away::Relay, Away::Store, Away::Database]
            .into_iter()
            .zip([1, 10, 20])
        {
            passes(&outbox, away, first).await;
        }
    }
}

async fn passes(outbox: &Outbox, is_away: Away, first: u64) {
    let seen = Seen::default();
    let (store, bus) = faulty(&seen, MemoryStore::new()).await;
    let queue = orders(&bus);
    let soon = Duration::from_millis(300);
    let start = async || outbox.relay(&bus).await;
    let relay = match is_away {
        Away::Relay => {
            outbox
                .push(&queue, first..first + 3, When::After(soon))
                .await;
            None
        }
        Away::Store => {
            store.meets(away("orders", None, Fault::Refused(ErrorKind::Unavailable)));
            let relay = start().await;
            outbox
                .push(&queue, first..first + 3, When::After(soon))
                .await;
            Some(relay)
        }
        Away::Database => {
            let relay = start().await;
            outbox
                .execute("alter table duly_outbox_deferred rename to elsewhere")
                .await;
            let is_seen = async || bus.outbox_backlog().is_some_and(|it| it.is_away);
            eventually("the relay sees that its table is gone", is_seen).await;
            outbox
                .push(&queue, first..first + 3, When::After(soon))
                .await;
            Some(relay)
        }
    };
    let due = bus.store_time() + soon;
    eventually("the due time is over", async || bus.store_time() > due).await;
    let relay = match relay {
        None => start().await,
        Some(relay) => relay,
    };
    match is_away {
        Away::Relay => {}
        Away::Store => store.meets(|_, _| Fault::None),
        Away::Database => {
            outbox
                .execute("alter table elsewhere rename to duly_outbox_deferred")
                .await;
        }
    }
    seen.reach(3).await;
    outbox.settled().await;
    let counts = seen.counts();
    assert!(
        counts.values().all(|count| *count == 1),
        "{} {is_away:?} {counts:?}",
        outbox.name()
    );
    relay.stop().await;
}
