//! A store that is opened while sentinels have not agreed on a master yet.

use std::time::Duration;

use duly::ErrorKind;
use duly::store::RedisStore;
use tokio::time::Instant;

use crate::servers::Sentinels;

#[tokio::test]
async fn a_store_opens_in_the_middle_of_a_failover() {
    let mut sentinels = Sentinels::start();
    let old = sentinels.kill_master();
    assert_eq!(sentinels.master(), old, "nobody has noticed yet");
    let store = RedisStore::open(&sentinels.url()).await;
    let store = store.expect("it waits for the new master");
    assert_eq!(store.audit().await.expect("it answers"), [""; 0]);
    assert_ne!(sentinels.master(), old);
}

#[tokio::test]
async fn a_master_that_never_comes_back_is_told_after_some_seconds() {
    let mut sentinels = Sentinels::start();
    sentinels.kill_servers();
    let began = Instant::now();
    let error = RedisStore::open(&sentinels.url()).await;
    let error = error.expect_err("there is no server");
    let took = began.elapsed();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("mymaster"), "{error}");
    let (least, most) = (Duration::from_secs(9), Duration::from_secs(30));
    assert!((least..most).contains(&took), "{took:?}");

    let (hosts, _) = sentinels
        .url()
        .rsplit_once('/')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .expect("a name");
    let began = Instant::now();
    let error = RedisStore::open(&format!("{hosts}/other")).await;
    let error = error.expect_err("nobody knows that name");
    assert!(
        error.to_string().contains("no master of this name"),
        "{error}"
    );
    assert!(began.elapsed() < least, "that is no failover");
}
