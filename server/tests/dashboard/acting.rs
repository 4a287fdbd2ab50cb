//! What a token does in the dashboard is what it does over HTTP, whatever its scopes.

use reqwest::Method;
use serde_json::{Value, json};

use super::access::{csrf, visit_at};
use crate::rights::Tenant;
use crate::world::{Place, Reply, World, reply};

/// A pair: an action of the dashboard, and the request that does the same.
type Pair = (&'static str, Method, &'static str, Value);

/// The pairs of one event, whose id is put for `{id}`, of a queue, and of a schedule.
fn pairs() -> Vec<Pair> {
    let ids = json!({"ids": ["00000000000000000000000000"]});
    let (queue, event) = ("/queues/mail", "/queues/mail/events/{id}");
    let none = Value::Null;
    let dead = |action: &str| match action {
        "revive" => "/queues/mail/dead-letters/revive",
        _ => "/queues/mail/dead-letters/drop",
    };
    vec![
        ("run-chosen", Method::PATCH, event, json!({"delay_ms": 0})),
        (
            "reschedule-chosen",
            Method::PATCH,
            event,
            json!({"delay_ms": 9}),
        ),
        ("cancel-chosen", Method::DELETE, event, none.clone()),
        ("revive-chosen", Method::POST, dead("revive"), ids.clone()),
        ("drop-chosen", Method::POST, dead("drop"), ids.clone()),
        ("purge", Method::POST, "/queues/mail/purge", none.clone()),
        ("run-now", Method::PATCH, event, json!({"delay_ms": 0})),
        (
            "reschedule",
            Method::PATCH,
            event,
            json!({"delay_ms": 9_000}),
        ),
        ("cancel", Method::DELETE, event, none.clone()),
        ("pause", Method::PATCH, queue, json!({"paused": true})),
        ("resume", Method::PATCH, queue, json!({"paused": false})),
        ("rate", Method::PATCH, queue, json!({"rate": 9})),
        (
            "revive",
            Method::POST,
            "/queues/mail/dead-letters/revive",
            ids.clone(),
        ),
        (
            "revive-all",
            Method::POST,
            "/queues/mail/dead-letters/revive",
            ids.clone(),
        ),
        (
            "drop",
            Method::POST,
            "/queues/mail/dead-letters/drop",
            ids.clone(),
        ),
        (
            "drop-all",
            Method::POST,
            "/queues/mail/dead-letters/drop",
            ids,
        ),
        (
            "replay",
            Method::POST,
            "/queues/mail/records/replay",
            json!({"name": "again"}),
        ),
        (
            "pause-schedule",
            Method::POST,
            "/schedules/nightly/pause",
            none.clone(),
        ),
        (
            "resume-schedule",
            Method::POST,
            "/schedules/nightly/resume",
            none.clone(),
        ),
        (
            "run-schedule",
            Method::POST,
            "/schedules/nightly/run",
            none.clone(),
        ),
        (
            "remove-schedule",
            Method::DELETE,
            "/schedules/nightly",
            none,
        ),
    ]
}

/// Sends the form of an action.
async fn act(world: &World, token: &str, action: &str, id: &str) -> Reply {
    let login = Some(("ns", token));
    let page = visit_at(world, "/dashboard", Method::GET, "/queues", login, &[]).await;
    let form = [
        ("csrf", csrf(&page.text)),
        ("queue", "ns.mail"),
        ("id", id),
        ("chosen", &format!("ns.mail/{id}")),
        ("schedule", "ns.nightly"),
        ("name", "again"),
        ("delay", "9"),
        ("rate", "9"),
    ];
    let path = format!("/act/{action}");
    visit_at(world, "/dashboard", Method::POST, &path, login, &form).await
}

/// Returns how many events of the schedule's queue are due: those that were asked for. Its own one,
/// of next year, comes and goes beside the test.
async fn due(world: &World) -> u64 {
    let queue = world.get("/v1/ns/queues/report").await.is(200);
    queue["ready"].as_u64().unwrap()
}

async fn set_schedule(world: &World) {
    let tenant = Tenant(world, world.token.clone());
    let schedule = json!({"queue": "report", "when": "@yearly"});
    let path = "/v1/ns/schedules/nightly";
    let set = tenant.send(Method::PUT, path, &schedule).await;
    assert!(set.status.is_success(), "{set:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_does_in_the_dashboard_what_it_does_over_http() {
    let world = World::start(Place::Embedded).await;
    for scopes in [
        "consume",
        "publish,consume",
        "consume,admin",
        "publish,consume,admin",
    ] {
        set_schedule(&world).await;
        let token = world.new_token("ns", &format!("&scopes={scopes}")).await;
        let tenant = Tenant(&world, token.clone());
        for (action, method, path, body) in pairs() {
            let id = world.publish("/api/ns/mail?delay=3600", "{}").await;
            let before = due(&world).await;
            let done = act(&world, &token, action, &id).await;
            let after = due(&world).await;
            let path = format!("/v1/ns{}", path.replace("{id}", &id));
            let sent = tenant.send(method, &path, &body).await;
            let [refused, over_http] = [&done, &sent].map(|it| it.status == 403);
            let case = format!("{scopes}: {action}: {done:?}, {sent:?}");
            assert_eq!(refused, over_http, "{case}");
            if action == "run-schedule" {
                assert_eq!(after, before + u64::from(!refused), "{case}");
            }
        }
        // Who may change each event may change all of them, and who may not begins no such sweep.
        let id = world.publish("/api/ns/mail?delay=3600", "{}").await;
        for action in ["cancel-all", "run-all", "reschedule-all"] {
            let begun = act(&world, &token, action, &id).await;
            let expected = if scopes.contains("publish") { 303 } else { 403 };
            assert_eq!(begun.status, expected, "{scopes}: {action}: {begun:?}");
        }
    }
    world.server.stop().await;
}

/// The page of a queue, an event and a schedule offers what the token may do, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_offers_what_its_token_may_do() {
    let world = World::start(Place::Embedded).await;
    set_schedule(&world).await;
    let id = world.publish("/api/ns/mail?delay=3600", "{}").await;
    let event = format!("/queues/ns.mail/events/{id}");
    for (scopes, limit) in [
        ("consume", false),
        ("publish,consume", false),
        ("publish,consume", true),
        ("consume,admin", false),
        ("publish,consume,admin", true),
    ] {
        let token = world.new_token("ns", &format!("&scopes={scopes}")).await;
        if limit {
            let path = format!("/token/ns/{token}/limit");
            let limit = r#"{"write":1,"interval":3600}"#;
            world.admin_with(Method::PUT, &path, limit).await.is(200);
        }
        let (publishes, administers) = (scopes.contains("publish"), scopes.contains("admin"));
        for (path, action, may) in [
            (event.as_str(), "cancel", publishes),
            (event.as_str(), "run-now", publishes),
            ("/find?queue=ns.mail", "cancel-all", publishes),
            ("/queues/ns.mail", "pause", administers),
            ("/queues/ns.mail", "purge", administers),
            ("/queues/ns.mail", "cancel-chosen", publishes),
            ("/find?queue=ns.mail", "run-chosen", publishes),
            ("/schedules/ns.nightly", "run-schedule", publishes && !limit),
            ("/schedules/ns.nightly", "pause-schedule", administers),
            ("/schedules/ns.nightly", "remove-schedule", administers),
        ] {
            let login = Some(("ns", token.as_str()));
            let page = visit_at(&world, "/dashboard", Method::GET, path, login, &[]).await;
            assert_eq!(page.status, 200, "{path}: {page:?}");
            // A link, or a button of a form.
            let to = ["?", "\""].map(|end| format!("/act/{action}{end}"));
            let offers = to.iter().any(|to| page.text.contains(to));
            assert_eq!(offers, may, "{scopes}, limit {limit}: {action}: {page:?}");
        }
    }
    world.server.stop().await;
}

/// Its limit counts what a token pushes: nothing gets around it in the dashboard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_with_a_limit_of_pushes_runs_no_schedule_in_the_dashboard() {
    let world = World::start(Place::Embedded).await;
    set_schedule(&world).await;
    for (limit, runs) in [
        (r#"{"write":1,"interval":3600}"#, false),
        (r#"{"read":1,"write":9,"interval":3600}"#, false),
        (r#"{"read":1,"interval":3600}"#, true),
    ] {
        let token = world.new_token("ns", "").await;
        let path = format!("/token/ns/{token}/limit");
        world.admin_with(Method::PUT, &path, limit).await.is(200);
        let before = due(&world).await;
        let run = act(&world, &token, "run-schedule", "").await;
        assert_eq!(run.status, if runs { 303 } else { 403 }, "{limit}: {run:?}");
        assert_eq!(run.text.contains("limit"), !runs, "{limit}: {run:?}");
        let pushed = due(&world).await - before;
        assert_eq!(pushed, u64::from(runs), "{limit}");
        // Over HTTP it is counted.
        let run = world
            .client
            .post(world.api_url("/v1/ns/schedules/nightly/run"));
        let run = reply(run.header("X-Token", &token)).await;
        assert_eq!(run.status, 201, "{limit}: {run:?}");
    }
    world.server.stop().await;
}

/// What is set over HTTP is on the next page, and on that of an event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_over_http_is_on_every_page_at_once() {
    let world = World::start(Place::Embedded).await;
    let tenant = Tenant(&world, world.token.clone());
    let id = world.publish("/api/ns/mail?delay=3600", "{}").await;
    let event = format!("/queues/ns.mail/events/{id}?explain=1");
    for _ in 0..3 {
        for is_paused in [true, false] {
            let set = json!({"paused": is_paused});
            let set = tenant.send(Method::PATCH, "/v1/ns/queues/mail", &set).await;
            set.is(204);
            for path in ["/", "/queues", "/queues/ns.mail", &event] {
                let page = visit_at(&world, "/dashboard", Method::GET, path, None, &[]).await;
                let says = page.text.to_lowercase().contains("paused");
                assert_eq!(says, is_paused, "{path}: {}", page.text);
            }
        }
    }
    world.server.stop().await;
}

/// Who may change each event that is found may change all of them, in whichever of its queues they
/// are; what is found nowhere else is said to nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_changes_what_it_finds_over_all_its_queues() {
    let world = World::start(Place::Embedded).await;
    let other = Tenant(&world, world.new_token("other", "").await);
    let token = world.new_token("ns", "&scopes=publish,consume").await;
    let tenant = Tenant(&world, world.token.clone());
    let event = json!({"events": [{"payload": 1, "delay_ms": 3_600_000, "key": "customer:42"}]});
    for (who, path) in [
        (&tenant, "/v1/ns/queues/mail/events"),
        (&tenant, "/v1/ns/queues/bills/events"),
        (&other, "/v1/other/queues/mail/events"),
    ] {
        who.send(Method::POST, path, &event).await.is(201);
    }
    let login = Some(("ns", token.as_str()));
    let ask = async |path: &str| {
        let page = visit_at(&world, "/dashboard", Method::GET, path, login, &[]).await;
        assert_eq!(page.status, 200, "{path}: {page:?}");
        page.text
    };
    let found = ask("/find?q=customer:42").await;
    let (_, link) = found.split_once("/dashboard/act/cancel-all?").unwrap();
    let query = link.split('"').next().unwrap().replace("&#38;", "&");
    let asked = ask(&format!("/act/cancel-all?{query}")).await;
    assert!(asked.contains("2 events match."), "{asked}");
    let form = [
        ("csrf", csrf(&asked)),
        ("in", "key"),
        ("q", "customer:42"),
        ("rate", "1000"),
    ];
    let path = "/act/cancel-all";
    let done = visit_at(&world, "/dashboard", Method::POST, path, login, &form).await;
    assert_eq!(done.status, 303, "{done:?}");
    while !ask("/find")
        .await
        .contains("<strong>2</strong> so far, done")
    {
        tokio::task::yield_now().await;
    }
    for (who, path, left) in [
        (&tenant, "/v1/ns/queues/mail", 0),
        (&tenant, "/v1/ns/queues/bills", 0),
        (&other, "/v1/other/queues/mail", 1),
    ] {
        let stats = who.send(Method::GET, path, &Value::Null).await.is(200);
        assert_eq!(stats["scheduled"], left, "{path}: {stats}");
    }
    let audit = ask("/audit").await;
    for queue in ["ns.mail", "ns.bills"] {
        let line = format!("{queue}, events of all queues that");
        assert!(audit.contains(&line), "{line}: {audit}");
    }
    world.server.stop().await;
}
