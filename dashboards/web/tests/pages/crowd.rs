//! One user does the most that is allowed; another one is served all the same.

use duly::Bus;
use duly_dashboard::{Access, AccessError, Credentials, Role, User};
use futures_util::future::BoxFuture;
use reqwest::{Method, RequestBuilder};

use crate::forms::bury;
use crate::site::Site;

/// Users who see the queue of their name only.
#[derive(Debug)]
struct OfQueues;

impl Access for OfQueues {
    fn user<'a>(
        &'a self,
        given: Option<&'a Credentials>,
    ) -> BoxFuture<'a, Result<Option<User>, AccessError>> {
        let user = given.map(|given| {
            let own = given.name.clone();
            User::new(&given.name, Role::Admin).only(move |queue| queue == own)
        });
        Box::pin(std::future::ready(Ok(user)))
    }
}

async fn log_in(site: &Site, name: &str) -> String {
    let login = site.get("/login").await;
    let fields = [("csrf", login.csrf()), ("name", name), ("secret", "s")];
    let session = site.post("/login", &fields).await.headers["set-cookie"].clone();
    let session = session.to_str().unwrap().split(';').next().unwrap();
    format!("duly_visit={}; {session}", "v".repeat(24))
}

fn with(site: &Site, request: RequestBuilder, cookies: &str) -> RequestBuilder {
    let mut request = request.build().unwrap();
    request
        .headers_mut()
        .insert("cookie", cookies.parse().unwrap());
    RequestBuilder::from_parts(site.client(), request)
}

async fn site() -> (Site, [(&'static str, String); 2]) {
    let bus = Bus::builder()
        .settings(Default::default())
        .store_url("memory:");
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    let site = Site::with(bus, |dashboard| dashboard.authorize(OfQueues)).await;
    let ann = log_in(&site, "ann").await;
    let bob = log_in(&site, "bob").await;
    (site, [("ann", ann), ("bob", bob)])
}

#[tokio::test]
async fn the_sweeps_of_one_keep_no_other_from_sweeping_and_hide_none() {
    let (site, users) = site().await;
    let mut begun = Vec::new();
    for (name, cookies) in &users {
        bury(&site, name, 9, "x").await;
        let question = site.request(Method::GET, &format!("/act/drop-all?queue={name}"));
        let question = Site::send(with(&site, question, cookies)).await;
        let fields = [
            ("csrf", question.csrf()),
            ("queue", name),
            ("rate", "0.001"),
        ];
        let mut statuses = Vec::new();
        for _ in 0..40 {
            let form = with(&site, site.form("/act/drop-all", &fields), cookies);
            statuses.push(Site::send(form).await.status.as_u16());
        }
        assert!(statuses.iter().all(|it| [303, 429].contains(it)));
        begun.push(statuses.iter().filter(|it| **it == 303).count());
    }
    assert_eq!(begun, [4, 4]);
    for (name, cookies) in &users {
        let page = site.request(Method::GET, &format!("/dead?queue={name}"));
        let page = Site::send(with(&site, page, cookies)).await;
        assert_eq!(page.text.matches(&format!("by {name}:")).count(), 4);
    }
}

#[tokio::test]
async fn the_streams_of_one_keep_no_other_from_being_current() {
    let (site, users) = site().await;
    let mut open = Vec::new();
    let mut current = Vec::new();
    for (_, cookies) in &users {
        let mut count = 0;
        for _ in 0..70 {
            let stream = with(&site, site.request(Method::GET, "/live"), cookies);
            let stream = stream.send().await.unwrap();
            count += usize::from(stream.status() == 200);
            open.push(stream);
        }
        current.push(count);
    }
    assert_eq!(current, [8, 8]);
}
