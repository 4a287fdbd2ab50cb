//! What lasts ends with its user: a sweep, live updates, a form that takes its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duly::Bus;
use duly_dashboard::{Access, AccessError, Credentials, Role, User};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::forms::bury;
use crate::site::{Page, Site, until};

/// What a user is by now.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Standing {
    Admin,
    Removed,
    Viewer,
    OfAnotherQueue,
    /// It cannot be checked.
    Unknown,
}

/// How the rights of a user end, and what a sweep says of it.
const ENDS: [(Standing, &str); 3] = [
    (Standing::Removed, "its user is not let in any more"),
    (Standing::Viewer, "its user has the role view now"),
    (
        Standing::OfAnotherQueue,
        "its user may not see the queue any more",
    ),
];

/// Every form that changes something.
const FORMS: [&str; 16] = [
    "/act/pause",
    "/act/resume",
    "/act/rate",
    "/act/cancel",
    "/act/run-now",
    "/act/reschedule",
    "/act/revive",
    "/act/drop",
    "/act/revive-all",
    "/act/drop-all",
    "/act/cancel-all",
    "/act/run-all",
    "/act/reschedule-all",
    "/act/replay",
    "/act/stop",
    "/dead/edit",
];

/// Knows a user whose rights change, and lets everybody in who has not logged in.
#[derive(Clone, Debug)]
struct Changing(Arc<Mutex<Standing>>);

impl Access for Changing {
    fn user<'a>(
        &'a self,
        given: Option<&'a Credentials>,
    ) -> BoxFuture<'a, Result<Option<User>, AccessError>> {
        let user = |role| Ok(Some(User::new("ann", role)));
        let known = match *self.0.lock() {
            _ if given.is_none() => user(Role::View),
            Standing::Admin => user(Role::Admin),
            Standing::Removed => Ok(None),
            Standing::Viewer => user(Role::View),
            Standing::OfAnotherQueue => Ok(Some(
                User::new("ann", Role::Admin).only(|it| it == "another"),
            )),
            Standing::Unknown => Err(AccessError::new("the directory is away")),
        };
        Box::pin(std::future::ready(known))
    }
}

/// A dashboard where a user has logged in.
struct World {
    site: Site,
    access: Changing,
    session: String,
}

impl World {
    async fn start() -> Self {
        let bus = Bus::builder()
            .settings(Default::default())
            .store_url("memory:");
        let bus = bus.only_registered().publish_only().start().await.unwrap();
        let access = Changing(Arc::new(Mutex::new(Standing::Admin)));
        let site = Site::with(bus, |dashboard| dashboard.authorize(access.clone())).await;
        let login = site.get("/login").await;
        let fields = [
            ("csrf", login.csrf()),
            ("name", "ann"),
            ("secret", "secret"),
        ];
        let session = site.post("/login", &fields).await.headers["set-cookie"].clone();
        let session = session.to_str().unwrap().split(';').next().unwrap();
        Self {
            session: session.to_owned(),
            access,
            site,
        }
    }

    fn is_now(&self, standing: Standing) {
        *self.access.0.lock() = standing;
    }

    fn cookies(&self) -> String {
        format!("duly_visit={}; {}", "v".repeat(24), self.session)
    }

    fn of_user(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let mut request = request.build().unwrap();
        let cookies = self.cookies().parse().unwrap();
        request.headers_mut().insert("cookie", cookies);
        reqwest::RequestBuilder::from_parts(self.site.client(), request)
    }

    async fn get(&self, path: &str) -> Page {
        Site::send(self.of_user(self.site.request(Method::GET, path))).await
    }

    async fn dead(&self) -> usize {
        self.site.bus.stats("mail").await.unwrap().dead
    }
}

#[tokio::test]
async fn a_sweep_ends_with_its_user_and_says_why() {
    // One waits long for its next step, one makes a step each hundredth of a second.
    for (rate, many) in [("0.001", 3), ("100", 3_000)] {
        for (standing, why) in ENDS {
            for action in ["revive-all", "drop-all"] {
                let world = World::start().await;
                bury(&world.site, "mail", many, "x").await;
                let question = world.get(&format!("/act/{action}?queue=mail")).await;
                let fields = [("csrf", question.csrf()), ("queue", "mail"), ("rate", rate)];
                let form = world.site.form(&format!("/act/{action}"), &fields);
                let begun = Site::send(world.of_user(form)).await;
                let case = format!("{rate}, {standing:?}, {action}");
                assert_eq!(begun.status, 303, "{case}: {begun:?}");
                until("it has begun", async || world.dead().await < many).await;
                world.is_now(standing);
                until(&format!("{case}: it says why it has ended"), async || {
                    let page = world.site.get("/dead?queue=mail").await.text;
                    assert!(!page.contains("failed:"), "{case}: {page}");
                    page.contains(&format!("ended: {why}"))
                })
                .await;
                assert!(world.dead().await > 0, "{case}: the rest stays");
            }
        }
    }
}

#[tokio::test]
async fn what_cannot_be_checked_ends_no_session_and_changes_nothing() {
    let world = World::start().await;
    bury(&world.site, "mail", 3, "x").await;
    world.is_now(Standing::Unknown);
    let page = world.get("/dead?queue=mail").await;
    assert_eq!(page.status, 503, "{page:?}");
    assert!(page.text.contains("the directory is away"), "{page:?}");
    world.is_now(Standing::Admin);
    let page = world.get("/act/pause?queue=mail").await;
    assert_eq!(page.status, 200, "the session goes on: {page:?}");
}

/// Knows a part of what logins may be: who is `counted` was surely not that.
#[derive(Debug)]
struct Away;

impl Access for Away {
    fn user<'a>(
        &'a self,
        given: Option<&'a Credentials>,
    ) -> BoxFuture<'a, Result<Option<User>, AccessError>> {
        let error = AccessError::new("the directory is away");
        let known = match given {
            None => Ok(None),
            Some(given) if given.name == "counted" => Err(error.counts_as_wrong()),
            Some(_) => Err(error),
        };
        Box::pin(std::future::ready(known))
    }
}

#[tokio::test]
async fn a_login_that_cannot_be_checked_locks_nobody_out() {
    let bus = Bus::builder()
        .settings(Default::default())
        .store_url("memory:");
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    let site = Site::with(bus, |dashboard| dashboard.authorize(Away)).await;
    let login = site.get("/login").await;
    for (name, last) in [("ann", 503), ("counted", 429)] {
        let fields = [("csrf", login.csrf()), ("name", name), ("secret", "s")];
        for _ in 0..10 {
            assert_eq!(site.post("/login", &fields).await.status, 503);
        }
        assert_eq!(site.post("/login", &fields).await.status, last, "{name}");
    }
}

/// Lets a user see the queue `mail`, for so many questions.
#[derive(Debug)]
struct ForAWhile(AtomicUsize);

impl Access for ForAWhile {
    fn user<'a>(
        &'a self,
        _: Option<&'a Credentials>,
    ) -> BoxFuture<'a, Result<Option<User>, AccessError>> {
        let asked = self.0.fetch_add(1, Ordering::Relaxed);
        let queue = if asked == 0 { "mail" } else { "another" };
        let user = User::new("ann", Role::View).only(move |it| it == queue);
        Box::pin(std::future::ready(Ok(Some(user))))
    }
}

#[tokio::test]
async fn nothing_is_exported_of_a_queue_that_its_user_sees_no_more_at_the_end() {
    let bus = Bus::builder()
        .settings(Default::default())
        .store_url("memory:");
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    let asked = ForAWhile(AtomicUsize::new(0));
    let site = Site::with(bus, |dashboard| dashboard.authorize(asked)).await;
    let file = site.get("/records/export?queue=mail").await;
    assert_eq!(file.status, 403, "{file:?}");
    assert!(file.text.contains("may not see the queue any more"));
}

#[tokio::test]
async fn live_updates_end_with_their_user() {
    let world = World::start().await;
    let live = world.of_user(world.site.request(Method::GET, "/live"));
    let live = live.send().await.unwrap();
    assert_eq!(live.status(), 200);
    world.is_now(Standing::Removed);
    let text = tokio::time::timeout(Duration::from_secs(60), live.text());
    let text = text.await.expect("it ends").unwrap();
    assert!(text.contains("event: ended"), "{text}");
}

/// Sends half of a form; the rest when its user is something else. Returns the status.
async fn sent_in_halves(world: &World, path: &str, form: &str, standing: Standing) -> u16 {
    let mut stream = TcpStream::connect(world.site.address()).await.unwrap();
    let (len, cookies) = (form.len(), world.cookies());
    let head = format!(
        "POST /jobs{path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookies}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len}\r\n\
         Expect: 100-continue\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut interim = Vec::new();
    while !interim.ends_with(b"\r\n\r\n") {
        interim.push(stream.read_u8().await.unwrap());
    }
    assert!(
        interim.starts_with(b"HTTP/1.1 100"),
        "{path}: its form is waited for"
    );
    let (first, rest) = form.split_at(len / 2);
    stream.write_all(first.as_bytes()).await.unwrap();
    world.is_now(standing);
    stream.write_all(rest.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    world.is_now(Standing::Admin);
    text.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_form_that_takes_its_time_is_checked_at_its_end() {
    let world = World::start().await;
    bury(&world.site, "mail", 3, "x").await;
    let queue = world.site.bus.queue_named::<Value>("mail").unwrap();
    let waiting = queue.push(json!(1), Duration::from_secs(60)).await.unwrap();
    let waiting = waiting.id().to_string();
    let dead = world.site.bus.dead_letters().page().await.unwrap();
    let dead = dead.items[0].id.to_string();
    let question = world.get("/act/pause?queue=mail").await;
    let csrf = question.csrf();
    for path in FORMS {
        for (standing, _) in ENDS {
            let id = if ["cancel", "run-now", "reschedule"]
                .iter()
                .any(|it| path.ends_with(it))
            {
                &waiting
            } else {
                &dead
            };
            let mut form = form_urlencoded::Serializer::new(String::new());
            form.extend_pairs([("queue", "mail"), ("id", id), ("rate", "1"), ("delay", "1")]);
            form.extend_pairs([("payload", "7"), ("csrf", csrf)]);
            let status = sent_in_halves(&world, path, &form.finish(), standing).await;
            assert!(
                [403, 404].contains(&status),
                "{path}, {standing:?}: {status}"
            );
        }
    }
    assert!(world.site.bus.controls().await.unwrap().is_empty());
    assert_eq!(world.dead().await, 3);
    let stats = world.site.bus.stats("mail").await.unwrap();
    assert_eq!((stats.ready, stats.scheduled), (0, 1));
}
