//! Keys of another version.

use duly::ErrorKind;
use duly::store::RedisStore;
use duly::time::When;

use crate::redis_store::kit::{Bare, fresh};
use crate::servers::Redis;

#[tokio::test]
async fn keys_of_another_format_are_refused_and_not_touched() {
    let server = Redis::plain();
    let (url, prefix) = fresh(&server.url());
    let hub = format!("{prefix}:{{hub}}:hub");
    server.cli(&["HSET", &hub, "format", "5"]);
    let error = RedisStore::open(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let words = error.to_string();
    for part in [&prefix, "format 5", "format 6", "another version"] {
        assert!(words.contains(part), "{words}");
    }
    assert_eq!(server.cli(&["HGETALL", &hub]), "format\n5");
    assert_eq!(server.cli(&["KEYS", "*"]), hub);

    let (url, prefix) = fresh(&server.url());
    let hub = format!("{prefix}:{{hub}}:hub");
    let bare = Bare::open(&url).await;
    assert_eq!(server.cli(&["EXISTS", &hub]), "0", "a look");
    bare.push(bare.new_id(), When::Now).await.unwrap();
    assert_eq!(server.cli(&["HGETALL", &hub]), "format\n6");
}
