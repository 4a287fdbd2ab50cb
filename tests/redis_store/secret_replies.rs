//! Replies to callers of other processes: encrypted in the store if their queue is.

use std::time::Duration;

use duly::Annotation;
use duly::codec::{Key, KeyRing};
use duly::prelude::*;

use super::kit::{builder, fresh, stop};
use crate::servers;

const PATIENCE: Duration = Duration::from_secs(120);
const SECRET: &str = "the balance is 4711";

/// Everything that lies under a prefix.
const CONTENTS: &str = "
    local out = {}
    for _, key in ipairs(redis.call('KEYS', '*' .. ARGV[1] .. '*')) do
      local read = { hash = { 'HGETALL' }, string = { 'GET' }, list = { 'LRANGE', 0, -1 },
        zset = { 'ZRANGE', 0, -1 }, set = { 'SMEMBERS' }, stream = { 'XRANGE', '-', '+' } }
      local by = read[redis.call('TYPE', key).ok]
      local found = redis.call(by[1], key, unpack(by, 2))
      for _, it in ipairs(type(found) == 'table' and found or { found }) do
        out[#out + 1] = type(it) == 'table' and cjson.encode(it) or it
      end
    end
    return table.concat(out, ' ')";

struct Balance;

impl Handler for Balance {
    type Payload = u64;

    async fn handle(&self, _event: Event<u64>, cx: &Context) -> Result<(), Failure> {
        Ok(cx.reply(&SECRET)?)
    }
}

fn keys() -> KeyRing {
    let keys = KeyRing::new();
    keys.add("now", Key::new([7; 32])).unwrap();
    keys.choose("now").unwrap();
    keys
}

/// Calls a handler of another bus; returns whether the reply lies in the store in clear text.
/// `handler`, `caller`: whether the queue encrypts there.
async fn is_shown(handler: bool, caller: bool) -> bool {
    let (url, prefix) = fresh(&servers::shared().url());
    let balances = Annotation::new("shop.balances").buckets(1);
    let handling = builder(&url).keys(keys());
    let handling = handling.register_as(balances.encrypt(handler), Balance);
    let handling = handling.start().await.unwrap();
    let choices = QueueChoices {
        buckets: Some(1),
        encrypt: Some(caller),
        ..QueueChoices::default()
    };
    let calling = builder(&url).keys(keys()).publish_only();
    let calling = calling
        .queue("shop.balances", choices)
        .start()
        .await
        .unwrap();
    let queue = calling.queue_named::<u64>("shop.balances").unwrap();
    assert_eq!(queue.call::<String>(7, PATIENCE).await.unwrap(), SECRET);
    let contents = servers::shared().cli(&["EVAL", CONTENTS, "0", &prefix]);
    assert!(contents.contains("duly.replies"), "{contents}");
    stop(&calling).await;
    stop(&handling).await;
    contents.contains("4711")
}

#[tokio::test]
async fn a_reply_is_encrypted_in_the_store_if_its_queue_or_its_call_is() {
    assert!(
        is_shown(false, false).await,
        "it is looked for in the right place"
    );
    assert!(!is_shown(true, true).await);
    assert!(!is_shown(true, false).await);
    assert!(!is_shown(false, true).await);
}
