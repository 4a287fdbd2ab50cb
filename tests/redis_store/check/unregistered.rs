//! Buckets that the registry does not know, among very many that it knows.

use duly::admin::DamageKind;
use duly::store::{CheckTask, RedisStore, Store};

use crate::redis_store::kit::fresh;
use crate::servers::Redis;

/// More than a check lists, and a few.
const MANY: usize = 10_600;
const FEW: usize = 50;

#[tokio::test]
async fn buckets_that_the_registry_does_not_know_are_found_among_ten_thousand() {
    among(MANY, FEW).await;
}

#[tokio::test]
async fn ten_thousand_buckets_that_the_registry_does_not_know_are_all_registered() {
    among(FEW, MANY).await;
}

async fn among(known: usize, unknown: usize) {
    let server = Redis::plain();
    let (url, prefix) = fresh(&server.url());
    let store = RedisStore::open(&url).await.expect("a store");
    let script = "for i = 1, ARGV[2] + ARGV[3] do \
                      local bucket = 'letters:' .. i \
                      redis.call('HSET', ARGV[1] .. ':{' .. bucket .. '}:body', 'id', 'a letter') \
                      if i <= tonumber(ARGV[2]) then \
                          redis.call('RPUSH', ARGV[1] .. ':{hub}:registry', 'a token ' .. bucket) \
                          redis.call('SADD', ARGV[1] .. ':{hub}:registered', bucket) \
                      end \
                  end";
    let counts = [known, unknown].map(|count| count.to_string());
    server.cli(&["EVAL", script, "0", &prefix, &counts[0], &counts[1]]);
    for (repairs, expected) in [(true, unknown), (false, 0)] {
        let found = store.check_store(CheckTask::new(repairs)).await;
        let found = found.expect("a check").into_iter();
        let found = found.filter(|damage| damage.kind == DamageKind::Unregistered);
        // Of those beyond ten thousand one is listed.
        assert_eq!(found.count(), expected.min(10_001), "repairs: {repairs}");
    }
    let buckets = store.buckets().await.expect("the registry");
    assert_eq!(buckets.len(), known + unknown);
}
