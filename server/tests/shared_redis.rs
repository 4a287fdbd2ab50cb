//! A shared state in a Redis has the URLs, the checks and the recovery of a store.

use std::process::Command;

use crate::kills::Program;
use crate::servers::{Cluster, Redis, RedisOptions, WallClock};
use reqwest::Method;
use serde_json::Value;

use crate::rights::tenant;
use crate::world::{World, client, reply, until};

const STATE: &str = "DULY_SERVER__ADMIN__STATE";
const TOKEN: &str = "a-token-of-a-shared-redis";

/// Returns what a server says that does not start.
fn refusal(store: &str, state: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_duly"));
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    command.args(["--admin-listen", "127.0.0.1:0", "--store", store]);
    command.env(STATE, state).current_dir(folder.path());
    let output = command.output().expect("the program starts");
    assert!(!output.status.success(), "{store} and {state} are accepted");
    String::from_utf8(output.stderr).expect("a text")
}

fn with_user(server: &Redis, rules: &[&str]) -> String {
    let user = ["ACL", "SETUSER", "ann", "reset", "on", ">a", "+hello"];
    assert_eq!(server.cli(&[&user[..], rules].concat()), "OK");
    format!("redis://ann:a@127.0.0.1:{}", server.port())
}

fn over_tcp() -> Redis {
    Redis::start(RedisOptions {
        tcp: true,
        ..RedisOptions::default()
    })
}

#[test]
fn what_a_store_does_not_take_a_shared_state_does_not_take() {
    let server = over_tcp();
    let url = format!("redis://127.0.0.1:{}", server.port());
    let user = with_user(&server, &["~*", "&*", "+@all", "-hset"]);
    for (url, words) in [
        (format!("{url}?timeuot=5s"), "unknown option; known are"),
        (format!("{url}?ca=/a/file"), "write `rediss`"),
        (format!("{url}/x"), "database"),
        (user, "the user ann lacks the commands HSET;"),
    ] {
        for (store, state) in [(&*url, "sqlite:state.db"), ("memory:", &url)] {
            let said = refusal(store, state);
            assert!(said.contains(words), "{store} and {state}: {said}");
        }
    }
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let said = refusal("memory:", &url);
    assert!(said.contains("noeviction"), "{said}");
    assert!(said.contains("and tokens with them"), "{said}");
}

async fn make_token(program: &Program, token: &str) -> bool {
    let path = format!("{}/token/ns?description=d&token={token}", program.admin);
    reply(client().post(path)).await.status == 201
}

async fn publishes(program: &Program) -> bool {
    let put = client().put(format!("{}/api/ns/q", program.api));
    reply(put.header("X-Token", TOKEN).body("x")).await.status == 201
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_grant_that_the_error_prints_is_enough() {
    let server = over_tcp();
    let url = with_user(&server, &[]);
    let said = refusal("memory:", &url);
    let (_, grant) = said.split_once("granted by: ").expect("a grant");
    let grant: Vec<_> = grant.split_whitespace().collect();
    assert_eq!(server.cli(&grant), "OK", "{grant:?}");
    server.cli(&["ACL", "LOG", "RESET"]);

    let folder = tempfile::tempdir().unwrap();
    let program = Program::start_with(folder.path(), "memory:", &[(STATE, &url)]);
    assert!(make_token(&program, TOKEN).await);
    let limit = format!("{}/token/ns/{TOKEN}/limit", program.admin);
    let limit = client()
        .post(limit)
        .body(r#"{"read":9,"write":2,"interval":60}"#);
    let limited = reply(limit).await.status;
    assert_eq!(limited, 201);
    assert!(publishes(&program).await);
    let ready = reply(client().get(format!("{}/readyz", program.api))).await;
    ready.is(200);
    let refused = server.cli(&["ACL", "LOG"]);
    assert_eq!(refused, "", "nothing was refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_outlasts_its_window_is_not_given_back_to_the_next_one() {
    let server = over_tcp();
    let state = format!("redis://127.0.0.1:{}", server.port());
    let folder = tempfile::tempdir().unwrap();
    let program = Program::start_with(folder.path(), "memory:", &[(STATE, &state)]);
    assert!(make_token(&program, TOKEN).await);
    let limit = format!("{}/token/ns/{TOKEN}/limit", program.admin);
    let limit = client().post(limit).body(r#"{"read":1,"interval":4}"#);
    reply(limit).await.is(201);
    for _ in 0..2 {
        assert!(publishes(&program).await);
    }
    let consume = async |place: &str| {
        let get = client().get(format!("{}/api/ns/{place}", program.api));
        reply(get.header("X-Token", TOKEN)).await.status.as_u16()
    };
    let poll = consume("empty?timeout=5"); // a second longer than its window
    let next = async {
        until("the poll has taken its call", async || {
            !server.cli(&["KEYS", "*count:*"]).is_empty()
        })
        .await;
        until("the next window begins", async || consume("q").await == 200).await;
    };
    let (empty, ()) = tokio::join!(poll, next);
    assert_eq!(empty, 404);
    assert_eq!(consume("q").await, 429, "the call of this window is taken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_the_state_is_found_wherever_its_slot_is() {
    let cluster = Cluster::masters(3);
    let folder = tempfile::tempdir().unwrap();
    let program = Program::start_with(folder.path(), "memory:", &[(STATE, &cluster.url())]);
    assert!(make_token(&program, TOKEN).await);
    assert!(publishes(&program).await);

    let slot = cluster.slot_of("{duly-server}");
    let to = (cluster.master_of(slot) + 1) % 3;
    cluster.move_slot(slot, to);
    until("a token is made where the slot is now", async || {
        make_token(&program, "another-token-of-a-cluster").await
    })
    .await;
    assert!(publishes(&program).await);
    assert_eq!(cluster.master_of(slot), to);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_expires_for_all_servers_at_once_whatever_their_clocks_say() {
    let redis = over_tcp();
    let state = format!("redis://127.0.0.1:{}", redis.port());
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let right = Program::start_with(folders[0].path(), "memory:", &[(STATE, &state)]);
    let clock = WallClock::new();
    clock.set(3_600.0);
    let words = [clock.words(), vec![env!("CARGO_BIN_EXE_duly").to_owned()]].concat();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut ahead = Program::run(&words, folders[1].path(), "memory:", &[(STATE, &state)]);
    ahead.read();
    let programs = [&right, &ahead];
    let allows = async |program: &Program, token: &str| {
        let sizes = client().get(format!("{}/v1/ns/queues", program.api));
        reply(sizes.bearer_auth(token)).await.status == 200
    };
    for maker in programs {
        let create = async |seconds: u32| {
            let path = format!("/token/ns?description=d&expires_in={seconds}");
            let created = reply(client().post(format!("{}{path}", maker.admin))).await;
            created.is(201)["token"].as_str().unwrap().to_owned()
        };
        let (short, long) = (create(2).await, create(1_800).await);
        for program in programs {
            assert!(allows(program, &long).await, "half an hour is not over");
            until("two seconds are over", async || {
                !allows(program, &short).await
            })
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_revoked_on_older_data_has_ended_on_every_server() {
    let server = over_tcp();
    let state = format!("redis://127.0.0.1:{}", server.port());
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [first, second] = &folders;
    let first = Program::start_with(first.path(), "memory:", &[(STATE, &state)]);
    let second = Program::start_with(second.path(), "memory:", &[(STATE, &state)]);
    // As many changes are lost as are made then, or not.
    for lost in 1..=4 {
        assert!(make_token(&first, TOKEN).await);
        let version = server.cli(&["KEYS", "*version"]);
        let tokens = version.replace("version", "tokens");
        let before = server.cli(&["GET", &version]);
        let before_tokens = server.cli(&["HKEYS", &tokens]);
        for number in 0..lost {
            assert!(make_token(&first, &format!("a-token-that-is-lost-{lost}-{number}")).await);
        }
        assert!(publishes(&second).await, "{lost}: it knows the token now");
        server.cli(&["SET", &version, &before]);
        let now = server.cli(&["HKEYS", &tokens]);
        for token in now.lines().filter(|token| !before_tokens.contains(token)) {
            server.cli(&["HDEL", &tokens, token]);
        }
        let revoke = format!("{}/token/ns/{TOKEN}", first.admin);
        reply(client().delete(revoke)).await.is(204);
        assert!(!publishes(&second).await, "{lost}: it has ended");
    }
}

/// Whoever destroys queues, as often as it likes, has no server read the tokens of others again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_destroyed_queue_outdates_names_and_no_tokens() {
    let redis = Redis::plain();
    let world = World::start_beside(&redis.url()).await;
    let other = tenant(&world, "other", "").await;
    let uses = async || {
        world.delete("/api/ns/q").await.is(204);
        let put = other.request(Method::PUT, "/api/other/q").body("x");
        reply(put).await.is(201);
    };
    let reads = || {
        let stats = redis.cli(&["INFO", "commandstats"]);
        let line = stats
            .lines()
            .find_map(|it| it.strip_prefix("cmdstat_hget:calls="));
        let count = line.and_then(|line| line.split(',').next());
        count.unwrap().parse::<u64>().unwrap()
    };
    uses().await;
    let before = reads();
    for _ in 0..30 {
        uses().await;
    }
    // The end of a token, and a note of it, are read now and then.
    let read = reads() - before;
    assert!(read < 30, "{read} reads of tokens for 30 queues");
    // Its next publish makes it known again.
    let info = world.admin(Method::GET, "/info").await.text;
    assert!(!info.contains(r#""ns":["q"]"#), "{info}");
    world.publish("/api/ns/q", "x").await;
    let info = world.admin(Method::GET, "/info").await.text;
    let info: Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["ns"], serde_json::json!(["q"]), "{info}");
}

/// A namespace has so many names in `/info`, and what is published to another queue is published.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_queues_have_a_bound_in_each_namespace() {
    let redis = Redis::plain();
    let world = World::start_beside(&redis.url()).await;
    let other = tenant(&world, "other", "").await;
    world.publish("/api/ns/q0", "x").await;
    let key = redis.cli(&["KEYS", "*queue-names"]);
    let fill = "for it = 1, ARGV[1] do redis.call('ZADD', KEYS[1], 0, 'default/ns/q' .. it) end";
    redis.cli(&["EVAL", fill, "1", key.trim(), "9999"]);
    let info = async || {
        let info = world.admin(Method::GET, "/info").await.text;
        let info: Value = serde_json::from_str(&info).unwrap();
        let names = |namespace: &str| info[namespace].as_array().map_or(0, Vec::len);
        (
            names("ns"),
            names("other"),
            info["ns"].to_string().contains("new"),
        )
    };
    assert_eq!(info().await, (10_000, 0, false));
    for _ in 0..2 {
        world.publish("/api/ns/new", "x").await;
        world.publish("/api/ns/q7", "x").await;
    }
    let put = other.request(Method::PUT, "/api/other/new").body("x");
    reply(put).await.is(201);
    assert_eq!(info().await, (10_000, 1, false));
    assert_eq!(world.size("new").await, 2);
    // Where another one is destroyed there is room.
    world.delete("/api/ns/q9").await.is(204);
    world.publish("/api/ns/new", "x").await;
    assert_eq!(info().await, (10_000, 1, true));
}

/// A server of an earlier version raises one version for all that changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_an_earlier_version_has_forgotten_is_noted_again() {
    let redis = Redis::plain();
    let world = World::start_beside(&redis.url()).await;
    world.publish("/api/ns/q", "x").await;
    let key = |end: &str| {
        let keys = redis.cli(&["KEYS", &format!("*{end}")]);
        keys.trim().to_owned()
    };
    let names = key("queue-names");
    let tag = names.strip_suffix("queue-names").unwrap();
    redis.cli(&["ZREM", &names, "default/ns/q"]);
    redis.cli(&[
        "HSET",
        &format!("{tag}forgotten"),
        "default",
        "default/ns/q",
    ]);
    let raise = "local now = redis.call('TIME')
      redis.call('SET', KEYS[1], string.format('%.0f', tonumber(now[1]) * 1e6 + tonumber(now[2])))";
    redis.cli(&["EVAL", raise, "1", &format!("{tag}version")]);
    until("its next publish makes it known again", async || {
        world.publish("/api/ns/q", "x").await;
        redis.cli(&["ZCARD", &names]).trim() == "1"
    })
    .await;
}
