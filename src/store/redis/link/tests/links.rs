//! Tests of a connection through failures of its server.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::servers::{Proxy, Redis, RedisOptions};
use super::{COUNT, call, count, open, until_answered, words};
use crate::error::ErrorKind;

fn tcp() -> RedisOptions {
    RedisOptions {
        tcp: true,
        ..RedisOptions::default()
    }
}

#[tokio::test]
async fn a_script_that_the_server_forgot_is_given_to_it_again() {
    let server = Redis::plain();
    let link = open(&server.url()).await;
    for number in 1..=3 {
        server.cli(&["SCRIPT", "FLUSH"]);
        let reply = count(&link, "k").await.expect("it runs");
        assert_eq!(reply, redis::Value::Int(number));
    }
}

#[tokio::test]
async fn a_server_that_was_killed_and_comes_back_is_found_again_by_itself() {
    let mut server = Redis::start(tcp());
    let link = open(&server.url()).await;
    count(&link, "k").await.expect("it runs");
    let made = link.connections();

    server.kill();
    for _ in 0..5 {
        // The end of an idle connection is detected, or by this call.
        let error = count(&link, "k").await.expect_err("nobody is there");
        let kinds = [ErrorKind::Unavailable, ErrorKind::Unknown];
        assert!(kinds.contains(&error.kind()), "{error}");
    }
    let error = count(&link, "k").await.expect_err("nobody is there");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("cannot be reached"), "{error}");

    server.restart();
    for error in until_answered(&link, "k").await {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    assert!(
        made.has_changed().expect("the link lives"),
        "nobody was told"
    );
}

#[tokio::test]
async fn whoever_waits_for_an_answer_is_told_at_once_that_it_will_not_come() {
    let mut server = Redis::start(tcp());
    let link = open(&server.url()).await;
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            let link = link.clone();
            tokio::spawn(async move { link.send(&words(&["BLPOP", "nothing", "0"])).await })
        })
        .collect();
    while !server.cli(&["CLIENT", "LIST"]).contains("cmd=blpop") {
        tokio::task::yield_now().await;
    }
    let began = Instant::now();
    server.kill();
    for call in waiting {
        let error = call.await.expect("no panic").expect_err("nobody answers");
        assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    }
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn a_server_that_hangs_holds_nobody_up_for_longer_than_an_answer_may_take() {
    let server = Redis::start(tcp());
    let url = format!("{}?timeout=400ms&connect_timeout=100ms", server.url());
    let link = open(&url).await;
    let made = *link.connections().borrow();

    server.stop_process();
    for attempt in 0..6 {
        let began = Instant::now();
        let error = count(&link, "k").await.expect_err("nobody answers");
        // After three such calls the connection is dropped, and nothing can be sent at all.
        let kind = match attempt {
            0..3 => ErrorKind::Unknown,
            _ => ErrorKind::Unavailable,
        };
        assert_eq!(error.kind(), kind, "{attempt}: {error}");
        assert!(
            began.elapsed() < Duration::from_millis(800),
            "{:?}",
            began.elapsed()
        );
    }
    server.cont();
    until_answered(&link, "k").await;
    assert!(
        *link.connections().borrow() > made,
        "the connection was kept"
    );
}

#[tokio::test]
async fn one_late_answer_does_not_cost_the_connection() {
    let server = Redis::start(tcp());
    let link = open(&format!("{}?timeout=300ms", server.url())).await;
    let made = *link.connections().borrow();
    for _ in 0..4 {
        server.stop_process();
        let error = count(&link, "k").await.expect_err("nobody answers");
        assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
        server.cont();
        until_answered(&link, "k").await;
    }
    assert_eq!(*link.connections().borrow(), made);
}

#[tokio::test]
async fn a_caller_that_stops_waiting_disturbs_nobody() {
    let server = Redis::plain();
    let link = open(&server.url()).await;
    let made = *link.connections().borrow();
    for number in 0..500_u64 {
        let text = format!("abandoned {number}");
        let abandoned = words(&["ECHO", &text]);
        let patience = Duration::from_micros(number % 200);
        let _ = timeout(patience, link.send(&abandoned)).await;
        let text = number.to_string();
        let reply = link
            .send(&words(&["ECHO", &text]))
            .await
            .expect("it answers");
        assert_eq!(reply, redis::Value::BulkString(text.into_bytes()));
    }
    assert_eq!(*link.connections().borrow(), made);
}

#[tokio::test]
async fn everybody_waits_for_the_same_attempt() {
    let server = Redis::start(tcp());
    let proxy = Proxy::before(server.address());
    let link = open(&proxy.url()).await;
    count(&link, "k").await.expect("it runs");
    let before = proxy.counts().connections;
    proxy.cut_all();
    // The first call may be the one that detects it.
    let _ = count(&link, "k").await;
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let link = link.clone();
            tokio::spawn(async move { count(&link, "k").await })
        })
        .collect();
    for call in calls {
        call.await.expect("no panic").expect("it runs");
    }
    assert_eq!(proxy.counts().connections, before + 1);
}

#[tokio::test]
async fn a_connection_that_is_cut_before_or_after_the_server_did_it_is_unknown() {
    use super::servers::Fault;
    let server = Redis::start(tcp());
    for (fault, happened) in [
        (Fault::CutBefore, 0),
        (Fault::CutAfter, 1),
        (Fault::CutWithin, 1),
    ] {
        let proxy = Proxy::before(server.address());
        let link = open(&proxy.url()).await;
        server.cli(&["DEL", "k"]);
        proxy.on_request(move |piece| piece.windows(4).any(|w| w == b"INCR").then_some(fault));
        let error = link
            .send(&words(&["INCR", "k"]))
            .await
            .expect_err("it is cut");
        assert_eq!(error.kind(), ErrorKind::Unknown, "{fault:?}: {error}");
        proxy.heal();
        let value: i64 = server.cli(&["GET", "k"]).parse().unwrap_or(0);
        assert_eq!(value, happened, "{fault:?}");
        until_answered(&link, "k").await;
    }
}

#[tokio::test]
async fn attempts_on_a_server_that_is_gone_grow_rare() {
    let server = Redis::start(tcp());
    let proxy = Proxy::before(server.address());
    let link = open(&proxy.url()).await;
    proxy.refuse(true);
    proxy.cut_all();
    let before = proxy.counts().refused;
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(1_000) {
        let _ = count(&link, "k").await;
    }
    let attempts = proxy.counts().refused - before;
    assert!(
        (3..=12).contains(&attempts),
        "{attempts} attempts in a second"
    );
}

#[tokio::test]
async fn a_server_that_ends_each_connection_at_once_is_not_asked_in_a_tight_loop() {
    let server = Redis::start(tcp());
    let proxy = Proxy::before(server.address());
    let link = open(&proxy.url()).await;
    let cut = super::servers::Fault::CutBefore;
    proxy.on_request(move |piece| piece.windows(4).any(|w| w == b"EVAL").then_some(cut));
    let before = proxy.counts().connections;
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(1_000) {
        let _ = count(&link, "k").await;
    }
    let attempts = proxy.counts().connections - before;
    assert!(
        (3..=14).contains(&attempts),
        "{attempts} attempts in a second"
    );
}

#[tokio::test]
async fn a_closed_link_says_so() {
    let server = Redis::plain();
    let link = open(&server.url()).await;
    let other = link.clone();
    link.close();
    let error = count(&other, "k").await.expect_err("it is closed");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    let wait = super::super::managed::durable::DurabilityWait {
        disk: false,
        replicas: 1,
        timeout: Duration::from_millis(1),
    };
    let error = other
        .run_text_durably(COUNT, &call(COUNT, "k"), wait)
        .await
        .expect_err("it is closed");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}

#[tokio::test]
async fn a_connection_that_is_not_logged_in_any_more_is_made_again_also_in_a_cluster() {
    use super::pretend::{self, Act};
    for reply in [
        "-NOAUTH Authentication required.\r\n",
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
        "-DENIED Redis is running in protected mode\r\n",
        "-ERR max number of clients reached\r\n",
    ] {
        for is_cluster in [false, true] {
            let acts = vec![Act::SayToOld(reply)];
            let url = if !is_cluster {
                pretend::server(acts[0].clone()).await
            } else {
                pretend::cluster(acts).await
            };
            let link = open(&url).await;
            let error = count(&link, "k").await.expect_err(reply);
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{reply}");
            until_answered(&link, "k").await;
        }
    }
}

#[tokio::test]
async fn an_idle_connection_that_was_forgotten_is_replaced_before_it_is_used() {
    use super::super::managed::ManagedConnection;
    use super::super::options::ConnectionOptions;
    use super::super::url::Target;
    let server = Redis::start(tcp());
    let proxy = Proxy::before(server.address());
    let target = Target::parse(&proxy.url()).expect("a URL");
    let options = ConnectionOptions {
        probe_every: Duration::from_millis(50),
        connect_timeout: Duration::from_millis(300),
        ..ConnectionOptions::of(&target)
    };
    let link = ManagedConnection::open(&target, &options).await;
    let link = link.expect("it opens");
    count(&link, "k").await.expect("it runs");
    let mut made = link.connections();
    made.mark_unchanged();
    proxy.forget_all();
    let replaced = timeout(Duration::from_secs(60), made.changed()).await;
    replaced.expect("it is replaced").expect("the link lives");
    proxy.take_swallowed();
    count(&link, "k").await.expect("it runs");
    let lost = proxy.take_swallowed();
    assert!(lost.is_empty(), "{lost:?}");
}
