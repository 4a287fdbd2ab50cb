//! The page of the audit, as a token sees it.

use duly::Bus;
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::access::visit;
use crate::servers::Redis;
use crate::v1::cost::counted;
use crate::world::{Place, World, reply};

/// Where its pages end says nothing of lines that a token may not see.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_the_audit_ends_by_the_lines_that_are_seen() {
    let world = World::start(Place::Embedded).await;
    let [narrow, many] = ["mail", "m*"].map(|it| format!("&queues={it}&scopes=consume,admin"));
    let narrow = world.new_token("ns", &narrow).await;
    let many = world.new_token("ns", &many).await;
    let send = async |method: Method, path: &str, body: Value| {
        let request = world.request(method, &format!("/v1/ns/{path}"));
        let request = request.header("Content-Type", "application/json");
        let done = reply(request.body(body.to_string())).await;
        assert!(done.status.is_success(), "{done:?}");
    };
    let pause = async |queue: &str, times: usize| {
        for it in 0..times {
            let paused = json!({"paused": it % 2 == 0});
            send(Method::PATCH, &format!("queues/{queue}"), paused).await;
        }
    };
    pause("mail", 2).await;
    pause("payroll", 60).await;
    pause("mail", 1).await;
    pause("more", 50).await;
    send(Method::POST, "events/erase", json!({"key": "k"})).await;
    let read = async |token: &str, path: &str| {
        let page = visit(&world, Method::GET, path, Some(("ns", token)), &[]).await;
        let text = page.text;
        let next = text.split_once("before=").map(|(_, next)| {
            let next = next.split(['"', '&']).next().unwrap();
            format!("/audit?before={next}")
        });
        let count = |what: &str| text.matches(what).count();
        (
            [
                count("queue paused") + count("queue resumed"),
                count("ns.payroll"),
            ],
            count("erase"),
            next,
        )
    };
    let all = async |token: &str| {
        let (mut lines, mut path) = (Vec::new(), Some("/audit".to_owned()));
        while let Some(page) = path {
            let ([own, others], _, next) = read(token, &page).await;
            assert_eq!(others, 0, "{page}");
            lines.push(own);
            path = next;
        }
        lines
    };
    assert_eq!(all(&narrow).await, [3]);
    assert_eq!(all(&many).await, [50, 3]);
    let (_, erased, next) = read(&world.token, "/audit").await;
    assert!(erased > 0 && next.is_some(), "{erased} {next:?}");
    // Who sees the whole namespace sees in a queue what was done to all of them.
    let of_mail = "/audit?queue=ns.mail";
    let (_, erased, _) = read(&world.token, of_mail).await;
    assert!(erased > 0, "{erased}");
    assert_eq!(read(&narrow, of_mail).await, ([3, 0], 0, None));
    world.server.stop().await;
}

/// What is hidden is read as often as what is seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_the_audit_reads_lines_that_are_hidden_once() {
    let redis = Redis::plain();
    let folder = tempfile::tempdir().unwrap();
    let world = World::start_at(folder, redis.url(), "").await;
    let narrow = "&queues=mail&scopes=consume,admin";
    let narrow = world.new_token("ns", narrow).await;
    let bus = Bus::builder().store_url(redis.url()).only_registered();
    let bus = bus.publish_only().start().await.unwrap();
    bus.add_to_audit("ann", "paused", "ns.mail").await.unwrap();
    for _ in 0..40 {
        let lines = (0..100).map(|_| bus.add_to_audit("ann", "paused", "ns.payroll"));
        assert!(join_all(lines).await.iter().all(Result::is_ok));
    }
    bus.shutdown(std::time::Duration::from_secs(5))
        .await
        .unwrap();
    let read = async |token: &str| {
        for _ in 0..20 {
            let before = counted(&redis);
            let page = visit(&world, Method::GET, "/audit", Some(("ns", token)), &[]).await;
            let rows = page.text.matches("data-label=\"Who\"").count();
            // A busy machine may take longer than a page waits for the store.
            if rows > 0 {
                return (rows, counted(&redis) - before);
            }
        }
        panic!("no page of it");
    };
    let (rows, few) = read(&world.token).await;
    assert_eq!(rows, 50);
    // All of them are of one day: who has seen that has seen them.
    let (rows, all) = read(&narrow).await;
    assert_eq!(rows, 1);
    assert!(
        all < few * 3 / 2,
        "{all} bytes, and {few} of one that sees them"
    );
    world.server.stop().await;
}
