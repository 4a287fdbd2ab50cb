//! A bucket that was closed by an id from the future, before such ids were refused.

use crate::redis_store::kit::{fresh, pusher, stop};
use crate::servers::Redis;
use duly::time::When;

#[tokio::test]
async fn a_bucket_that_was_closed_by_an_id_from_the_future_heals_with_the_next_push() {
    let server = Redis::plain();
    let (url, prefix) = fresh(&server.url());
    let (bus, queue) = pusher(&url).await;
    queue.push("before".to_owned(), When::Now).await.unwrap();
    let meta = format!("{prefix}:{{letters:0}}:meta");
    let year_5344 = "106500000000000";
    assert_eq!(server.cli(&["EXISTS", &meta]), "1", "that is its key");
    server.cli(&["HSET", &meta, "forgotten", year_5344]);

    for number in 0..10 {
        let sent = queue
            .push(format!("after {number}"), When::Now)
            .await
            .unwrap();
        assert!(sent.is_accepted());
    }
    let sent = queue
        .push_many(vec!["many".to_owned(); 10], std::time::Duration::ZERO)
        .await;
    assert_eq!(sent.unwrap().len(), 10);
    assert_ne!(server.cli(&["HGET", &meta, "forgotten"]), year_5344);
    stop(&bus).await;
}
