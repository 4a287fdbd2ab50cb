//! Buckets that the registry does not know, alone and among very many that it knows.

use duly::admin::{Damage, DamageKind};
use duly::store::{CheckTask, RedisStore, Store};

use crate::redis_store::kit::{Bare, fresh};
use crate::servers::{Redis, shared, shared_cluster};

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

#[tokio::test]
async fn a_bucket_that_the_registry_does_not_know_is_registered() {
    for url in [shared().url(), shared_cluster()] {
        let (url, prefix) = fresh(&url);
        let bare = Bare::open(&url).await;
        let id = bare.push_with(|_| ()).await;
        // Another process each time, which has never heard of the bucket.
        let found = async |repairs: bool| {
            let store = RedisStore::open(&url).await.unwrap();
            let found = store.check_store(CheckTask::new(repairs)).await.unwrap();
            let of = |damage: &Damage| damage.kind == DamageKind::Unregistered;
            let found: Vec<_> = found.into_iter().filter(of).collect();
            let buckets = store.buckets().await.unwrap();
            store.close().await.unwrap();
            (found, buckets)
        };
        assert_eq!(found(false).await.0, [], "all are registered");
        forget_registry(&url, &prefix).await;
        let (lost, buckets) = found(false).await;
        assert_eq!((lost.len(), buckets.len()), (1, 0), "{url}");
        assert_eq!(lost[0].bucket.as_ref(), Some(&bare.bucket));
        let (repaired, buckets) = found(true).await;
        assert!(repaired.len() == 1 && repaired[0].repaired);
        assert_eq!(buckets, std::slice::from_ref(&bare.bucket));
        assert_eq!(found(false).await.0, []);
        assert_eq!(bare.fetch(1, 10).await.unwrap(), [id]);
    }
}

/// Deletes the registry, as somebody might by hand.
async fn forget_registry(url: &str, prefix: &str) {
    let keys = ["registry", "registered", "members"].map(|part| format!("{prefix}:{{hub}}:{part}"));
    let mut delete = redis::cmd("DEL");
    let delete = delete.arg(&keys);
    let plain = url.split('?').next().unwrap();
    let deleted: u64 = match plain.strip_prefix("redis-cluster://") {
        None => {
            let client = redis::Client::open(plain).unwrap();
            let connection = client.get_multiplexed_async_connection().await;
            delete.query_async(&mut connection.unwrap()).await.unwrap()
        }
        Some(nodes) => {
            let nodes = nodes.split(',').map(|node| format!("redis://{node}"));
            let client = redis::cluster::ClusterClient::new(nodes.collect::<Vec<_>>()).unwrap();
            let connection = client.get_async_connection().await;
            delete.query_async(&mut connection.unwrap()).await.unwrap()
        }
    };
    assert!(deleted > 0, "{keys:?}");
}
