//! Openings that are dropped half way.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use duly::store::RedisStore;

use crate::redis_store::kit::{fresh, until};
use crate::servers::Redis;

/// Polls a future so often at most; returns its result if it has one by then.
pub(crate) async fn polled<F: Future>(future: F, most: usize) -> Option<F::Output> {
    let (mut future, mut polls) = (pin!(future), 0);
    poll_fn(move |cx| {
        if polls == most {
            return Poll::Ready(None);
        }
        polls += 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if polls == most => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Each await of an opening, and one that is complete at the end.
#[tokio::test]
async fn an_opening_that_is_dropped_at_any_await_leaves_no_connection() {
    let server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let clients = || server.cli(&["CLIENT", "LIST"]).lines().count();
    let before = clients();
    for most in 0..10_000 {
        let opened = polled(RedisStore::open(&url), most).await;
        if let Some(opened) = opened {
            opened.expect("the server is there");
            assert!(most > 3, "it awaits nothing");
            return;
        }
        until("its connections end", async || clients() <= before).await;
    }
    panic!("it never opens");
}
