//! Events by plain SQL, and events that can never be accepted.

use std::sync::Arc;
use std::time::Duration;

use duly::OldPayload;
use duly::config::QueueChoices;
use duly::prelude::*;
use duly_outbox::{PushIn, Relay, RelayOptions};
use parking_lot::Mutex;
use sqlx_0_8::Executor;

use crate::databases::Outbox;
use crate::world::{Seen, TestDatabase, World, bus, eventually, order, orders};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_sql_pushes_when_its_transaction_commits() {
    let world = World::new().await;
    let relay = world.relay().await;
    let pool = &world.database.pool;
    let mut tx = pool.begin().await.unwrap();
    let undone = r#"select duly_push('orders', '{"number": 1}')"#;
    tx.execute(undone).await.unwrap();
    tx.rollback().await.unwrap();
    let sql = r#"select duly_push('orders', '{"number": 2}')"#;
    let id: String = sqlx_0_8::query_scalar(sql).fetch_one(pool).await.unwrap();
    world.seen.reach(1).await;
    assert_eq!(world.seen.numbers(), [2]);
    let id = id.parse().unwrap();
    // It has the id that was returned.
    while world
        .bus
        .records()
        .id(id)
        .page()
        .await
        .unwrap()
        .items
        .is_empty()
    {
        tokio::task::yield_now().await;
    }

    let sql = r#"select duly_push('mails', '"Ada"', '30 minutes', '{"key": "customer:7",
        "unique": "welcome", "attempts": 3, "headers": {"from": "trigger"}}')"#;
    for _ in 0..2 {
        let id: Option<String> = sqlx_0_8::query_scalar(sql).fetch_one(pool).await.unwrap();
        assert_eq!(id, None, "its key decides");
    }
    let settled = "select count(*) from duly_outbox where queue is null";
    world.database.until(settled, 3).await;
    let events = async || {
        let queue = world.bus.queue_named::<String>("mails").unwrap();
        queue.events().key("customer:7").page().await.unwrap().items
    };
    eventually("the event is in the store", async || {
        !events().await.is_empty()
    })
    .await;
    let (event, more) = (events().await.remove(0), events().await.len());
    assert_eq!(more, 1, "its unique key was taken");
    let queue = world.bus.queue_named::<String>("mails").unwrap();
    let event = queue.get(event.id).await.unwrap().unwrap();
    let envelope = event.body.unwrap();
    assert_eq!(envelope.key.as_deref(), Some("customer:7"));
    assert_eq!(envelope.unique.as_deref(), Some("welcome"));
    assert_eq!(envelope.attempts, 3);
    assert!(
        envelope
            .headers
            .contains(&("from".to_owned(), "trigger".to_owned()))
    );
    let wait = event.due.since(world.bus.store_time());
    assert!(
        wait > Duration::from_secs(1_700) && wait <= Duration::from_secs(1_800),
        "{wait:?}"
    );
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_never_be_accepted_is_put_aside_and_blocks_nothing() {
    let world = World::new().await;
    let pool = &world.database.pool;
    let wrong = [
        ("duly_push('no such name!', '1')", "name"),
        ("duly_push('orders', '1', '400000 days')", "at most"),
        ("duly_push_at('orders', '1', 'infinity')", "at most"),
        (
            "duly_push('orders', '1', '1 s', '{\"atempts\": 3}')",
            "no option `atempts`",
        ),
        (
            "duly_push('orders', '1', '1 s', '{\"attempts\": 0}')",
            "from 1 to 65535",
        ),
        ("duly_push('orders', '1', '1 s', '[]')", "no JSON object"),
        (
            "duly_push('orders', '1', '1 s', '{\"spread\": \"often\"}')",
            "no time span",
        ),
        (
            "duly_push('orders', '1', '1 s', '{\"id\": \"seven\"}')",
            "26 characters",
        ),
        (
            "duly_push('orders', '1', '1 s', '{\"headers\": {\"a\": 1}}')",
            "object of texts",
        ),
        (
            "duly_push('orders', '1', '1 s', '{\"unique_for\": \"1s\"}')",
            "unique key",
        ),
        (
            "duly_push('orders', '1', '1 s', '{\"version\": -1}')",
            "from 0 to 4294967295",
        ),
    ];
    for (call, _) in wrong {
        pool.execute(&*format!("select {call}")).await.unwrap();
    }
    pool.execute(r#"select duly_push_at('orders', '{"number": 3}', '-infinity')"#)
        .await
        .unwrap();
    pool.execute("insert into duly_outbox (event) values ('\\x0102'), ('')")
        .await
        .unwrap();
    let mut tx = pool.begin().await.unwrap();
    world
        .orders
        .push_in(&mut tx, order(1), When::Now)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let relay = world.relay().await;
    world.seen.reach(2).await;
    let refused = "select count(*) from duly_outbox_refused";
    world.database.until(refused, wrong.len() as i64 + 2).await;
    let reasons: Vec<String> =
        sqlx_0_8::query_scalar("select reason from duly_outbox_refused order by n")
            .fetch_all(pool)
            .await
            .unwrap();
    for ((call, words), reason) in wrong.iter().zip(&reasons) {
        assert!(reason.contains(words), "{call}: {reason}");
    }

    // Once it is right, it goes on.
    let sql = "update duly_outbox_refused set options = '{\"attempts\": 3}', due = null, \
               payload = '{\"number\": 2}' where options::text like '%atempts%' returning n";
    let n: i64 = sqlx_0_8::query_scalar(sql).fetch_one(pool).await.unwrap();
    pool.execute(&*format!("select duly_outbox_retry({n})"))
        .await
        .unwrap();
    world.seen.reach(3).await;
    relay.stop().await;
}

/// A bus whose queue of secrets is encrypted.
async fn secrets(store: &str) -> Bus {
    let keys = duly::codec::KeyRing::new();
    keys.add("a", duly::codec::Key::new([7; 32])).unwrap();
    keys.choose("a").unwrap();
    let choices = QueueChoices {
        encrypt: Some(true),
        ..QueueChoices::default()
    };
    let builder = Bus::builder()
        .only_registered()
        .publish_only()
        .store_url(store);
    let builder = builder.keys(keys).queue("secrets", choices);
    builder.start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_payload_of_an_encrypted_queue_is_in_no_row_in_the_clear() {
    let database = TestDatabase::new().await;
    let bus = secrets("memory:").await;
    let queue = bus.queue_named::<String>("secrets").unwrap();
    let hour = Duration::from_secs(3_600);
    let mut tx = database.pool.begin().await.unwrap();
    let id = queue
        .push_in(&mut tx, "attack at dawn".to_owned(), hour)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let dawn = "select count(*) from duly_outbox where position('dawn' in event) > 0";
    assert_eq!(database.number(dawn).await, 0);
    let options = RelayOptions::default();
    let relay = Relay::sqlx_0_8(&bus, database.pool.clone(), options)
        .await
        .unwrap();
    let is_there = async || bus.secret(id).await.as_deref() == Some("attack at dawn");
    eventually("the event is in the store", is_there).await;
    relay.stop().await;
}

/// It is encrypted by the relay: until its row is gone it stands there in the clear, as the guide says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_sql_to_an_encrypted_queue_is_encrypted_in_the_store() {
    for outbox in Outbox::all().await {
        let bus = secrets("memory:").await;
        let relay = outbox.relay(&bus).await;
        let payload = "\"attack at dawn\"";
        let hour = 3_600_000 + bus.store_time().as_millis();
        outbox
            .execute(&match outbox {
                Outbox::Postgres(_) => {
                    format!("select duly_push('secrets', '{payload}', '1 hour')")
                }
                Outbox::Mysql(_) => format!("call duly_push('secrets', '{payload}', 3600, null)"),
                Outbox::Sqlite(_) => format!(
                    "insert into duly_outbox (queue, payload, due) \
                     values ('secrets', '{payload}', {hour})"
                ),
            })
            .await;
        outbox.settled().await;
        let queue = bus.queue_named::<String>("secrets").unwrap();
        let events = queue.events().list(None).await.unwrap();
        let id = events.items[0].id;
        assert_eq!(bus.secret(id).await.as_deref(), Some("attack at dawn"));
        let stored = queue.get(id).await.unwrap().unwrap().body.unwrap();
        let bytes = stored.payload.as_bytes();
        let mut words = bytes.windows(4);
        assert!(!words.any(|word| word == b"dawn"), "{}", outbox.name());
        relay.stop().await;
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct Price {
    cents: u64,
}

/// In euros at first.
fn upgrade(old: OldPayload<'_>) -> Result<Price, Failure> {
    #[derive(Deserialize)]
    struct First {
        euros: u64,
    }
    let cents = old.decode::<First>()?.euros * 100;
    Ok(Price { cents })
}

#[delay_event(queue = "prices", version = 2, upgrade = upgrade, register = false)]
async fn price(event: Event<Price>, prices: duly::State<Prices>) -> Result<(), Failure> {
    prices.lock().push(event.payload.cents);
    Ok(())
}

type Prices = Arc<Mutex<Vec<u64>>>;

/// Whatever version the build of the relay has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_sql_says_the_version_of_its_payload_and_otherwise_it_has_none() {
    for outbox in Outbox::all().await {
        let prices = Prices::default();
        let builder = Bus::builder().only_registered().store_url("memory:");
        let builder = builder.register(price {}).state(prices.clone());
        let bus = builder.start().await.unwrap();
        let relay = outbox.relay(&bus).await;
        for (payload, options) in [
            (r#"{"euros": 3}"#, "{}"),
            (r#"{"euros": 4}"#, r#"{"version": 1}"#),
            (r#"{"cents": 500}"#, r#"{"version": 2}"#),
        ] {
            let sql = match outbox {
                Outbox::Postgres(_) => {
                    format!("select duly_push('prices', '{payload}', '0', '{options}')")
                }
                Outbox::Mysql(_) => {
                    format!("call duly_push('prices', '{payload}', 0, '{options}')")
                }
                Outbox::Sqlite(_) => format!(
                    "insert into duly_outbox (queue, payload, options) \
                     values ('prices', '{payload}', '{options}')"
                ),
            };
            outbox.execute(&sql).await;
        }
        eventually("each is handled", async || prices.lock().len() == 3).await;
        prices.lock().sort_unstable();
        assert_eq!(*prices.lock(), [300, 400, 500]);
        relay.stop().await;
    }
}

/// Reads an event's value.
trait Value {
    async fn secret(&self, id: EventId) -> Option<String>;
}

impl Value for Bus {
    async fn secret(&self, id: EventId) -> Option<String> {
        let queue = self.queue_named::<String>("secrets").unwrap();
        let leased = queue.get(id).await.unwrap()?;
        let envelope = leased.body?;
        let opened = self
            .keys()
            .open(id, queue.name(), &envelope.payload)
            .unwrap();
        serde_json::from_slice(&opened.value).ok()
    }
}

/// A relay may come late, and finds what an application has long given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_was_chosen_stays_whatever_the_key_is() {
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let bus = bus("memory:", &seen).await;
        let queue = orders(&bus);
        let ids: Vec<_> = (0..3).map(|_| queue.new_id()).collect();
        let options = ["{}", r#"{"key": "shop:9"}"#, r#"{"unique": "shop:9"}"#];
        for ((number, id), options) in (0..).zip(&ids).zip(options) {
            outbox.push_plain_under(number, *id, options).await;
        }
        let relay = outbox.relay(&bus).await;
        seen.reach(3).await;
        let handled: Vec<_> = seen.ids().into_values().flatten().collect();
        assert_eq!(handled, ids, "{}", outbox.name());
        relay.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expiry_counts_from_the_insert() {
    for outbox in Outbox::all().await {
        let seen = Seen::default();
        let bus = bus("memory:", &seen).await;
        for (number, expires_after) in [(1, "40m"), (2, "2h")] {
            let options = format!("{{\"expires_after\": \"{expires_after}\"}}");
            outbox.push_plain_with(number, &options).await;
        }
        let an_hour_ago = match outbox {
            Outbox::Postgres(_) => "update duly_outbox set at = at - interval '1 hour'",
            Outbox::Sqlite(_) | Outbox::Mysql(_) => "update duly_outbox set at = at - 3600000",
        };
        outbox.execute(an_hour_ago).await;
        let relay = outbox.relay(&bus).await;
        seen.reach(1).await;
        let is_over = async || {
            let records = bus.records().queue("orders").page().await.unwrap();
            records
                .items
                .iter()
                .any(|record| record.outcome == Outcome::Expired)
        };
        eventually("one has expired", is_over).await;
        assert_eq!(seen.numbers(), [2]);
        relay.stop().await;
    }
}
