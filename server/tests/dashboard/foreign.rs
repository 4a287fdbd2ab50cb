//! A page of another origin in a real browser: whatever it sends, it changes nothing and consumes
//! nothing, though it knows a token.

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use reqwest::Method;
use serde_json::json;

use super::browser::Browser;
use crate::world::{Place, World, until};

/// Sends one request of each kind that a page can; it is done when each of them has ended, one way or
/// another.
fn page(api: &str, admin: &str, token: &str) -> String {
    let consume = format!("{api}/api/ns/q?token={token}");
    let created = |kind: &str| {
        format!("{admin}/token/ns?description=x&token=made-by-{kind}-of-another-origin")
    };
    let (fetched, form, publish) = (
        created("fetch"),
        created("form"),
        format!("{api}/api/ns/q?token={token}"),
    );
    format!(
        r#"<!doctype html><title>another</title><main id="main">waits</main>
<form id="form" method="post" target="posted" action="{form}"></form>
<script>
const ended = (element, address) => new Promise(end => {{
    element.onload = element.onerror = end;
    element.src = address;
    document.body.append(element);
}});
const posted = () => new Promise(end => {{
    const frame = document.createElement("iframe");
    frame.name = "posted";
    document.body.append(frame);
    frame.onload = end;
    document.getElementById("form").submit();
}});
const opaque = {{mode: "no-cors"}};
Promise.allSettled([
    fetch("{fetched}", {{...opaque, method: "POST"}}),
    fetch("{consume}", opaque),
    fetch("{publish}", {{method: "PUT", body: "x"}}),
    ended(document.createElement("img"), "{consume}"),
    ended(document.createElement("script"), "{consume}"),
    ended(document.createElement("iframe"), "{consume}"),
    posted(),
]).then(() => document.getElementById("main").textContent = "all is done");
</script>"#
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_another_origin_does_nothing_in_a_browser() {
    let world = World::start(Place::Embedded).await;
    world.publish("/api/ns/q?tries=9", "x").await;
    let events = json!({"events": [{"payload": 1}]}).to_string();
    let push = world.request(Method::POST, "/v1/ns/queues/q/events");
    let push = push.header("Content-Type", "application/json").body(events);
    crate::world::reply(push).await.is(201);
    world.wait_for_size("q", 2).await;
    let at = |address: std::net::SocketAddr| format!("http://127.0.0.1:{}", address.port());
    let (api, admin) = (
        at(world.server.api_address()),
        at(world.server.admin_address()),
    );
    let html = page(&api, &admin, &world.token);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let pages = Router::new().route("/", get(move || async move { Html(html) }));
    let pages = tokio::spawn(async move { axum::serve(listener, pages).await });
    let browser = Browser::start().await;
    // Of another port, and of another site.
    for host in ["127.0.0.1", "localhost"] {
        browser.goto(&format!("http://{host}:{port}/")).await;
        browser.sees("all is done").await;
        assert_eq!(world.size("q").await, 2, "{host}");
        // Nor by a link to what consumes: no page is there.
        let open = format!("location.href = '{api}/api/ns/q?token={}'", world.token);
        browser.run(&open).await;
        until("the page is another", async || {
            let address = browser.page.current_url().await.unwrap();
            !address.as_str().ends_with(&format!(":{port}/"))
        })
        .await;
        assert_eq!(world.size("q").await, 2, "{host}");
    }
    let tokens = world.admin(Method::GET, "/token/ns").await.is(200);
    assert_eq!(tokens["tokens"].as_object().unwrap().len(), 1, "{tokens}");
    // A link to the dashboard is followed.
    browser.goto(&format!("http://localhost:{port}/")).await;
    let open = format!("location.href = '{admin}/dashboard/'");
    browser.run(&open).await;
    browser.sees("q").await;
    browser.close().await;
    pages.abort();
}
