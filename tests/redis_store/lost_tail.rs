//! A server that comes back without its last writes, while nodes live on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duly::prelude::*;
use duly::records::{Outcome, Query};
use duly::store::RedisStore;
use duly::store::operation::{Holding, StartMark, StoreOp};
use tokio::sync::Semaphore;

use crate::redis_store::kit::{Bare, LETTERS, NODE, builder, fresh, stop, until};
use crate::servers::{self, Redis};

/// Keeps the bucket's keys as they are now.
const KEEP: &str = "for _, key in ipairs(redis.call('KEYS', ARGV[1] .. ':{letters*')) do \
                    redis.call('COPY', key, 'kept:' .. key, 'REPLACE') end";

/// Makes them what was kept, in one step.
const GO_BACK: &str = "for _, key in ipairs(redis.call('KEYS', ARGV[1] .. ':{letters*')) do \
                       redis.call('DEL', key) end \
                       for _, key in ipairs(redis.call('KEYS', 'kept:*')) do \
                       redis.call('COPY', key, key:sub(6), 'REPLACE') end";

/// Handles an event when it is let, and counts beginnings.
#[derive(Clone)]
struct Gated {
    begun: Arc<AtomicUsize>,
    lets: Arc<Semaphore>,
}

impl Handler for Gated {
    type Payload = String;

    async fn handle(&self, _: Event<String>, _: &Context) -> Result<(), Failure> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.lets.acquire().await?.forget();
        Ok(())
    }
}

/// Pushes two events, lets one end and has the server forget that; with `beats` the node goes on
/// holding the other one, and without it holds nothing any more.
async fn what_a_failover_has_made_a_lease_again(beats: bool) {
    let server = Redis::start(servers::RedisOptions::default());
    let (url, prefix) = fresh(&server.url());
    let gated = Gated {
        begun: Arc::default(),
        lets: Arc::new(Semaphore::new(0)),
    };
    let annotation = LETTERS.workers(2);
    let bus = builder(&url).register_as(annotation, gated.clone());
    let bus = bus.start().await.unwrap();
    let queue = bus.queue_named("letters").unwrap();
    let begun = async |many| {
        until("so many handlers have begun", async || {
            gated.begun.load(Ordering::Relaxed) == many
        })
        .await;
    };
    let mut events = 1 + usize::from(beats);
    for _ in 0..events {
        queue.push("a letter".to_owned(), When::Now).await.unwrap();
    }
    begun(events).await;
    server.cli(&["EVAL", KEEP, "0", &prefix]);
    gated.lets.add_permits(1);
    let acked = Query {
        outcomes: vec![Outcome::Acked],
        ..Query::default()
    };
    let store = RedisStore::open(&url).await.unwrap();
    until("one is settled", async || {
        let page = duly::testing::records(&store, acked.clone()).await;
        page.unwrap().items.len() == 1
    })
    .await;
    server.cli(&["EVAL", GO_BACK, "0", &prefix]);
    if !beats {
        // Its node holds nothing, and looks at the bucket when there is news. That is over at once,
        // so that no heartbeat follows from it.
        gated.lets.add_permits(1);
        queue
            .push("another letter".to_owned(), When::Now)
            .await
            .unwrap();
        events += 1;
    }
    begun(events + 1).await;
    gated.lets.add_permits(10);
    until("everything is over", async || {
        let stats = bus.stats("letters").await.unwrap();
        stats.leased + stats.ready == 0
    })
    .await;
    assert_eq!(store.audit_whole().await.unwrap(), [""; 0]);
    let lost = Query {
        outcomes: vec![Outcome::LeaseLost],
        ..Query::default()
    };
    let lost = duly::testing::records(&store, lost).await.unwrap().items;
    assert_eq!(
        lost.len(),
        1,
        "and a record says that it was lost: {lost:?}"
    );
    stop(&bus).await;
}

#[tokio::test]
async fn a_lease_that_its_node_has_settled_before_a_failover_is_handed_back() {
    what_a_failover_has_made_a_lease_again(true).await;
}

#[tokio::test]
async fn so_it_is_where_the_node_holds_nothing_else() {
    what_a_failover_has_made_a_lease_again(false).await;
}

#[tokio::test]
async fn the_audit_finds_leases_that_their_node_does_not_know_of() {
    let (url, _) = fresh(&servers::shared().url());
    let bare = Bare::open(&url).await;
    for _ in 0..3 {
        bare.push(bare.new_id(), Duration::ZERO).await.unwrap();
    }
    assert_eq!(bare.fetch(5, 10).await.unwrap().len(), 3);
    for (leases, last, is_right) in [(3, 5, true), (1, 4, true), (1, 5, false)] {
        let holds = Holding { leases, last };
        let beat = StoreOp::Heartbeat {
            node: NODE,
            holds,
            started: StartMark::default(),
        };
        bare.apply(beat).await.unwrap();
        let wrong = bare.store.audit_whole().await.unwrap();
        assert_eq!(wrong.is_empty(), is_right, "{wrong:?}");
        if !is_right {
            assert!(
                wrong[0].contains("holds 3 leases and reported 1"),
                "{wrong:?}"
            );
        }
    }
}
