//! The clock of a test server: it stands still until it is moved, and then everything happens in
//! its order.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use reqwest::Method;
use serde_json::{Value, json};

use crate::commands::duly;
use crate::world::{Place, World, reply, until};

pub(crate) const MINUTE_MS: u64 = 60_000;
pub(crate) const QUEUE: &str = "/v1/ns/queues/q";

pub(crate) async fn post(world: &World, path: &str, body: Value) -> Value {
    let request = world.request(Method::POST, path);
    let request = request.header("Content-Type", "application/json");
    let reply = reply(request.body(body.to_string())).await;
    assert!(reply.status.is_success(), "{reply:?}");
    match reply.text.as_str() {
        "" => Value::Null,
        _ => reply.json(),
    }
}

pub(crate) async fn advance(world: &World, body: Value) -> u64 {
    let body = body.to_string();
    let moved = world
        .admin_with(Method::POST, "/clock/advance", &body)
        .await;
    moved.is(200)["now_ms"].as_u64().expect("a time")
}

pub(crate) async fn push(world: &World, event: Value) -> String {
    let pushed = post(
        world,
        &format!("{QUEUE}/events"),
        json!({"events": [event]}),
    )
    .await;
    pushed[0]["id"].as_str().expect("an id").to_owned()
}

async fn lease_of(world: &World, queue: &str, ttr_ms: u64) -> Vec<Value> {
    let path = format!("/v1/ns/queues/{queue}/leases");
    let leased = post(world, &path, json!({"max": 100, "ttr_ms": ttr_ms})).await;
    leased.as_array().expect("an array").clone()
}

async fn lease(world: &World) -> Vec<Value> {
    lease_of(world, "q", 30_000).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_leased_when_the_clock_has_reached_its_time_and_not_before() {
    let world = World::start_manual().await;
    let before = world.admin(Method::GET, "/clock").await.is(200)["now_ms"].clone();
    let ids = [
        push(&world, json!({"payload": 1, "delay_ms": 30 * MINUTE_MS})).await,
        push(
            &world,
            json!({"payload": 2, "delay_ms": 30 * 86_400_000_u64}),
        )
        .await,
    ];
    assert_eq!(lease(&world).await, Vec::<Value>::new());
    advance(&world, json!({"by_ms": 30 * MINUTE_MS - 1})).await;
    assert_eq!(lease(&world).await, Vec::<Value>::new());
    let now = advance(&world, json!({"by_ms": 1})).await;
    assert_eq!(now, before.as_u64().unwrap() + 30 * MINUTE_MS);
    let leased = lease(&world).await;
    assert_eq!((leased.len(), &leased[0]["id"]), (1, &json!(ids[0])));
    advance(&world, json!({"by_ms": 30 * 86_400_000_u64})).await;
    assert!(lease(&world).await.iter().any(|it| it["id"] == ids[1]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_ends_and_its_event_comes_back_in_time_with_the_clock() {
    let world = World::start_manual().await;
    push(&world, json!({"payload": 1, "attempts": 3})).await;
    assert_eq!(lease(&world).await.len(), 1);
    advance(&world, json!({"by_ms": 29_999})).await;
    assert_eq!(lease(&world).await.len(), 0, "it is leased still");
    // The lease ends on the way, not when the clock has come to its stop.
    advance(&world, json!({"by_ms": 10 * MINUTE_MS})).await;
    let again = lease(&world).await;
    assert_eq!(again.len(), 1);
    assert_eq!(again[0]["attempt"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_is_refused_leaves_a_long_lease_as_it_was() {
    let world = World::start_manual().await;
    push(&world, json!({"payload": 1, "attempts": 1})).await;
    let leased = lease_of(&world, "q", 60 * MINUTE_MS).await;
    let path = format!(
        "/v1/ns/leases/{}/settle",
        leased[0]["token"].as_str().unwrap()
    );
    let settle = async |body: Value| {
        let request = world.request(Method::POST, &path);
        let request = request.header("Content-Type", "application/json");
        reply(request.body(body.to_string())).await
    };
    let large = settle(json!({"outcome": "ack", "reply": "x".repeat(2 << 20)})).await;
    assert_eq!(large.status, 400, "{large:?}");
    advance(&world, json!({"by_ms": 59 * MINUTE_MS})).await;
    settle(json!({"outcome": "ack", "reply": 1})).await.is(204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_expires_while_it_runs_is_shown_and_one_that_waits_is_not() {
    let world = World::start_manual().await;
    let ids = [
        push(&world, json!({"payload": 1, "expires_ms": 1_000})).await,
        push(
            &world,
            json!({"payload": 1, "expires_ms": 1_000, "delay_ms": 500}),
        )
        .await,
    ];
    let leased = lease_of(&world, "q", MINUTE_MS).await;
    assert_eq!(leased.len(), 1);
    advance(&world, json!({"by_ms": 2_000})).await;
    let shown = world
        .get(&format!("{QUEUE}/events/{}", ids[0]))
        .await
        .is(200);
    assert_eq!(shown["state"], "leased");
    world
        .get(&format!("{QUEUE}/events/{}", ids[1]))
        .await
        .is(404);
    let path = format!(
        "/v1/ns/leases/{}/settle",
        leased[0]["token"].as_str().unwrap()
    );
    post(&world, &path, json!({"outcome": "ack"})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_occurrence_of_a_schedule_is_pushed_on_the_way_and_none_is_missed() {
    let world = World::start_manual().await;
    let schedule = json!({"queue": "report", "when": "0 * * * *", "payload": 1, "missed": "all(3)",
        "overlap": "allow"});
    let request = world.request(Method::PUT, "/v1/ns/schedules/hourly");
    let request = request.header("Content-Type", "application/json");
    reply(request.body(schedule.to_string())).await.is(201);
    advance(&world, json!({"by_ms": 24 * 60 * MINUTE_MS})).await;
    assert_eq!(lease_of(&world, "report", 30_000).await.len(), 24);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poll_that_waits_is_answered_by_the_move_of_the_clock() {
    let world = World::start_manual().await;
    push(&world, json!({"payload": 1, "delay_ms": MINUTE_MS})).await;
    let path = format!("{QUEUE}/leases");
    let poll = post(
        &world,
        &path,
        json!({"ttr_ms": 30_000, "wait_ms": 3_600_000}),
    );
    let moved = async {
        world.wait_for_poll().await;
        advance(&world, json!({"by_ms": MINUTE_MS})).await
    };
    let (leased, _) = tokio::join!(poll, moved);
    assert_eq!(leased.as_array().map(Vec::len), Some(1), "{leased}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_setting_of_a_queue_holds_at_once_although_the_clock_stands_still() {
    let world = World::start_manual().await;
    push(&world, json!({"payload": 1})).await;
    for (paused, count) in [(true, 0), (false, 1)] {
        let request = world.request(Method::PATCH, QUEUE);
        let request = request.header("Content-Type", "application/json");
        let body = json!({"paused": paused}).to_string();
        let set = reply(request.body(body)).await;
        assert!(set.status.is_success(), "{set:?}");
        assert_eq!(lease(&world).await.len(), count, "paused: {paused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_on_many_events_find_what_waits_died_or_ended_by_that_clock() {
    let world = World::start_manual().await;
    advance(&world, json!({"by_ms": 60 * MINUTE_MS})).await;
    let server = world.api_url("");
    let run = |arguments: &[&str]| {
        let target = ["--queue", "ns.q", "--server", &server];
        let target = [&target[..], &["--token", &world.token, "--json"]].concat();
        duly(&[arguments, &target].concat()).json()
    };
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.push(push(&world, json!({"payload": number, "keep_payload": true})).await);
    }
    for leased in lease(&world).await {
        let path = format!("/v1/ns/leases/{}/settle", leased["token"].as_str().unwrap());
        post(
            &world,
            &path,
            json!({"outcome": "bury", "reason": "closed"}),
        )
        .await;
    }
    assert_eq!(run(&["dead", "revive", &ids[0]])["done"], 1);
    assert_eq!(run(&["dead", "revive", "--all"])["done"], 2);
    assert_eq!(run(&["event", "cancel", "--all", "--yes"])["done"], 3);
    // What ends in a millisecond is not before it.
    advance(&world, json!({"by_ms": 1})).await;
    let replay = ["event", "replay", "--name", "one", "--outcome", "cancelled"];
    assert_eq!(run(&[&replay[..], &["--yes"]].concat())["pushed"], 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_request_is_told_what_would_be_right() {
    let world = World::start_manual().await;
    for (body, word) in [
        ("", "by_ms"),
        ("[]", "by_ms"),
        (r#"{"by_ms": -1}"#, "by_ms"),
        (r#"{"by_ms": 3162240000001}"#, "at most 3162240000000"),
        (r#"{"by_ms": 1, "settle_ms": 600001}"#, "at most 600000"),
        (r#"{"by": 1}"#, "by_ms"),
    ] {
        let refused = world.admin_with(Method::POST, "/clock/advance", body).await;
        let error = refused.is(400)["error"].as_str().unwrap().to_owned();
        assert!(error.contains(word), "{body}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_no_such_clock_without_its_flag() {
    let world = World::start(Place::Embedded).await;
    world.admin(Method::GET, "/clock").await.is_missing();
    let moved = world.admin_with(Method::POST, "/clock/advance", r#"{"by_ms": 1}"#);
    moved.await.is_missing();
    let api = world.api(Method::POST, "/clock/advance", "{}").await;
    assert_eq!(api.status.as_u16(), 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_say_how_long_events_wait_by_the_time_of_the_store() {
    let world = World::start_manual().await;
    for payload in [1, 2] {
        push(&world, json!({"payload": payload})).await;
    }
    let one = json!({"max": 1, "ttr_ms": 120 * MINUTE_MS});
    post(&world, "/v1/ns/queues/q/leases", one).await;
    let queue = world.get(QUEUE).await.is(200);
    assert_eq!(queue["ready"], 1, "the other one waits: {queue}");
    advance(&world, json!({"by_ms": 60 * MINUTE_MS})).await;
    let server = world.api_url("");
    let target = [
        "--server",
        &server,
        "--token",
        &world.token,
        "--namespace",
        "ns",
    ];
    for command in [&["queue", "list"][..], &["top"]] {
        let said = duly(&[command, &target].concat());
        assert!(said.text().contains("60m"), "{said:?}");
    }
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_followed_from_the_newest_on_whatever_the_clock_of_the_command_says() {
    let world = World::start_manual().await;
    let ended = async || {
        advance(&world, json!({"by_ms": MINUTE_MS})).await;
        let id = push(&world, json!({"payload": 1})).await;
        let token = lease(&world).await[0]["token"].clone();
        let path = format!("/v1/ns/leases/{}/settle", token.as_str().unwrap());
        post(&world, &path, json!({"outcome": "ack"})).await;
        id
    };
    advance(&world, json!({"by_ms": 60 * MINUTE_MS})).await;
    let old = ended().await;
    let mut follows = Command::new(env!("CARGO_BIN_EXE_duly"))
        .args([
            "records", "--follow", "--limit", "0", "--json", "--queue", "ns.q",
        ])
        .args(["--server", &world.api_url(""), "--token", &world.token])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follows.stdout.take().unwrap()).lines();
    let first = tokio::task::spawn_blocking(move || lines.next().unwrap().unwrap());
    until("a later one is written", async || {
        ended().await;
        first.is_finished()
    })
    .await;
    follows.kill().unwrap();
    follows.wait().unwrap();
    let first = first.await.unwrap();
    assert!(!first.contains(&old), "{first}");
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manual_clock_is_refused_with_a_store_that_lasts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.db");
    let url = format!("sqlite:{}", file.display());
    for (url, scheme) in [(&*url, "`sqlite:`"), ("redis://127.0.0.1:1", "`redis:`")] {
        let text = format!(
            "clock = 'manual'\n[api]\nlisten = '127.0.0.1:0'\n[admin]\nlisten = '127.0.0.1:0'\n\
             state = 'memory:'\n[pools.default]\nurl = '{url}'"
        );
        let settings = duly_server::Settings::from_toml(&text).unwrap();
        let error = duly_server::Server::start(settings).await.unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains(scheme) && error.contains("--store memory:"),
            "{error}"
        );
    }
    assert!(!file.exists(), "nothing was opened");
}

#[test]
fn a_clock_that_is_none_is_refused_with_the_names_of_those_that_are() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duly"));
    command
        .args(["serve", "--clock", "fast"])
        .stdin(Stdio::null());
    let ended = command.output().unwrap();
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(2), "{text}");
    assert!(text.contains("system or manual"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manual_clock_is_refused_with_a_shared_state_that_lasts() {
    let text = "clock = 'manual'\n[api]\nlisten = '127.0.0.1:0'\n[admin]\nlisten = '127.0.0.1:0'\n\
        state = 'sqlite:state.db'\n[pools.default]\nurl = 'memory:'";
    let settings = duly_server::Settings::from_toml(text).unwrap();
    let error = duly_server::Server::start(settings).await.unwrap_err();
    assert!(error.to_string().contains("admin.state"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manual_clock_is_refused_with_an_outbox_whichever_way_it_is_set() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let url = format!("sqlite:{}", file.display());
    let text = format!(
        "clock = 'manual'\n[api]\nlisten = '127.0.0.1:0'\n[admin]\nlisten = '127.0.0.1:0'\n\
         [pools.default]\nurl = 'memory:'\n[outbox]\nurl = '{url}'"
    );
    let settings = duly_server::Settings::from_toml(&text).unwrap();
    let error = duly_server::Server::start(settings).await.unwrap_err();
    assert!(error.to_string().contains("outbox.url"), "{error}");
    for (variable, flag) in [(Some(&url), None), (None, Some(&url))] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_duly"));
        command.args(["serve", "--store", "memory:", "--clock", "manual"]);
        command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        command.args(flag.iter().flat_map(|url| ["--outbox", url]));
        command.envs(variable.map(|url| ("DULY_SERVER__OUTBOX__URL", url)));
        let ended = command.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!ended.status.success(), "{text}");
        assert!(text.contains("outbox.url"), "{text}");
    }
    assert!(!file.exists(), "nothing was opened");
}

#[test]
fn a_server_stops_in_order_with_the_program_that_holds_its_input() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_duly"))
        .args(["serve", "--store", "sqlite:jobs.db", "--stop-with-stdin"])
        .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
        .current_dir(&folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = server.stdin.take().unwrap();
    input.write_all(&[b'x'; 10_000]).unwrap(); // what is said there means nothing
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut next = |said: &str| {
        let mut lines = lines.by_ref().map(Result::unwrap);
        lines.any(|line| line.contains(said))
    };
    assert!(next("listening") && next("listening"), "it runs");
    assert_eq!(server.try_wait().unwrap(), None);
    drop(input);
    assert!(next("the standard input has ended"), "it says why it stops");
    assert!(server.wait().unwrap().success());
}
