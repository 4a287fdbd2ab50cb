//! A store that is opened while sentinels have not agreed on a master yet.

use std::pin::pin;
use std::time::Duration;

use duly::ErrorKind;
use duly::store::RedisStore;
use tokio::time::Instant;

use crate::servers::Sentinels;

#[tokio::test]
async fn a_store_opens_in_the_middle_of_a_failover() {
    let mut sentinels = Sentinels::start();
    sentinels.notice_nothing();
    let old = sentinels.kill_master();
    let url = sentinels.url();
    let began = Instant::now();
    let store = {
        let mut opening = pin!(RedisStore::open(&url));
        let waits = tokio::time::timeout(Duration::from_secs(1), &mut opening).await;
        assert!(waits.is_err(), "there is no master, and nobody has noticed");
        sentinels.take_over();
        opening.await
    };
    let store = match store {
        Ok(store) => store,
        // It has waited for as long as it waits; then a slow machine may have its new master.
        Err(error) => {
            assert!(began.elapsed() >= Duration::from_secs(9), "{error}");
            sentinels.wait_for_another_than(old);
            RedisStore::open(&url).await.expect("there is a master")
        }
    };
    assert_eq!(store.audit_whole().await.expect("it answers"), [""; 0]);
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
    let least = Duration::from_secs(9);
    assert!(took >= least, "{took:?}");

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
    assert!(began.elapsed() < took, "that is no failover");
}
