//! Webhooks beside what holds others up: silent name servers, and a state that takes no change.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use duly::Bus;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::lookups::{LOOKUPS_OF_NAMESPACE_MAX, Lookups};
use super::*;
use crate::bus::{Body, Pool};
use crate::shared::Table;

/// Accepts one request, and returns its head.
async fn head(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let (mut request, mut read) = (Vec::new(), [0; 1_024]);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let many = stream.read(&mut read).await.unwrap();
        request.extend_from_slice(&read[..many]);
    }
    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    stream.write_all(response).await.unwrap();
    String::from_utf8(request).unwrap()
}

/// Sets the webhook of a queue, and pushes an event to it.
async fn push(webhooks: &Webhooks, pools: &Pools, queue: &str, url: &str) {
    let secrets = vec![Secret::random().unwrap().text()];
    let row = TargetRow {
        url: url.to_owned(),
        secrets,
        concurrency: 8,
        rate: None,
        timeout_ms: 15_000,
        headers: BTreeMap::new(),
        paused: false,
        revision: 1,
        created_ms: 1,
        changed_ms: 1,
    };
    let pool = pools.iter().next().unwrap();
    let key = TargetKey::new(pool.name(), "ns", queue);
    webhooks.set(&key, &row, true).await.unwrap();
    let queue = pool.queue("ns", queue).unwrap();
    let body = Body::new("{}".into());
    let event = Pool::event(&queue, body).attempts(100);
    event.push().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_waits_for_a_lookup_behind_silent_names_has_not_failed() {
    let (end, ends) = mpsc::channel::<()>();
    let (ends, looked_up) = (Mutex::new(ends), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&looked_up);
    let lookups = Lookups::within(Duration::from_millis(300), move |name| {
        counted.fetch_add(1, Ordering::SeqCst);
        if name.starts_with("silent") {
            ends.lock().unwrap().recv().ok();
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(vec![SocketAddr::from(([127, 0, 0, 1], 0))])
    });
    let settings = "[webhooks]\nallow_http = true\nallow_private = true\nconnect_timeout_ms = 50";
    let settings = crate::Settings::from_toml(settings).unwrap();
    let bus = Bus::builder().store_url("memory:").dynamic_queues();
    let bus = bus.publish_only().start().await.unwrap();
    let pools = Pools::of(bus).unwrap();
    let shared = SharedState::open("memory:").await.unwrap();
    let webhooks = Webhooks::start_with(&settings.webhooks, &pools, &shared, lookups);
    for number in 0..LOOKUPS_OF_NAMESPACE_MAX {
        let url = format!("http://silent{number}.test/");
        push(&webhooks, &pools, &format!("silent{number}"), &url).await;
    }
    let failures = async |queue: &str| {
        let key = TargetKey::new(pools.iter().next().unwrap().name(), "ns", queue);
        webhooks.status(&key).await.unwrap().failures
    };
    // Each of those has failed, as it is looked up for longer than a connection may take.
    let all_failed = async {
        for number in 0..LOOKUPS_OF_NAMESPACE_MAX {
            while failures(&format!("silent{number}")).await == 0 {
                tokio::task::yield_now().await;
            }
        }
    };
    timeout(Duration::from_secs(60), all_failed).await.unwrap();
    assert_eq!(looked_up.load(Ordering::SeqCst), LOOKUPS_OF_NAMESPACE_MAX);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "http://shop.test:{}/",
        listener.local_addr().unwrap().port()
    );
    push(&webhooks, &pools, "shop", &url).await;
    let before = failures("silent0").await;
    let waits = async {
        while failures("silent0").await <= before {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(60), waits).await.unwrap();
    // Nobody waits for ever without a word: it says that there is no place, and goes on waiting.
    let key = TargetKey::new(pools.iter().next().unwrap().name(), "ns", "shop");
    let said = async {
        loop {
            if let Some(error) = webhooks.status(&key).await.unwrap().last_error {
                return error.text;
            }
            tokio::task::yield_now().await;
        }
    };
    let said = timeout(Duration::from_secs(60), said).await;
    let said = said.expect("the wait is bounded");
    assert!(said.starts_with("full: "), "{said}");
    assert_eq!(failures("shop").await, 0, "it waits for a place only");
    end.send(()).unwrap();
    let request = timeout(Duration::from_secs(60), head(&listener)).await;
    let request = request.expect("it is looked up").to_lowercase();
    assert!(request.contains("duly-attempt: 1\r\n"), "{request}");
    drop(end);
    webhooks.stop(Duration::from_secs(5)).await;
}

/// What is noted of webhooks that are no more is removed by who does not hold the others up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_of_webhooks_is_removed_row_by_row_and_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.db");
    let shared = SharedState::open(&format!("sqlite:{}", file.display())).await;
    let shared = shared.unwrap();
    for key in ["default/ns/bad", "default/ns/gone"] {
        shared
            .put(Table::WebhooksDisabled, key, "{}")
            .await
            .unwrap();
    }
    let another = rusqlite::Connection::open(&file).unwrap();
    let bad = "CREATE TRIGGER bad BEFORE DELETE ON entries WHEN OLD.key = 'default/ns/bad'
               BEGIN SELECT RAISE(ABORT, 'a bad row'); END;
               BEGIN IMMEDIATE";
    another.execute_batch(bad).unwrap();
    let bus = Bus::builder().store_url("memory:").dynamic_queues();
    let bus = bus.publish_only().start().await.unwrap();
    let settings = WebhookSettings::default();
    let webhooks = Webhooks::start(&settings, &Pools::of(bus).unwrap(), &shared);
    // The file takes no change for five seconds.
    let is_read = async {
        while webhooks.inner.runners.lock().await.version.is_none() {
            tokio::task::yield_now().await;
        }
    };
    let is_read = timeout(Duration::from_secs(4), is_read).await;
    is_read.expect("nobody holds the runners");
    another.execute_batch("COMMIT").unwrap();
    let left = async || {
        let left = "SELECT group_concat(key) FROM entries WHERE kind = 'webhooks_disabled'";
        another.query_row(left, [], |row| row.get::<_, String>(0))
    };
    let is_removed = async {
        while left().await.unwrap() != "default/ns/bad" {
            tokio::task::yield_now().await;
        }
    };
    let is_removed = timeout(Duration::from_secs(60), is_removed).await;
    is_removed.expect("one row keeps no other");
}
