//! What the log says while the server is away.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use duly::time::When;
use tokio::time::{Instant, sleep};
use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

use crate::lines::Lines;
use crate::redis_store::kit::{Read, fresh, pusher, stop, until};
use crate::servers::Redis;

const ALONE: &str = "DULY_TEST_OUTAGE_ALONE";

/// In a process of its own, of which every line of the log is this test's.
#[tokio::test]
async fn a_server_that_is_away_is_logged_when_it_goes_and_when_it_comes_back() {
    if std::env::var_os(ALONE).is_some() {
        return log_of_an_outage().await;
    }
    let name =
        "redis_store::outage::a_server_that_is_away_is_logged_when_it_goes_and_when_it_comes_back";
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child.args(["--exact", name, "--nocapture"]).env(ALONE, "1");
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    assert!(said.contains("1 passed"), "{said}");
}

/// On one thread but for the store's own, whose log goes to the subscriber of the process.
async fn log_of_an_outage() {
    let lines = Lines::default();
    // Where there is one subscriber only, a line that another thread reaches first, which has none,
    // is off for everybody.
    let _second = Dispatch::new(NoSubscriber::default());
    let dispatch = Dispatch::new(Registry::default().with(lines.clone()));
    let _heard_here = tracing::dispatcher::set_default(&dispatch);
    tracing::dispatcher::set_global_default(dispatch.clone()).expect("the only one");
    let mut server = Redis::plain();
    let (url, _) = fresh(&server.url());
    let (read, bus) = Read::start(&url).await;
    let (pushing, queue) = pusher(&url).await;
    let first = queue
        .push("a letter".to_owned(), When::Now)
        .await
        .unwrap()
        .id();
    until("it is handled", async || read.seen().contains_key(&first)).await;
    lines.take();

    server.kill();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(6) {
        let pushes = (0..50).map(|_| queue.push("a letter".to_owned(), When::Now));
        futures_util::future::join_all(pushes).await;
        sleep(Duration::from_millis(10)).await;
    }
    let away = lines.all();
    assert!((1..=24).contains(&away.len()), "{}: {away:#?}", away.len());
    let begins = |line: &&String| line.contains("store outage");
    assert!(away.iter().any(|line| begins(&line)), "{away:#?}");

    server.restart();
    let last = async || match queue.push("a letter".to_owned(), When::Now).await {
        Ok(sent) => Some(sent.id()),
        Err(_) => None,
    };
    let mut id = None;
    until("a push is accepted", async || {
        id = last().await;
        id.is_some()
    })
    .await;
    let id = id.expect("a push");
    until("it is handled", async || read.seen().contains_key(&id)).await;
    // Whatever began has ended; an idle node need not have asked for anything. The mover thread,
    // which is not heard here, logs a call on a bucket whose reply is there at once.
    let ended = async || {
        let lines = lines.all();
        let of = |phrase: &str| -> BTreeSet<String> {
            let these = lines.iter().filter(|line| line.contains(phrase));
            let what = these.filter_map(|line| line.split("what=").nth(1)?.split('"').nth(1));
            what.map(str::to_owned).collect()
        };
        let (began, over) = (of("store outage"), of("store outage ended"));
        let heard = |mut what: BTreeSet<String>| {
            what.remove("operations on buckets");
            what
        };
        began.contains("connections") && began.contains("membership") && heard(began) == heard(over)
    };
    until("the end is logged, with a count", ended).await;
    stop(&pushing).await;
    stop(&bus).await;
    let all = lines.all();
    // On a slow machine the membership may come and go: ten times a minute that is logged.
    let minutes = began.elapsed().as_secs() as usize / 60 + 1;
    assert!(all.len() <= 48 * minutes, "{}: {all:#?}", all.len());
}
