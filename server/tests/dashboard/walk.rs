//! What an operator is asked most, by a telephone, a tablet and at a desk: each is found from the first
//! page by what is seen.

use reqwest::Method;
use serde_json::{Value, json};

use super::browser::Browser;
use crate::test_clock::advance;
use crate::world::{Reply, World};

const HOUR_MS: u64 = 3_600_000;

async fn send(world: &World, method: Method, path: &str, body: &Value) -> Reply {
    let request = world.request(method, path);
    let request = request.header("Content-Type", "application/json");
    crate::world::reply(request.body(body.to_string())).await
}

/// Fills a store: three jobs were done yesterday, one queue is paused, customers wait.
async fn fill(world: &World) {
    for _ in 0..3 {
        world.publish("/api/ns/mail", "{}").await;
        let job = world.consume("/api/ns/mail?timeout=5").await;
        let id = job["job_id"].as_str().expect("an id");
        let done = world.delete(&format!("/api/ns/mail/job/{id}")).await;
        done.is(204);
    }
    advance(world, json!({"by_ms": 30 * HOUR_MS})).await;
    for queue in ["mail", "reminders"] {
        for customer in [41, 42, 421] {
            let event = json!({"payload": {"customer": customer}, "delay_ms": HOUR_MS,
                               "key": format!("customer:{customer}")});
            let path = format!("/v1/ns/queues/{queue}/events");
            let events = json!({"events": [event]});
            let pushed = send(world, Method::POST, &path, &events).await;
            pushed.is(201);
        }
    }
    let pause = json!({"paused": true});
    let paused = send(world, Method::PATCH, "/v1/ns/queues/reminders", &pause).await;
    paused.is(204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_with_a_telephone_finds_what_is_asked() {
    finds_what_is_asked(("light", 390, 844), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_with_a_tablet_finds_what_is_asked() {
    finds_what_is_asked(("dark", 768, 1024), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_with_a_keyboard_alone_finds_what_is_asked() {
    finds_what_is_asked(("light", 1440, 900), true).await;
}

/// Who has a token sees the queues of a namespace, and the history of one at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_logs_in_by_a_token_finds_what_is_asked() {
    let world = World::start_manual_with_account().await;
    fill(&world).await;
    let browser = Browser::start().await;
    browser.looks("light", 390, 844).await;
    let first = format!("http://{}/dashboard/", world.server.admin_address());
    browser.goto(&first).await;
    browser.types("#name", "ns").await;
    browser
        .types("#secret", &format!("{}\n", world.token))
        .await;
    walk(
        &world,
        &browser,
        async |within, text| browser.press(within, text).await,
        true,
    )
    .await;
    browser.close().await;
    world.server.stop().await;
}

async fn finds_what_is_asked((scheme, width, height): (&str, u32, u32), by_keyboard: bool) {
    let world = World::start_manual().await;
    fill(&world).await;
    let browser = Browser::start().await;
    browser.looks(scheme, width, height).await;
    let press = async |within: &str, text: &str| {
        if by_keyboard {
            browser.press_by_key(within, text).await;
        } else {
            browser.press(within, text).await;
        }
    };
    let first = format!("http://{}/dashboard/", world.server.admin_address());
    browser.goto(&first).await;
    walk(&world, &browser, press, false).await;
    browser.close().await;
    world.server.stop().await;
}

/// Walks to each answer, from the first page.
async fn walk(world: &World, browser: &Browser, press: impl AsyncFn(&str, &str), sees_some: bool) {
    // Who paused the queue.
    browser.sees("ns.reminders is paused").await;
    let paused = "//li[contains(., 'reminders is paused')]";
    press(paused, "Open queue").await;
    browser.sees("No handler of it starts").await;
    press("//main", "Who paused it").await;
    browser.sees("queue paused").await;
    let line = browser
        .run("return document.querySelector('main tbody tr').textContent")
        .await;
    let line = line.as_str().expect("a line");
    assert!(line.contains("sha256~"), "the handle of a token: {line}");
    assert!(line.contains("ns.reminders"), "{line}");

    // The throughput of yesterday, and what was done then.
    if sees_some {
        press("//nav", "Queues").await;
        press("//main", "ns.mail").await;
        press("//main", "History of this queue").await;
        browser.sees("ns.mail, ").await;
    } else {
        press("//nav", "History").await;
        browser.sees("All queues").await;
    }
    assert_eq!(total(browser, "Done").await, "0");
    press("//main", "Earlier").await;
    browser.sees("Peak").await;
    assert_eq!(total(browser, "Done").await, "3");
    press("//dt[.='Peak']/following-sibling::dd", "").await;
    browser.sees("Succeeded").await;

    // The event of customer 42, while it waits.
    browser.types("header #find", "customer:42\n").await;
    browser.sees("Cancel those that match").await;
    let keys = "return [...document.querySelectorAll('td[data-label=Key]')]\
                .map(it => it.textContent).join()";
    assert_eq!(browser.run(keys).await, "customer:42,customer:42");
    press("//tbody/tr[1]/th", "").await;
    browser.sees("customer:42").await;
    browser.sees("Due").await;
    browser.page.back().await.expect("the page before");

    // All of the customer are cancelled, and nothing of another.
    press("//main", "Cancel those that match").await;
    browser.sees("2 events match.").await;
    let focus = "return document.activeElement.id";
    assert_eq!(
        browser.run(focus).await,
        "question",
        "it is read out at once"
    );
    press("//main//form", "Cancel").await;
    browser.sees("2 so far, done").await;
    for queue in ["mail", "reminders"] {
        let path = format!("/v1/ns/queues/{queue}");
        let left = send(world, Method::GET, &path, &Value::Null).await.is(200);
        assert_eq!(left["scheduled"], 2, "{left}");
    }
}

/// Returns a total of the page.
async fn total(browser: &Browser, name: &str) -> String {
    let script = format!(
        "return [...document.querySelectorAll('.totals div')]\
         .find(it => it.querySelector('dt').textContent === '{name}')\
         .querySelector('dd').textContent"
    );
    let total = browser.run(&script).await;
    total.as_str().expect("a text").to_owned()
}
