//! Requests that wait for their turn: to change a namespace or many of its events, or to count what is
//! to come.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::scans;
use super::{ENDS, End, is_refused};
use crate::rights::Tenant;
use crate::world::{Place, World, reply, until};

/// A kind of change, and how many there may be of it.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Settings,
    Webhooks,
    /// Each cancels one event among many.
    Events,
}

/// How many other events the queue of those has.
const OTHERS: usize = 2_000;

/// Returns the queue of the event that a name is of.
fn many(name: &str) -> &str {
    name.rsplit_once('-').map_or(name, |(queue, _)| queue)
}

impl Kind {
    async fn send(self, tenant: &Tenant<'_>, queue: &str) -> u16 {
        let path = format!("/v1/ns/queues/{queue}");
        let sent = match self {
            Self::Settings => {
                let all = json!({"rate": 1, "workers": 1, "buckets": 1, "paused": true});
                tenant.send(Method::PATCH, &path, &all).await
            }
            Self::Webhooks => {
                let webhook = json!({"url": "https://example.com/"});
                let path = format!("{path}/webhook");
                tenant.send(Method::PUT, &path, &webhook).await
            }
            Self::Events => {
                let text = format!("\"{queue}\"");
                let one = json!({"action": "cancel", "queue": many(queue), "contains": text});
                let path = "/v1/ns/events/change";
                tenant.send(Method::POST, path, &one).await
            }
        };
        sent.status.as_u16()
    }

    /// Makes what is changed.
    async fn prepare(self, world: &World, queues: &[String]) {
        if matches!(self, Self::Events) {
            let event = |payload: &str| json!({"payload": payload, "delay_ms": 3_600_000});
            let mut events: Vec<_> = queues.iter().map(|queue| event(queue)).collect();
            events.resize(OTHERS + queues.len(), event("another"));
            let queue = queues.first().map_or("many", |queue| many(queue));
            let path = format!("/v1/ns/queues/{queue}/events");
            let owner = Tenant(world, world.token.clone());
            for events in events.chunks(1_000) {
                let events = json!({"events": events});
                owner.send(Method::POST, &path, &events).await.is(201);
            }
        }
    }

    /// Returns how many of some queues are changed.
    async fn count(self, world: &World, queues: &[String]) -> usize {
        if matches!(self, Self::Events) {
            let path = format!("/v1/ns/queues/{}", many(&queues[0]));
            let stats = world.get(&path).await.is(200);
            let left = usize::try_from(stats["scheduled"].as_u64().unwrap()).unwrap();
            return OTHERS + queues.len() - left;
        }
        let is_changed = |queue: &String| {
            let path = format!("/v1/ns/queues/{queue}");
            async move {
                match self {
                    Self::Webhooks => world.get(&format!("{path}/webhook")).await.status == 200,
                    _ => world.get(&path).await.is(200)["paused"] == true,
                }
            }
        };
        let changed = join_all(queues.iter().map(is_changed)).await;
        changed.into_iter().filter(|it| *it).count()
    }
}

/// When the end of a token is confirmed, nothing more is done with it, however much has arrived.
pub(super) async fn what_waits_for_its_turn_ends_with_its_token_everywhere(
    server: &World,
    other: &World,
) {
    for end in [End::Revoked, End::Narrowed] {
        let kinds = [
            (Kind::Settings, 300),
            (Kind::Webhooks, 100),
            (Kind::Events, 40),
        ];
        for (kind, many) in kinds {
            let case = format!("{end:?}-{kind:?}-");
            let tenant = Tenant(server, end.token(other).await);
            let queues: Vec<_> = (0..many).map(|it| format!("{case}{it}")).collect();
            kind.prepare(server, &queues).await;
            let sent = join_all(queues.iter().map(|queue| kind.send(&tenant, queue)));
            let ended = async {
                until("it has begun", async || {
                    kind.count(server, &queues).await > 0
                })
                .await;
                end.of(&tenant.1, other, server).await;
                kind.count(server, &queues).await
            };
            let (statuses, before) = tokio::join!(sent, ended);
            let after = kind.count(server, &queues).await;
            // One may have been under way.
            assert!(
                (before..=before + 1).contains(&after),
                "{case}: {before}, {after}"
            );
            let done = statuses
                .iter()
                .filter(|status| !is_refused(**status))
                .count();
            // What is cut in the middle of its step is refused, too.
            let cut = usize::from(matches!(kind, Kind::Events));
            let is_said = done <= after && after <= done + cut;
            assert!(is_said, "{case}: {after}, {statuses:?}");
        }
    }
}

/// Pushes events to each bucket of a queue that has as many as one may have.
pub(crate) async fn fill_buckets(tenant: &Tenant<'_>, namespace: &str) {
    let (queue, most) = (
        format!("/v1/{namespace}/queues/large"),
        json!({"buckets": 1_024}),
    );
    tenant.send(Method::PATCH, &queue, &most).await.is(204);
    for part in 0..4 {
        let event = |it| json!({"payload": 1, "key": format!("{part}-{it}"), "delay_ms": 600_000});
        let events = json!({"events": (0..1_000).map(event).collect::<Vec<_>>()});
        let path = format!("{queue}/events");
        tenant.send(Method::POST, &path, &events).await.is(201);
    }
}

/// As many steps as a forecast may have, so that one of a queue with many buckets takes a minute.
pub(crate) const LONG: &str = "queues/large/forecast?horizon_ms=4000000&step_ms=10000";

pub(super) async fn what_waits_for_a_forecast_ends_with_its_token_everywhere(
    server: &World,
    other: &World,
) {
    fill_buckets(&Tenant(server, server.token.clone()), "ns").await;
    let path = format!("/v1/ns/{LONG}");
    for end in ENDS {
        let tenant = Tenant(server, end.token(other).await);
        let forecast = reply(tenant.request(Method::GET, &path));
        let (forecast, ()) = tokio::join!(forecast, end.of(&tenant.1, other, server));
        assert!(
            is_refused(forecast.status.as_u16()),
            "{end:?}: {forecast:?}"
        );
    }
}

/// However many forecasts a namespace asks for, few wait, and those of another come in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_forecasts_of_one_namespace_hold_no_other_up() {
    let world = World::start(Place::Embedded).await;
    let worst = Tenant(&world, world.token.clone());
    let other = Tenant(&world, world.new_token("other", "").await);
    fill_buckets(&worst, "ns").await;
    let events = json!({"events": [{"payload": 1, "delay_ms": 60_000}]});
    let path = "/v1/other/queues/q/events";
    other.send(Method::POST, path, &events).await.is(201);
    let mut asked = JoinSet::new();
    for _ in 0..50 {
        let forecast = worst.request(Method::GET, &format!("/v1/ns/{LONG}"));
        asked.spawn(reply(forecast));
    }
    // Those that are too many are told when to come again.
    for _ in 0..40 {
        let refused = asked.join_next().await.unwrap().unwrap();
        assert_eq!(refused.status, 429, "{refused:?}");
        assert_eq!(refused.headers["retry-after"], "1", "{refused:?}");
    }
    for _ in 0..9 {
        let path = "/v1/other/queues/q/forecast?horizon_ms=3600000&step_ms=10000";
        let steps = reply(other.request(Method::GET, path)).await.is(200);
        assert_eq!(
            steps[5]["events"].as_u64().unwrap() + steps[6]["events"].as_u64().unwrap(),
            1
        );
    }
    assert!(asked.try_join_next().is_none(), "the others wait");
}

/// However many scans a namespace asks for, one runs and few wait; what is too much is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scans_of_one_namespace_hold_no_other_up() {
    let world = World::start(Place::Embedded).await;
    let worst = Tenant(&world, world.token.clone());
    let other = Tenant(&world, world.new_token("other", "").await);
    Kind::Events.prepare(&world, &[]).await;
    let events = json!({"events": [{"payload": 1}]});
    let path = "/v1/other/queues/q/events";
    other.send(Method::POST, path, &events).await.is(201);
    let all = json!({"action": "count", "contains": "nothing"});
    let ways = [
        (Method::GET, "/v1/ns/events?contains=nothing", Value::Null),
        (Method::POST, "/v1/ns/events/change", all),
        (Method::GET, "/api/ns/many/peek", Value::Null),
    ];
    let mut asked = JoinSet::new();
    let mut more = ways.iter().cycle().map(|(method, path, body)| {
        let request = worst.request(method.clone(), path);
        let request = request.header("Content-Type", "application/json");
        reply(request.body(body.to_string()))
    });
    let mut refused = 0;
    while refused < 100 {
        while asked.len() < 300 {
            asked.spawn(more.next().unwrap());
        }
        let reply = asked.join_next().await.unwrap().unwrap();
        if reply.status == 429 {
            assert_eq!(reply.headers["retry-after"], "1", "{reply:?}");
            refused += 1;
        }
    }
    for _ in 0..9 {
        let look = other.request(Method::GET, "/v1/other/events?contains=1");
        let page = reply(look).await.is(200);
        assert_eq!(page["items"].as_array().unwrap().len(), 1, "{page}");
    }
}

/// However many requests of each kind a token has sent, another one of its namespace is never one too
/// many, and does not wait until they are done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scans_of_one_token_hold_no_other_of_its_namespace_up() {
    let world = World::start(Place::Embedded).await;
    let worst = Tenant(&world, world.token.clone());
    let other = Tenant(&world, world.new_token("ns", "").await);
    Kind::Events.prepare(&world, &[]).await;
    let count = json!({"action": "count", "contains": "nothing"});
    let cancel = json!({"action": "cancel", "contains": "nothing"});
    let ways = [
        (Method::GET, "/v1/ns/events?contains=nothing", Value::Null),
        (Method::POST, "/v1/ns/events/change", count),
        (Method::POST, "/v1/ns/events/change", cancel),
    ];
    let send = |tenant: &Tenant<'_>, (method, path, body): &(Method, &str, Value)| {
        let request = tenant.request(method.clone(), path);
        let request = request.header("Content-Type", "application/json");
        reply(request.body(body.to_string()))
    };
    let mut asked = JoinSet::new();
    let mut more = ways.iter().cycle();
    let (mut refused, mut served) = (0, 0);
    for (method, path, body, operation) in scans::requests() {
        let path = match operation {
            "forecastQueue" => "/v1/ns/queues/q/forecast?horizon_ms=1000&step_ms=1000".to_owned(),
            _ => path,
        };
        while asked.len() < 300 {
            asked.spawn(send(&worst, more.next().unwrap()));
        }
        let mut sent = Box::pin(send(&other, &(method.clone(), path.as_str(), body)));
        let sent = loop {
            tokio::select! {
                sent = &mut sent => break sent,
                done = asked.join_next() => {
                    let status = done.unwrap().unwrap().status;
                    (refused, served) = match status.as_u16() {
                        429 => (refused + 1, served),
                        _ => (refused, served + 1),
                    };
                    asked.spawn(send(&worst, more.next().unwrap()));
                }
            }
        };
        let status = sent.status.as_u16();
        assert!(
            ![429, 500, 503].contains(&status),
            "{method} {path}: {sent:?}"
        );
    }
    assert!(refused > 0 && served > 0, "{refused} {served}");
}
