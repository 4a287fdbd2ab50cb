//! `Queue::call` of a process that only pushes: the handler is in another process.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use duly::prelude::*;
use duly::{Annotation, Queue};

use super::kit::{builder, fresh};
use crate::servers;

const URL: &str = "DULY_TEST_CALLED_URL";
const SUMS: Annotation = Annotation::new("shop.sums").buckets(1);
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Adds one, replies nothing to 0, fails on 13, and replies too much to 14.
struct AddOne;

impl Handler for AddOne {
    type Payload = u64;

    async fn handle(&self, event: Event<u64>, cx: &Context) -> Result<(), Failure> {
        match event.payload {
            0 => Ok(()),
            13 => Err(Failure::permanent("unlucky")),
            14 => Ok(cx.reply(&"x".repeat(2 << 20))?),
            number => Ok(cx.reply(&(number + 1))?),
        }
    }
}

/// The other process, which handles until it is killed.
struct Handling(Child);

impl Handling {
    fn start(url: &str) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "redis_store::call::a_process_handles_calls"])
            .env(URL, url)
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// What the other process runs; without a URL it has nothing to do.
#[tokio::test]
async fn a_process_handles_calls() {
    let Ok(url) = std::env::var(URL) else {
        assert_eq!(SUMS.queue, "shop.sums");
        return;
    };
    let handling = builder(&url).register_as(SUMS, AddOne).start().await;
    let _bus = handling.unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_publish_only_process_calls_a_handler_of_another_process() {
    let (url, _) = fresh(&servers::shared().url());
    let _handling = Handling::start(&url);
    let bus = builder(&url).publish_only().start().await.unwrap();
    let sums: Queue<u64> = bus.queue_named("shop.sums").unwrap();
    let calls = (1..=10).map(|number| {
        let sums = sums.clone();
        async move { sums.call::<u64>(number, PATIENCE).await.unwrap() }
    });
    let mut calls: Vec<_> = calls.map(tokio::spawn).collect();
    for (number, call) in (1..).zip(&mut calls) {
        let number: u64 = number;
        assert_eq!(call.await.unwrap(), number + 1);
    }
    sums.call::<()>(0, PATIENCE).await.unwrap();
    let error = sums.call::<u64>(13, PATIENCE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("unlucky"), "{error}");
    let error = sums.call::<Option<String>>(14, PATIENCE).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        error.to_string().contains("reply cannot be stored"),
        "{error}"
    );
    let error = sums.call::<String>(1, PATIENCE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    // Replies are never handled, and expire.
    let replies = bus.stats("shop.duly.replies").await.unwrap();
    assert_eq!((replies.scheduled, replies.ready), (11, 0));
    bus.shutdown(Duration::from_secs(5)).await.unwrap();
}
