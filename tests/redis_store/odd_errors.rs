//! What proxies and managed services answer instead of a server: none of it is for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duly::ErrorKind;
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use crate::redis_store::kit::{Pair, until};
use crate::servers::{Address, Fault, Redis, RedisOptions};

/// As they stand in the sources, the manuals and the complaints of users of each.
const ERRORS: &[&str] = &[
    // twemproxy: the text of whatever `errno` its server connection had
    "-ERR Connection timed out\r\n",
    "-ERR Connection refused\r\n",
    "-ERR Connection reset by peer\r\n",
    // Envoy
    "-ERR upstream failure\r\n",
    "-upstream failure\r\n",
    "-no upstream host\r\n",
    // codis and predixy
    "-ERR handle response, backend conn reset\r\n",
    "-ERR slot is not ready, may be offline\r\n",
    "-ERR server connection close\r\n",
    "-ERR no server available\r\n",
    // the proxies of clouds
    "-ERR redis temporary failure\r\n",
    "-ERR proxy fatal error\r\n",
    "-ERR command is not available in current state\r\n",
    "-ERR Server is overloaded\r\n",
    "-ERR max daily request limit exceeded. Limit: 10000, Usage: 10000.\r\n",
    "-ERR max concurrent connections exceeded\r\n",
    "-ERR max number of clients reached\r\n",
    "-NOPROTO sorry, this protocol version is not supported.\r\n",
    "-NOAUTH Authentication required.\r\n",
    "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
    // Dragonfly, KeyDB, and Redis in the middle of something
    "-LOADING Dragonfly is loading the dataset in memory\r\n",
    "-BUSY Redis is busy running a script. You can only call SCRIPT KILL.\r\n",
    "-UNBLOCKED force unblock from blocking operation, instance state changed\r\n",
    "-MISCONF Redis is configured to save RDB snapshots, but it's unable to persist\r\n",
    "-ERR unknown command 'EVALSHA', with args beginning with: \r\n",
    "-ERR syntax error\r\n",
    "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
    "-CROSSSLOT Keys in request don't hash to the same slot\r\n",
    "-SOMETHING that nobody has heard of\r\n",
];

/// Whether a piece is the greeting of a connection.
fn greets(piece: &[u8]) -> bool {
    let has = |word: &[u8]| piece.windows(word.len()).any(|part| part == word);
    has(b"HELLO") || has(b"CLIENT")
}

/// Handles events before and after every call was answered with `error`, also where even the
/// greeting is.
async fn goes_on_after(server: &Address, error: &'static str, at_greeting: bool) {
    let pair = Pair::before(server.clone()).await;
    let (proxy, read) = (&pair.proxy, &pair.read);
    let delayed = pair
        .queue
        .push("late".to_owned(), Duration::from_millis(100))
        .await;
    let delayed = delayed.expect("a push").id();

    let said = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&said);
    proxy.refuse(true);
    proxy.cut_all();
    proxy.on_request(move |piece| {
        if greets(piece) && !at_greeting {
            return None;
        }
        count.fetch_add(1, Ordering::Relaxed);
        Some(Fault::Say(error))
    });
    proxy.refuse(false);
    let refused = pair.push().await.expect_err("nobody has taken it");
    let may = [
        ErrorKind::Unknown,
        ErrorKind::Unavailable,
        ErrorKind::Invalid,
        ErrorKind::Corrupt,
    ];
    assert!(may.contains(&refused.kind()), "{error}: {refused}");
    until(error, async || said.load(Ordering::Relaxed) >= 10).await;
    proxy.heal();

    // A bucket that is refused for long rests for up to half a minute.
    let began = Instant::now();
    while !read.seen().contains_key(&delayed) {
        let waited = began.elapsed();
        assert!(waited < Duration::from_secs(60), "{error}: {waited:?}");
        sleep(Duration::from_millis(5)).await;
    }
    let again = async || pair.push().await.is_ok();
    until(error, again).await;
    pair.until_handled(pair.push().await.expect("a push")).await;
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_of_a_proxy_stops_a_bucket_for_ever() {
    let server = Redis::start(RedisOptions {
        tcp: true,
        ..RedisOptions::default()
    });
    let address = server.address();
    for chunk in ERRORS.chunks(8) {
        let cases = [false, true].into_iter();
        let cases = cases.flat_map(|at| chunk.iter().map(move |error| (*error, at)));
        join_all(cases.map(|(error, at)| goes_on_after(&address, error, at))).await;
    }
}
