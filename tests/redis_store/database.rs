//! A database that the server does not have.

use duly::ErrorKind;
use duly::store::RedisStore;

use crate::servers::{Redis, RedisOptions};

#[tokio::test]
async fn a_database_that_is_not_there_is_told_with_what_is_possible() {
    let server = Redis::start(RedisOptions {
        tcp: true,
        tls: true,
        ..RedisOptions::default()
    });
    let socket = format!("redis+unix://{}", server.socket().display());
    let authority = server.authority();
    for url in [
        format!("{}/99", server.url()),
        format!("{}/99?ca={}", server.tls_url(), authority.display()),
        format!("{socket}?db=99"),
    ] {
        let error = RedisStore::open(&url).await.expect_err(&url);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url}: {error}");
        let words = error.to_string();
        for part in ["database 99", "numbered from 0", "there are 16 unless"] {
            assert!(words.contains(part), "{url}: {words}");
        }
    }
    let last = format!("{}/15", server.url());
    RedisStore::open(&last).await.expect("there are 16");
}
