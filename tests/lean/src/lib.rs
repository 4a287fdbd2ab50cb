//! What duly is without its features: what it compiles, and what it says of the rest.

#![cfg(test)]

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use duly::config::Settings;
use duly::event::{BucketKey, Envelope, Payload};
use duly::store::operation::{NewEvent, StoreOp};
use duly::store::{MemoryStore, Store};
use duly::time::When;
use duly::{Bus, BusBuilder, ErrorKind, EventId, QueueName, Unique};

fn builder() -> BusBuilder {
    let builder = Bus::builder().only_registered().publish_only();
    builder.settings(Settings::default()).store_url("memory:")
}

#[tokio::test]
async fn a_url_of_what_is_not_compiled_in_names_the_feature() {
    let listen = Settings::from_toml("metrics.listen = '127.0.0.1:0'").unwrap();
    for (builder, feature) in [
        (builder().store_url("sqlite:duly.db"), "embedded"),
        (builder().store_url("redis://127.0.0.1"), "redis"),
        (builder().store_url("rediss-cluster://host"), "redis"),
        (builder().journal_url("sqlite:records.db"), "embedded"),
        (builder().journal_url("postgres://host/records"), "postgres"),
        (builder().settings(listen), "prometheus"),
    ] {
        let error = builder.start().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        let words = format!("is not compiled in; enable the feature `{feature}` of duly");
        assert!(error.to_string().contains(&words), "{error}");
    }
}

#[tokio::test]
async fn a_bus_in_memory_needs_no_feature() {
    let bus = builder().start().await.unwrap();
    let queue = bus.queue_named::<u64>("orders").unwrap();
    queue.push(7, When::Now).await.unwrap();
    bus.shutdown(Duration::from_secs(1)).await.unwrap();
}

/// As an old build meets what a newer one pushes, which has the feature of its codec.
#[tokio::test]
async fn a_payload_in_what_is_not_compiled_in_is_left_to_others() {
    let (store, name) = (MemoryStore::new(), QueueName::new("orders").unwrap());
    let id = EventId::for_name(&name, "one");
    let packed = Payload::from(b"\xFA\x01\0\x07".to_vec());
    let mut envelope = Envelope::new(id, name.clone(), packed);
    envelope.attempts = 3;
    let event = NewEvent {
        envelope: Arc::new(envelope),
        when: When::Now,
        on_taken: Unique::Keep,
    };
    let bucket = BucketKey::new(name, id.bucket());
    let pushed = store.apply(&bucket, StoreOp::Push(vec![event])).await;
    pushed.unwrap();
    let bus = builder().store(store).start().await.unwrap();
    let queue = bus.queue_named::<u64>("orders").unwrap();
    let leased = queue.lease(1, Duration::from_secs(60)).send().await;
    assert!(leased.unwrap().is_empty());
    let stats = async || bus.stats("orders").await.unwrap();
    while stats().await.leased > 0 {
        tokio::task::yield_now().await; // it is being settled
    }
    assert_eq!((stats().await.dead, stats().await.scheduled), (0, 1));
}

/// The packages that a program compiles which asks duly for these features.
fn compiled(features: &str) -> Vec<String> {
    let args = [
        "tree",
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--no-default-features",
    ];
    let tree = Command::new(env!("CARGO"))
        .args(args)
        .args(["--package", "duly", "--features", features])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo");
    assert!(
        tree.status.success(),
        "{}",
        String::from_utf8_lossy(&tree.stderr)
    );
    let tree = String::from_utf8(tree.stdout).expect("names");
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).collect()
}

#[test]
fn each_feature_brings_its_own_packages_and_no_others() {
    let brought = [
        ("rusqlite", "embedded"),
        ("redis", "redis"),
        ("tokio-postgres", "postgres"),
        ("rustls", "tls postgres"),
        ("hyper", "prometheus"),
        ("croner", "schedules"),
        ("jiff", "schedules"),
        ("rmp-serde", "msgpack"),
        ("opentelemetry", "opentelemetry"),
    ];
    for feature in [
        "",
        "embedded",
        "redis",
        "postgres",
        "prometheus",
        "schedules",
        "tls",
        "msgpack",
        "opentelemetry",
        "testing",
    ] {
        let compiled = compiled(feature);
        assert!(compiled.iter().any(|name| name == "duly"), "{compiled:?}");
        for (package, of) in brought {
            let is_wanted = !feature.is_empty() && of.split(' ').any(|one| one == feature);
            let is_there = compiled.iter().any(|name| name == package);
            assert_eq!(is_there, is_wanted, "{package} with feature {feature:?}");
        }
    }
}
