//! Pages in states that a demo does not have: empty, crowded, with long names, with an outbox, right
//! after an action, and refused.

use duly_outbox::{Database, schema};
use reqwest::Method;
use serde_json::{Value, json};

use super::browser::Browser;
use super::checks::{Sample, browser};
use crate::servers::{Postgres, PostgresOptions};
use crate::world::{Place, Reply, World, until};

/// So many queues are more than a page of them has.
const QUEUES: usize = 65;

async fn send(world: &World, method: Method, path: &str, body: Value) -> Reply {
    let request = world.request(method, &format!("/v1/ns{path}"));
    let request = request.header("Content-Type", "application/json");
    crate::world::reply(request.body(body.to_string())).await
}

/// Pushes an event; returns its id.
async fn push(world: &World, queue: &str, event: Value) -> String {
    let events = json!({"events": [event]});
    let pushed = send(
        world,
        Method::POST,
        &format!("/queues/{queue}/events"),
        events,
    )
    .await;
    let pushed = pushed.is(201);
    pushed[0]["id"].as_str().expect("an id").to_owned()
}

/// Makes a dead letter; returns its id.
async fn bury(world: &World, queue: &str, payload: Value, reason: &str) -> String {
    let id = push(world, queue, json!({"payload": payload})).await;
    let leases = format!("/queues/{queue}/leases");
    let leased = send(world, Method::POST, &leases, json!({"ttr_ms": 30_000})).await;
    let leased = leased.is(200);
    let token = leased[0]["token"].as_str().expect("a lease");
    let bury = json!({"outcome": "bury", "reason": reason});
    let buried = send(
        world,
        Method::POST,
        &format!("/leases/{token}/settle"),
        bury,
    )
    .await;
    buried.is(204);
    id
}

fn address(world: &World) -> String {
    format!("http://{}/dashboard", world.server.admin_address())
}

async fn ends(browser: Browser, world: World, sample: &Sample, found: Vec<String>) {
    browser.close().await;
    world.server.stop().await;
    let seed = sample.seed;
    assert_eq!(found.len(), 0, "DULY_AXE_SEED={seed}\n{}", found.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_of_an_empty_server_and_of_an_outbox_pass_axe() {
    let mut database = Postgres::start(PostgresOptions::default());
    database.sql(schema(Database::Postgres));
    let outbox = format!("[outbox]\nurl = '{}'", database.url());
    let world = World::start_with(Place::Embedded, &outbox).await;
    let url = address(&world);
    let browser = browser().await;
    let mut sample = Sample::of_environment();
    let pages = [
        "/",
        "/queues",
        "/find",
        "/find?q=customer:42",
        "/schedules",
        "/dead",
        "/records",
        "/records?outcome=failed",
        "/history?span=day",
        "/history?span=month",
        "/audit",
        "/audit?actor=nobody",
        "/nodes",
    ];
    let mut found = sample.check(&browser, &url, &pages).await;
    // What a transaction pushed that no queue can have.
    database.sql("select duly_push('ns.mail', '{\"to\": 1}', '0 s', '{\"attempts\": 0}')");
    let sees = async |text: &str| {
        browser.goto(&format!("{url}/")).await;
        browser.sees_now(text).await
    };
    until("the row is put aside", async || sees("is put aside").await).await;
    found.extend(
        sample
            .check_here(&browser, "an outbox with a refused row")
            .await,
    );
    database.kill();
    until("it is away", async || sees("does not answer").await).await;
    found.extend(sample.check_here(&browser, "an outbox that is away").await);
    ends(browser, world, &sample, found).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_of_a_crowd_with_long_names_pass_axe() {
    let world = World::start(Place::Embedded).await;
    for number in 0..QUEUES {
        let event = json!({"payload": number, "delay_ms": 3_600_000});
        push(&world, &format!("q{number}"), event).await;
    }
    // Words that no line can break, as long as they may be.
    let long = "W".repeat(200);
    let text = "Wider_than_a_page_".repeat(60);
    let payload = json!({"note": text, "list": (0..200).collect::<Vec<_>>()});
    let event = json!({
        "payload": payload, "delay_ms": 3_600_000, "key": long, "unique": "u".repeat(200),
        "headers": {"x-note": &text[..250]},
    });
    let waiting = push(&world, &long, event).await;
    let dead = bury(&world, &long, payload, &text).await;
    let schedule = json!({"queue": long, "when": "30 2 * * * Europe/Berlin", "payload": text});
    let name = &long[..190];
    let path = format!("/schedules/{name}");
    let set = send(&world, Method::PUT, &path, schedule).await;
    assert!(set.status.is_success(), "{set:?}");
    let settings = json!({"paused": true, "rate": 0.001});
    let path = format!("/queues/{long}");
    send(&world, Method::PATCH, &path, settings).await.is(204);
    let url = address(&world);
    let browser = browser().await;
    let mut sample = Sample::of_environment();
    let event = |id: &str| format!("/queues/ns.{long}/events/{id}");
    let pages = [
        "/",
        "/queues",
        "/queues?sort=name",
        &format!("/queues/ns.{long}"),
        &event(&waiting),
        &event(&dead),
        &format!("/find?q={long}"),
        &format!("/find?queue=ns.{long}"),
        &format!("/dead?queue=ns.{long}"),
        &format!("/dead/edit?queue=ns.{long}&id={dead}"),
        &format!("/records?queue=ns.{long}"),
        "/schedules",
        &format!("/schedules/ns.{name}"),
        &format!("/history?span=hour&queue=ns.{long}"),
        &format!("/audit?queue=ns.{long}"),
        &format!("/act/cancel-all?queue=ns.{long}&q={long}"),
        &format!("/act/replay?queue=ns.{long}&error={long}"),
        &format!("/act/revive?queue=ns.{long}&id={dead}"),
    ];
    let found = sample.check(&browser, &url, &pages).await;
    ends(browser, world, &sample, found).await;
}

/// What a visitor does: the page, what is entered into which fields, the button, and what is seen then.
type Act<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str, &'a str);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_right_after_an_action_pass_axe_whether_it_was_done_or_refused() {
    let world = World::start(Place::Embedded).await;
    let waiting = push(&world, "mail", json!({"payload": 1, "delay_ms": 3_600_000})).await;
    let dead = bury(&world, "mail", json!({"to": 1}), "refused").await;
    let schedule = json!({"queue": "mail", "when": "@yearly"});
    let set = send(&world, Method::PUT, "/schedules/yearly", schedule).await;
    assert!(set.status.is_success(), "{set:?}");
    let of = |action: &str, id: &str| format!("/act/{action}?queue=ns.mail&id={id}");
    let edit = format!("/dead/edit?queue=ns.mail&id={dead}");
    let [reschedule, cancel, run] = ["reschedule", "cancel", "run-now"].map(|it| of(it, &waiting));
    let acts: [Act<'_>; 18] = [
        (
            "/act/rate?queue=ns.mail",
            &[("#i-rate", "10,5")],
            "Set rate",
            "must be a number",
        ),
        (
            "/act/rate?queue=ns.mail",
            &[("#i-rate", "10")],
            "Set rate",
            "is 10 in a second",
        ),
        (
            &reschedule,
            &[("#i-delay", "-1")],
            "Reschedule",
            "must be 0 to",
        ),
        (&reschedule, &[("#i-delay", "7200")], "Reschedule", "is due"),
        (
            "/act/reschedule-all?queue=ns.mail",
            &[("#i-rate", "0")],
            "Reschedule",
            "must be 0.001",
        ),
        (
            "/act/purge?queue=ns.mail",
            &[("#i-rate", "all")],
            "Cancel",
            "must be a number",
        ),
        (
            "/act/replay?queue=ns.mail",
            &[("#i-version", "v1")],
            "Push",
            "must be a number",
        ),
        (&edit, &[("#payload", "{\"to\": ")], "Revive", "Not done"),
        ("/act/pause?queue=ns.mail", &[], "Pause", "is paused"),
        ("/act/resume?queue=ns.mail", &[], "Resume", "runs again"),
        (
            "/act/pause-schedule?schedule=ns.yearly",
            &[],
            "Pause",
            "is paused",
        ),
        (
            "/act/run-schedule?schedule=ns.yearly",
            &[],
            "Run",
            "has pushed event",
        ),
        (
            &edit,
            &[("#payload", "{\"to\": 2}")],
            "Revive",
            "is ready again",
        ),
        (&cancel, &[], "Cancel", "is cancelled"),
        (&run, &[], "Run", "409"),
        ("/find?since=yesterday", &[], "", "400"),
        ("/queues/none/events/1", &[], "", "40"),
        ("/nowhere", &[], "", "there is no such page"),
    ];
    let url = address(&world);
    let browser = browser().await;
    let mut sample = Sample::of_environment();
    let mut found = Vec::new();
    for (page, entered, button, seen) in acts {
        browser.goto(&format!("{url}{page}")).await;
        for (field, text) in entered {
            let empty = format!("document.querySelector('{field}').value = ''");
            browser.run(&empty).await;
            browser.types(field, text).await;
        }
        if !button.is_empty() {
            browser.press("//main//form", button).await;
        }
        browser.sees(seen).await;
        let name = format!("{page}, {entered:?}, {button}");
        found.extend(sample.check_here(&browser, &name).await);
    }
    ends(browser, world, &sample, found).await;
}
