//! The audit of tokens in a shared state in a Redis has a bound, of which each namespace has its share.

use reqwest::Method;

use crate::servers::Redis;
use crate::world::{World, reply};

/// Each namespace keeps as many lines as another, so that one that is loud pushes out its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_the_audit_have_a_bound_in_each_namespace() {
    let redis = Redis::plain();
    let world = World::start_beside(&redis.url()).await;
    let pause = async || {
        let patch = world.request(Method::PATCH, "/v1/ns/queues/q");
        let patch = patch.header("Content-Type", "application/json");
        reply(patch.body(r#"{"paused":true}"#)).await.is(204);
    };
    pause().await;
    let keys = redis.cli(&["KEYS", "*audit-of-namespaces*"]);
    let keys: Vec<_> = keys.lines().map(str::trim).collect();
    let [counts, lines] = [true, false].map(|of_counts| {
        let mut keys = keys.iter();
        *keys
            .find(|key| key.ends_with("-counts") == of_counts)
            .unwrap()
    });
    // As the server adds a line of a token, with all before it.
    let fill = "for it = 10, ARGV[1] + 9 do
        redis.call('ZADD', KEYS[1], it, it .. ' default/loud {\"action\":\"loud\",\"target\":\"x\"}')
      end
      redis.call('HINCRBY', KEYS[2], 'default/loud', ARGV[1])";
    redis.cli(&["EVAL", fill, "2", lines, counts, "99999"]);
    let all = || redis.cli(&["ZCARD", lines]).trim().parse::<u64>().unwrap();
    assert_eq!(all(), 100_000);
    // One that cannot be read is of no namespace.
    redis.cli(&["ZADD", lines, "1", "damaged"]);
    for _ in 0..20 {
        pause().await;
    }
    assert_eq!(all(), 100_000);
    let counted = |namespace: &str| redis.cli(&["HGET", counts, namespace]).trim().to_owned();
    assert_eq!(
        (counted("default/ns"), counted("default/loud")),
        ("21".into(), "99979".into())
    );
    let oldest = world.admin(Method::GET, "/audit?before=10-0").await.is(200);
    let oldest = oldest["items"].as_array().unwrap();
    let actions: Vec<_> = oldest
        .iter()
        .map(|it| it["action"].as_str().unwrap())
        .collect();
    assert_eq!(actions, ["queue paused", "token created"]);
    let newest = world.admin(Method::GET, "/audit?limit=21").await.is(200);
    assert_eq!(newest["items"][19]["action"], "queue paused");
    assert_eq!(newest["items"][20]["action"], "loud");
    // Who has the most has no more than the rest leaves: their counts may be wrong, as keys were removed.
    redis.cli(&["DEL", counts]);
    redis.cli(&["EVAL", fill, "2", lines, "other", "120000"]);
    pause().await;
    assert!(all() <= 110_000, "{}", all());
}

/// One namespace is loud, then another one, then the first one again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_the_audit_go_from_whichever_namespace_is_loud_now() {
    let redis = Redis::plain();
    let world = World::start_beside(&redis.url()).await;
    let other = world.new_token("other", "").await;
    let pause = async |namespace: &str, token: &str, times: usize| {
        for _ in 0..times {
            let path = world.api_url(&format!("/v1/{namespace}/queues/q"));
            let patch = world.client.patch(path).header("X-Token", token);
            let patch = patch.header("Content-Type", "application/json");
            reply(patch.body(r#"{"paused":true}"#)).await.is(204);
        }
    };
    pause("ns", &world.token, 1).await;
    let keys = redis.cli(&["KEYS", "*audit-of-namespaces*"]);
    let keys: Vec<_> = keys.lines().map(str::trim).collect();
    let [counts, lines] = [true, false].map(|of_counts| {
        let mut keys = keys.iter();
        *keys
            .find(|key| key.ends_with("-counts") == of_counts)
            .unwrap()
    });
    // Each has its share, the one the older half.
    redis.cli(&["DEL", lines, counts]);
    let fill = "for it = 1, 100000 do
        local of = it <= 50000 and 'default/ns' or 'default/other'
        redis.call('ZADD', KEYS[1], it, it .. ' ' .. of .. ' {\"action\":\"old\",\"target\":\"x\"}')
      end
      redis.call('HSET', KEYS[2], 'default/ns', 50000, 'default/other', 50000)";
    redis.cli(&["EVAL", fill, "2", lines, counts]);
    pause("other", &other, 600).await;
    pause("ns", &world.token, 1_000).await;
    let all = redis.cli(&["ZCARD", lines]).trim().parse::<u64>().unwrap();
    assert!((100_000..101_000).contains(&all), "{all}");
    let newest = world.admin(Method::GET, "/audit?limit=700").await.is(200);
    let newest = newest["items"].as_array().unwrap();
    let kept = newest.iter().filter(|it| it["action"] == "queue paused");
    let kept = kept.filter(|it| it["target"].as_str().unwrap().contains("ns/"));
    assert_eq!(kept.count(), 700, "{:?}", newest.first());
}
