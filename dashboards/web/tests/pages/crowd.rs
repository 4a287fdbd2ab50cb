//! One user does the most that is allowed; another one is served all the same.

use std::time::Duration;

use duly::Bus;
use duly_dashboard::{Access, AccessError, Credentials, Role, User};
use futures_util::future::BoxFuture;
use reqwest::{Method, RequestBuilder};
use tokio::task::JoinSet;

use crate::bounds::Counted;
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

/// Users who see the queues of the namespace that their names begin with, and operators.
#[derive(Debug)]
struct OfNamespaces;

impl Access for OfNamespaces {
    fn user<'a>(
        &'a self,
        given: Option<&'a Credentials>,
    ) -> BoxFuture<'a, Result<Option<User>, AccessError>> {
        let user = given.map(|given| {
            let user = User::new(&given.name, Role::Admin);
            let Some((namespace, _)) = given.name.split_once('-') else {
                return user;
            };
            let prefix = format!("{namespace}.");
            let user = user.only(move |queue| queue.starts_with(&prefix));
            user.only_schedules_of(namespace)
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

async fn site_of(access: impl Access) -> Site {
    let bus = Bus::builder()
        .settings(Default::default())
        .store_url("memory:");
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    Site::with(bus, |dashboard| dashboard.authorize(access)).await
}

async fn site() -> (Site, [(&'static str, String); 2]) {
    let site = site_of(OfQueues).await;
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

/// Opens streams of a user until one is refused.
async fn fill(site: &Site, cookies: &str, open: &mut Vec<reqwest::Response>) -> usize {
    let before = open.len();
    loop {
        let stream = with(site, site.request(Method::GET, "/live"), cookies);
        let stream = stream.send().await.unwrap();
        if stream.status() != 200 {
            return open.len() - before;
        }
        open.push(stream);
    }
}

#[tokio::test]
async fn the_streams_of_many_users_of_a_namespace_leave_some_to_others_and_to_operators() {
    let site = site_of(OfNamespaces).await;
    let mut open = Vec::new();
    for (namespace, most) in [("a", 16), ("b", 16), ("c", 16), ("d", 0)] {
        let mut count = 0;
        for user in 0..4 {
            let cookies = log_in(&site, &format!("{namespace}-{user}")).await;
            count += fill(&site, &cookies, &mut open).await;
        }
        assert_eq!(count, most, "{namespace}");
    }
    let operator = log_in(&site, "operator").await;
    assert_eq!(fill(&site, &operator, &mut open).await, 16);
}

#[tokio::test]
async fn the_sweeps_of_many_users_of_a_namespace_leave_some_to_others_and_to_operators() {
    let site = site_of(OfNamespaces).await;
    for namespace in ["a", "b", "c", "d"] {
        bury(&site, &format!("{namespace}.q"), 40, "x").await;
    }
    // Each sweep drops one at once, and the next after a quarter of an hour.
    let sweep = async |name: &str, queue: &str| {
        let cookies = log_in(&site, name).await;
        let question = site.request(Method::GET, &format!("/act/drop-all?queue={queue}"));
        let question = Site::send(with(&site, question, &cookies)).await;
        let fields = [
            ("csrf", question.csrf()),
            ("queue", queue),
            ("rate", "0.001"),
        ];
        for begun in 0..40 {
            let form = with(&site, site.form("/act/drop-all", &fields), &cookies);
            match Site::send(form).await.status.as_u16() {
                303 => {}
                429 => return begun,
                status => panic!("{status}"),
            }
        }
        panic!("nothing is refused");
    };
    for (namespace, most) in [("a", 8), ("b", 8), ("c", 8), ("d", 0)] {
        let mut begun = 0;
        for user in 0..4 {
            begun += sweep(&format!("{namespace}-{user}"), &format!("{namespace}.q")).await;
        }
        assert_eq!(begun, most, "{namespace}");
    }
    assert_eq!(sweep("operator", "a.q").await, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reads_of_one_wait_for_each_other_and_keep_no_other_from_reading() {
    let bus = Bus::builder().settings(Default::default());
    let bus = bus.store(Counted::silent("a.q"));
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    let site = Site::with(bus, |dashboard| dashboard.authorize(OfNamespaces)).await;
    for name in ["a.q", "b.q"] {
        let queue = site.bus.queue_named::<String>(name).unwrap();
        let hour = Duration::from_secs(3_600);
        queue.push("a text".to_owned(), hour).await.unwrap();
    }
    let find = |cookies: &str, queue: &str| {
        let path = format!("/find?in=text&q=text&queue={queue}");
        with(&site, site.request(Method::GET, &path), cookies)
    };
    let ann = log_in(&site, "a-ann").await;
    let mut reads = JoinSet::new();
    for _ in 0..60 {
        reads.spawn(Site::send(find(&ann, "a.q")));
    }
    let mut refused = 0;
    while refused < 10 {
        let page = reads.join_next().await.expect("some are refused").unwrap();
        if page.status == 429 {
            assert_eq!(page.headers["retry-after"], "1");
            refused += 1;
        }
    }
    for (name, queue) in [("b-bob", "b.q"), ("operator", "b.q")] {
        let cookies = log_in(&site, name).await;
        let page = Site::send(find(&cookies, queue)).await;
        assert_eq!(page.status, 200, "{name}: {page:?}");
    }
    assert!(reads.len() >= 2, "they still wait");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_keeps_itself_current_is_refused_at_once_while_others_read() {
    let bus = Bus::builder().settings(Default::default());
    let bus = bus.store(Counted::silent("a.q"));
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    let site = Site::with(bus, |dashboard| dashboard.authorize(OfNamespaces)).await;
    let queue = site.bus.queue_named::<String>("a.q").unwrap();
    let hour = Duration::from_secs(3_600);
    queue.push("a text".to_owned(), hour).await.unwrap();
    let ann = log_in(&site, "a-ann").await;
    let read = || with(&site, site.request(Method::GET, "/queues/a.q"), &ann);
    let mut reads = JoinSet::new();
    for _ in 0..3 {
        reads.spawn(Site::send(read()));
    }
    // One that is sent before them has a turn, and gives it back.
    let refused = async {
        loop {
            let live = Site::send(read().header("x-live", "1"));
            match tokio::time::timeout(Duration::from_secs(1), live).await {
                Ok(page) if page.status == 429 => return,
                _ => {}
            }
        }
    };
    // Whoever waits for a turn does so for ten seconds.
    let refused = tokio::time::timeout(Duration::from_secs(8), refused).await;
    refused.expect("it does not wait");
    assert_eq!(reads.len(), 3);
}
