//! Unit tests with real servers and a fake one.

#[path = "../../../../../tests/servers/mod.rs"]
pub(in crate::store::redis) mod servers;

mod durable;
mod links;
mod masters;
pub(in crate::store::redis) mod pretend;
mod topologies;

use std::time::Duration;

use redis::{Cmd, Value};

use super::managed::ManagedConnection;
use super::options::ConnectionOptions;
use super::url::Target;

/// Increments, and returns the value.
const COUNT: &str = "return redis.call('INCR', KEYS[1])";

/// Opens a connection to a URL, with its options.
pub(in crate::store::redis) async fn open(url: &str) -> ManagedConnection {
    let target = Target::parse(url).expect(url);
    let link = ManagedConnection::open(&target, &ConnectionOptions::of(&target)).await;
    link.expect(url)
}

/// Builds a call of a script by its hash.
fn call(text: &str, key: &str) -> Cmd {
    let mut call = redis::cmd("EVALSHA");
    call.arg(redis::Script::new(text).get_hash())
        .arg(1)
        .arg(key);
    call
}

pub(in crate::store::redis) fn words(words: &[&str]) -> Cmd {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command
}

async fn count(link: &ManagedConnection, key: &str) -> crate::error::Result<Value> {
    link.run_text(COUNT, &call(COUNT, key)).await
}

/// Retries until it succeeds, as every user of a connection does; returns the errors until then.
async fn until_answered(link: &ManagedConnection, key: &str) -> Vec<crate::error::Error> {
    let mut errors = Vec::new();
    for _ in 0..2_000 {
        match count(link, key).await {
            Ok(_) => return errors,
            Err(error) => errors.push(error),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no answer: {:?}", errors.last());
}
