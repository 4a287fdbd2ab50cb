//! Who may do what in the dashboard of a server: accounts, tokens, and the audit.

use reqwest::Method;
use serde_json::Value;

use crate::world::{Place, World, client, reply};

/// Sends a request to the dashboard as a browser that has logged in.
pub(super) async fn visit(
    world: &World,
    method: Method,
    path: &str,
    login: Option<(&str, &str)>,
    form: &[(&str, &str)],
) -> crate::world::Reply {
    visit_at(world, "/dashboard", method, path, login, form).await
}

/// As [`visit`], of the dashboard at a path.
pub(crate) async fn visit_at(
    world: &World,
    base: &str,
    method: Method,
    path: &str,
    login: Option<(&str, &str)>,
    form: &[(&str, &str)],
) -> crate::world::Reply {
    let url = format!("http://{}{base}{path}", world.server.admin_address());
    let session = match login {
        Some((name, secret)) => {
            let url = format!("http://{}{base}", world.server.admin_address());
            session(&log_in(&url, name, secret).await)
        }
        None => None,
    };
    let session = session.map(|session| format!("; {session}"));
    let cookie = format!("{VISIT}{}", session.unwrap_or_default());
    let request = client().request(method, url).header("cookie", cookie);
    reply(with_form(request, form)).await
}

/// The cookie of a browser.
pub(crate) const VISIT: &str = "duly_visit=vvvvvvvvvvvvvvvvvvvvvvvv";

/// Sends the form of a login to the dashboard at a URL.
pub(crate) async fn log_in(url: &str, name: &str, secret: &str) -> crate::world::Reply {
    log_in_with(url, name, secret, VISIT).await
}

/// As [`log_in`], with these cookies.
pub(crate) async fn log_in_with(
    url: &str,
    name: &str,
    secret: &str,
    cookies: &str,
) -> crate::world::Reply {
    let page = client()
        .get(format!("{url}/login"))
        .header("cookie", cookies);
    let page = reply(page).await;
    let form = [
        ("csrf", csrf(&page.text)),
        ("name", name),
        ("secret", secret),
    ];
    let request = client()
        .post(format!("{url}/login"))
        .header("cookie", cookies);
    reply(with_form(request, &form)).await
}

/// Returns the cookie of a session that a login has begun.
pub(crate) fn session(login: &crate::world::Reply) -> Option<String> {
    let cookie = login.headers.get("set-cookie")?.to_str().unwrap();
    cookie.split(';').next().map(str::to_owned)
}

pub(crate) fn with_form(
    request: reqwest::RequestBuilder,
    form: &[(&str, &str)],
) -> reqwest::RequestBuilder {
    let mut fields = form_urlencoded::Serializer::new(String::new());
    fields.extend_pairs(form);
    let request = request.header("content-type", "application/x-www-form-urlencoded");
    request.body(fields.finish())
}

pub(crate) fn csrf(page: &str) -> &str {
    let (_, rest) = page.split_once("name=\"csrf\" value=\"").expect("a form");
    rest.split('"').next().expect("a value")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_sees_its_namespace_and_does_what_its_scopes_allow() {
    let world = World::start(Place::Embedded).await;
    world.publish("/api/ns/mail?delay=600", "{}").await;
    let other = world.new_token("other", "").await;
    let publisher = world.new_token("ns", "&scopes=publish,consume").await;
    let see = async |token: &str, namespace: &str, path: &str| {
        visit(&world, Method::GET, path, Some((namespace, token)), &[]).await
    };

    let page = see(&publisher, "ns", "/queues/ns.mail").await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.text.contains("operate"), "{page:?}");
    assert_eq!(see(&other, "other", "/queues/ns.mail").await.status, 404);
    assert!(
        !see(&other, "other", "/queues")
            .await
            .text
            .contains("ns.mail")
    );

    // It may cancel an event, and not pause the queue.
    let pause = "/act/pause?queue=ns.mail";
    assert_eq!(see(&publisher, "ns", pause).await.status, 403);
    let found = see(&publisher, "ns", "/queues/ns.mail").await.text;
    let (_, event) = found.split_once("/queues/ns.mail/events/").unwrap();
    let event = event.split('"').next().unwrap();
    let cancel = format!("/act/cancel?queue=ns.mail&id={event}");
    let question = see(&publisher, "ns", &cancel).await;
    assert_eq!(question.status, 200, "{question:?}");
    let fields = [
        ("csrf", csrf(&question.text)),
        ("queue", "ns.mail"),
        ("id", event),
    ];
    let login = Some(("ns", publisher.as_str()));
    let done = visit(&world, Method::POST, "/act/cancel", login, &fields).await;
    assert_eq!(done.status, 303, "{done:?}");

    let audit: Value = world.admin(Method::GET, "/audit?limit=1").await.is(200);
    let line = &audit["items"][0];
    assert_eq!(line["action"], "event cancelled");
    assert_eq!(line["target"], format!("default/ns/mail/{event}"));
    assert!(
        line["actor"].as_str().unwrap().starts_with("ns/sha256~"),
        "{line}"
    );
    assert_eq!(line["from"], "127.0.0.1");
    world.server.stop().await;
}

/// However long its namespace is, a token has a name of its own, by which the audit knows a token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_names_the_token_that_acts_in_the_dashboard() {
    let world = World::start(Place::Embedded).await;
    for length in [1, 103, 104, 105, 106, 127, 128, 200] {
        let namespace = "n".repeat(length);
        let mut actors = Vec::new();
        for _ in 0..2 {
            let token = world.new_token(&namespace, "").await;
            let url = world.api_url(&format!("/api/{namespace}/q"));
            let put = world.client.put(url).header("X-Token", &token);
            reply(put.body("x")).await.is(201);
            let (login, queue) = (Some((&*namespace, &*token)), format!("{namespace}.q"));
            let asked = format!("/act/pause?queue={queue}");
            let asked = visit(&world, Method::GET, &asked, login, &[]).await;
            let form = [("csrf", csrf(&asked.text)), ("queue", &queue)];
            let done = visit(&world, Method::POST, "/act/pause", login, &form).await;
            assert_eq!(done.status, 303, "{length}: {done:?}");
            let audit = world.admin(Method::GET, "/audit?limit=1").await.is(200);
            let line = &audit["items"][0];
            assert_eq!(line["target"], format!("default/{namespace}/q"));
            let actor = line["actor"].as_str().unwrap().to_owned();
            let (_, hash) = actor.split_once("/sha256~").expect(&actor);
            assert_eq!(hash.len(), 16, "{length}: {actor}");
            assert!(actor.starts_with('n') && actor.len() <= 128, "{actor}");
            actors.push(actor);
        }
        assert_ne!(actors[0], actors[1], "{length}");
    }
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_sees_the_schedules_of_its_namespace_alone() {
    let world = World::start(Place::Embedded).await;
    let other = world.new_token("other", "").await;
    let narrow = world.new_token("ns", "&queues=mail").await;
    let put = async |token: &str, path: &str, queue: &str| {
        let body = serde_json::json!({"queue": queue, "when": "@daily"}).to_string();
        let request = world.client.put(world.api_url(path)).body(body);
        let request = request.header("X-Token", token);
        let request = request.header("Content-Type", "application/json");
        crate::world::reply(request).await.is(201);
    };
    put(&world.token, "/v1/ns/schedules/nightly", "report").await;
    put(&other, "/v1/other/schedules/quetzal", "report").await;
    let see = async |login: (&str, &str), path: &str| {
        visit(&world, Method::GET, path, Some(login), &[]).await
    };
    let own = ("ns", world.token.as_str());
    for (login, shown) in [
        (own, Some("ns.nightly")),
        (("ns", &narrow), None),
        (("other", &other), Some("other.quetzal")),
    ] {
        let list = see(login, "/schedules").await.text;
        for name in ["ns.nightly", "other.quetzal"] {
            let is_shown = shown == Some(name);
            assert_eq!(list.contains(name), is_shown, "{login:?}: {list}");
            let page = see(login, &format!("/schedules/{name}")).await;
            assert_eq!(page.status == 200, is_shown, "{login:?}: {page:?}");
            let pause = format!("/act/pause-schedule?schedule={name}");
            let asked = see(login, &pause).await;
            assert_eq!(asked.status == 200, is_shown, "{login:?}: {asked:?}");
        }
    }
    let pause = "/act/pause-schedule?schedule=ns.nightly";
    let question = see(own, pause).await;
    let form = [("csrf", csrf(&question.text)), ("schedule", "ns.nightly")];
    let done = visit(
        &world,
        Method::POST,
        "/act/pause-schedule",
        Some(own),
        &form,
    )
    .await;
    assert_eq!(done.status, 303, "{done:?}");
    let audit: Value = world.admin(Method::GET, "/audit?limit=1").await.is(200);
    let line = &audit["items"][0];
    assert_eq!(line["action"], "schedule paused");
    assert_eq!(line["target"], "default/ns/schedules/nightly");
    // A line does not say of which queue a schedule was.
    for (login, is_seen) in [(own, true), (("ns", &narrow), false)] {
        let page = see(login, "/audit").await.text;
        assert_eq!(page.contains("ns.nightly"), is_seen, "{login:?}: {page}");
    }
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queues_of_duly_itself_are_in_the_dashboard_of_no_token() {
    let world = World::start(Place::Embedded).await;
    let body = r#"{"queue": "report", "when": "@yearly"}"#;
    let path = world.api_url("/v1/ns/schedules/nightly");
    let request = world.client.put(path).body(body);
    let request = request.header("X-Token", &world.token);
    reply(request.header("Content-Type", "application/json"))
        .await
        .is(201);
    let events = world.admin(Method::GET, "/dashboard/queues/ns.duly.schedules");
    let events = events.await.text;
    let (_, link) = events
        .split_once("/queues/ns.duly.schedules/events/")
        .unwrap();
    let link = link.split('"').next().unwrap();
    for queues in ["*", "*s", "d*"] {
        let more = format!("&scopes=publish,consume,admin&queues={queues}");
        let token = world.new_token("ns", &more).await;
        let login = Some(("ns", token.as_str()));
        let list = visit(&world, Method::GET, "/queues", login, &[]).await;
        assert!(!list.text.contains("ns.duly"), "{queues}: {list:?}");
        for queue in ["ns.duly.schedules", "ns.duly.audit", "ns.duly.replies"] {
            for path in [
                "/queues/",
                "/records?queue=",
                "/dead?queue=",
                "/find?queue=",
            ] {
                let page = format!("{path}{queue}");
                let page = visit(&world, Method::GET, &page, login, &[]).await;
                assert_eq!(page.status, 404, "{queues}, {path}{queue}: {page:?}");
            }
        }
        let form = [
            ("csrf", csrf(&list.text)),
            ("queue", "ns.duly.schedules"),
            ("id", link),
        ];
        for action in ["/act/cancel", "/act/run-now", "/act/pause", "/act/drop"] {
            let done = visit(&world, Method::POST, action, login, &form).await;
            assert_eq!(done.status, 404, "{queues}, {action}: {done:?}");
        }
    }
    let kept = world.get("/v1/ns/schedules/nightly").await;
    assert_eq!(kept.status, 200, "{kept:?}");
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_there_are_accounts_the_dashboard_asks_for_a_login() {
    let settings = "[api]\nlisten = '127.0.0.1:0'\n[admin]\nlisten = '127.0.0.1:0'\n\
                    accounts = { ann = 'secret' }\n[log]\naccess = false\n\
                    [pools.default]\nurl = 'memory:'";
    let settings = duly_server::Settings::from_toml(settings).unwrap();
    let server = duly_server::Server::start(settings).await.unwrap();
    let url = format!("http://{}/dashboard", server.admin_address());
    let client = client();
    let away = reply(client.get(format!("{url}/queues?sort=name"))).await;
    assert_eq!(away.status, 303);
    let login = away.headers["location"].to_str().unwrap();
    assert_eq!(login, "/dashboard/login?to=%2Fqueues%3Fsort%3Dname");

    let form = reply(client.get(format!("{url}/login"))).await;
    let visit = form.headers["set-cookie"].to_str().unwrap().to_owned();
    assert!(visit.contains("HttpOnly; SameSite=Strict"), "{visit}");
    let visit = visit.split(';').next().unwrap().to_owned();
    let submit = async |secret: &str| {
        let body = format!(
            "csrf={}&name=ann&secret={secret}&to=/nodes",
            csrf(&form.text)
        );
        let post = client.post(format!("{url}/login")).header("cookie", &visit);
        let post = post.header("content-type", "application/x-www-form-urlencoded");
        reply(post.body(body)).await
    };
    assert_eq!(submit("wrong").await.status, 401);
    let let_in = submit("secret").await;
    assert_eq!(let_in.status, 303);
    assert_eq!(let_in.headers["location"], "/dashboard/nodes");
    let cookie = let_in.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = format!("{visit}; {}", cookie.split(';').next().unwrap());
    let nodes = reply(client.get(format!("{url}/nodes")).header("cookie", cookie)).await;
    assert_eq!(nodes.status, 200);
    assert!(nodes.text.contains("ann"), "{nodes:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_stops_at_once_while_a_page_is_kept_current() {
    let world = World::start(Place::Embedded).await;
    let url = format!("http://{}/dashboard/live", world.server.admin_address());
    let live = client().get(url).send().await.unwrap();
    assert_eq!(live.status(), 200);
    let stopped = tokio::time::timeout(std::time::Duration::from_secs(10), world.server.stop());
    assert!(stopped.await.is_ok(), "the stream held the stop up");
    drop(live);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_may_have_no_dashboard() {
    let world = World::start_with(Place::Embedded, "").await;
    let url = format!("http://{}/dashboard/", world.server.admin_address());
    assert_eq!(reply(client().get(&url)).await.status, 200);
    world.server.stop().await;
    let settings = "[api]\nlisten = '127.0.0.1:0'\n[admin]\nlisten = '127.0.0.1:0'\n\
                    dashboard = false\n[pools.default]\nurl = 'memory:'";
    let settings = duly_server::Settings::from_toml(settings).unwrap();
    let server = duly_server::Server::start(settings).await.unwrap();
    let url = format!("http://{}/dashboard/", server.admin_address());
    assert_eq!(reply(client().get(&url)).await.status, 404);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_reads_in_the_dashboard_what_it_reads_over_http() {
    let world = World::start(Place::Embedded).await;
    world.publish("/api/ns/mail?tries=1", "a secret").await;
    world.consume("/api/ns/mail?ttr=0").await;
    world.wait_for_dead("mail", 1).await;
    for scopes in [
        "publish",
        "admin",
        "publish,admin",
        "consume",
        "publish,consume,admin",
    ] {
        let token = world.new_token("ns", &format!("&scopes={scopes}")).await;
        let letters = world.api_url("/v1/ns/queues/mail/dead-letters");
        let letters = reply(world.client.get(letters).header("X-Token", &token)).await;
        let url = format!("http://{}/dashboard", world.server.admin_address());
        let login = log_in(&url, "ns", &token).await;
        let reads = (letters.status == 200, login.status == 303);
        let may = scopes.contains("consume");
        assert_eq!(reads, (may, may), "{scopes}: {letters:?}");
    }
    world.server.stop().await;
}
