//! Rows that are ticked in a list are changed together, and a queue is purged: asked before, with who did
//! it in the audit.

use std::time::Duration;

use duly::EventId;
use duly::event::State;
use duly_dashboard::{Role, User};

use crate::forms::bury;
use crate::site::{Page, Site, until};

const HOUR: Duration = Duration::from_secs(3_600);

/// Pushes events that wait; returns their ids.
async fn push(site: &Site, queue: &str, many: u64) -> Vec<EventId> {
    let queue = site.bus.queue_named::<u64>(queue).unwrap();
    let mut ids = Vec::new();
    for number in 0..many {
        ids.push(queue.push(number, HOUR).await.unwrap().id());
    }
    ids
}

fn row(queue: &str, id: EventId) -> (&'static str, String) {
    ("chosen", format!("{queue}/{id}"))
}

/// Presses a button of the list, and then that of the question; returns the question and what follows.
async fn choose(site: &Site, action: &str, rows: &[(&str, String)]) -> (Page, Page) {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("list", "queue=mail&q=a b");
    query.extend_pairs(rows);
    let path = format!("/act/{action}");
    let asked = site.get(&format!("{path}?{}", query.finish())).await;
    let csrf = site.get("/act/pause?queue=mail").await.csrf().to_owned();
    let mut fields = vec![("csrf", csrf.as_str()), ("list", "queue=mail&q=a b")];
    fields.extend([("rate", "10000"), ("delay", "60")]);
    fields.extend(rows.iter().map(|(name, value)| (*name, value.as_str())));
    let done = site.post(&path, &fields).await;
    (asked, done)
}

async fn states(site: &Site, queue: &str, ids: &[EventId]) -> Vec<Option<State>> {
    let mut states = Vec::new();
    for id in ids {
        let event = site.bus.event_in(queue, *id).await.unwrap();
        states.push(event.map(|event| event.state));
    }
    states
}

/// Returns the actions and targets of the audit, the newest first.
async fn audit(site: &Site) -> Vec<(String, String)> {
    let page = site.bus.audit(None, 100).await.unwrap();
    let lines = page.items.into_iter();
    lines.map(|line| (line.action, line.target)).collect()
}

/// Returns what the page after an action says.
async fn said(site: &Site, done: &Page) -> String {
    assert_eq!(done.status, 303, "{}", done.text);
    let to = done.headers["location"].to_str().unwrap();
    let page = site.get(to.strip_prefix("/jobs").unwrap()).await.text;
    let (_, said) = page.split_once("role=\"status\">").expect("what was done");
    said.split('<').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_events_that_are_ticked_are_changed_and_no_others() {
    for (action, after, said_of) in [
        ("cancel-chosen", None, "3 events are cancelled."),
        (
            "run-chosen",
            Some(State::Ready),
            "3 events are rescheduled.",
        ),
        (
            "reschedule-chosen",
            Some(State::Scheduled),
            "3 events are rescheduled.",
        ),
    ] {
        let site = Site::memory(Role::Admin).await;
        let (mail, bills) = (push(&site, "mail", 4).await, push(&site, "bills", 2).await);
        let list = site.get("/find?queue=mail").await.text;
        for id in &mail {
            let tick = format!("type=\"checkbox\" name=\"chosen\" value=\"mail/{id}\"");
            assert!(list.contains(&tick), "{tick}: {list}");
        }
        // One of them twice, as a form may have it.
        let rows = [
            row("mail", mail[0]),
            row("bills", bills[1]),
            row("mail", mail[2]),
        ];
        let rows = [rows.as_slice(), &[row("mail", mail[0])]].concat();
        let (asked, done) = choose(&site, action, &rows).await;
        assert!(
            asked.text.contains("3 events of 2 queues"),
            "{}",
            asked.text
        );
        assert!(
            asked.text.contains("3 of them still waiting."),
            "{}",
            asked.text
        );
        assert_eq!(said(&site, &done).await, said_of);
        let to = done.headers["location"].to_str().unwrap();
        assert!(to.starts_with("/jobs/find?q=a+b&queue=mail&"), "{to}");
        let waits = Some(State::Scheduled);
        let left = states(&site, "mail", &mail).await;
        let is_cancelled = |state: &Option<State>| {
            state.is_none_or(|state| state == State::Cancelled) == after.is_none()
        };
        assert_eq!([left[1], left[3]], [waits; 2], "{action}");
        assert!(
            [left[0], left[2]].iter().all(is_cancelled),
            "{action}: {left:?}"
        );
        let due = site.due_soon().await;
        assert_eq!(due, after.map_or(0, |_| 3), "{action}");
        let lines = audit(&site).await;
        assert_eq!(lines.len(), 2, "{lines:?}");
        let [(name, bills_line), (_, mail_line)] = &lines[..] else {
            unreachable!()
        };
        let (bills_line, mail_line) = if bills_line.starts_with("bills") {
            (bills_line, mail_line)
        } else {
            (mail_line, bills_line)
        };
        assert!(name.starts_with("events "), "{name}");
        assert_eq!(*bills_line, format!("bills, events {}", bills[1]));
        assert_eq!(*mail_line, format!("mail, events {} {}", mail[0], mail[2]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dead_letters_that_are_ticked_are_revived_or_dropped() {
    for (action, dead, ready, words) in [
        ("revive-chosen", 2, 2, "2 dead letters are ready again."),
        ("drop-chosen", 2, 0, "2 dead letters are dropped."),
    ] {
        let site = Site::memory(Role::Admin).await;
        bury(&site, "mail", 4, "refused").await;
        let letters = site.bus.dead_letters().queue("mail").page().await.unwrap();
        let ids: Vec<_> = letters.items.iter().map(|letter| letter.id).collect();
        let list = site.get("/dead?queue=mail").await.text;
        for id in &ids {
            assert!(list.contains(&format!("value=\"mail/{id}\"")), "{list}");
        }
        let rows = [row("mail", ids[0]), row("mail", ids[3])];
        let (asked, done) = choose(&site, action, &rows).await;
        assert!(
            asked.text.contains("2 dead letters of queue mail"),
            "{}",
            asked.text
        );
        assert!(
            asked.text.contains("2 of them still dead."),
            "{}",
            asked.text
        );
        assert_eq!(said(&site, &done).await, words);
        let to = done.headers["location"].to_str().unwrap();
        assert!(to.starts_with("/jobs/dead?"), "{to}");
        let stats = site.bus.stats("mail").await.unwrap();
        assert_eq!((stats.dead, stats.ready), (dead, ready), "{action}");
        let target = format!("mail, dead letters {} {}", ids[0], ids[3]);
        assert_eq!(audit(&site).await[0].1, target);
        // What is done is not done again, and is not recorded again.
        let (asked, done) = choose(&site, action, &rows).await;
        assert!(
            asked.text.contains("0 of them still dead."),
            "{}",
            asked.text
        );
        assert_eq!(done.status, 409, "{}", done.text);
        assert_eq!(audit(&site).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_gone_meanwhile_is_left_out_and_told() {
    let site = Site::memory(Role::Admin).await;
    let ids = push(&site, "mail", 3).await;
    let queue = site.bus.queue_named::<u64>("mail").unwrap();
    let _ = queue.cancel(ids[1]).await.unwrap();
    let never = EventId::from_bytes([7; 16]);
    let rows = [row("mail", ids[0]), row("mail", ids[1]), row("mail", never)];
    let (asked, done) = choose(&site, "cancel-chosen", &rows).await;
    assert!(
        asked.text.contains("1 of them still waiting."),
        "{}",
        asked.text
    );
    let expected = "1 event is cancelled; 2 were not waiting any more.";
    assert_eq!(said(&site, &done).await, expected);
    let target = format!("mail, events {}", ids[0]);
    assert_eq!(
        audit(&site).await,
        [("events cancelled".to_owned(), target)]
    );
    // A full page is one of the most; its ids are all in the audit.
    let ids = push(&site, "mail", 51).await;
    let rows: Vec<_> = ids.iter().map(|id| row("mail", *id)).collect();
    let (asked, done) = choose(&site, "cancel-chosen", &rows).await;
    assert_eq!((asked.status.as_u16(), done.status.as_u16()), (400, 400));
    let (_, done) = choose(&site, "cancel-chosen", &rows[..50]).await;
    assert_eq!(said(&site, &done).await, "50 events are cancelled.");
    let lines = audit(&site).await;
    for id in &ids[..50] {
        let named = lines
            .iter()
            .filter(|(_, target)| target.contains(&id.to_string()));
        assert_eq!(named.count(), 1, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_that_have_expired_are_told_of_when_they_are_not_revived() {
    let site = Site::memory(Role::Admin).await;
    let queue = site.bus.queue_named::<u64>("mail").unwrap();
    let expires = site.bus.store_time() + Duration::from_secs(3);
    let event = queue.event(7).expires_after(Duration::from_secs(2));
    let expired = event.push().await.unwrap().id();
    bury(&site, "mail", 2, "refused").await; // it, and the first of the others
    until("it has expired", async || site.bus.store_time() > expires).await;
    let letters = site.bus.dead_letters().queue("mail").page().await.unwrap();
    let mut ids = letters.items.iter().map(|letter| letter.id);
    let other = ids.find(|id| *id != expired).unwrap();
    let (asked, done) = choose(&site, "revive-chosen", &[row("mail", expired)]).await;
    assert!(
        asked.text.contains("1 of them still dead."),
        "{}",
        asked.text
    );
    assert_eq!(done.status, 409, "{}", done.text);
    let words = "none of them is dead any more, or its expiry has passed";
    assert!(done.text.contains(words), "{}", done.text);
    let both = [row("mail", expired), row("mail", other)];
    let (_, done) = choose(&site, "revive-chosen", &both).await;
    let expected =
        "1 dead letter is ready again; 1 was not dead any more, or its expiry has passed.";
    assert_eq!(said(&site, &done).await, expected);
    let csrf = site.get("/act/pause?queue=mail").await.csrf().to_owned();
    let id = expired.to_string();
    let fields = [("csrf", csrf.as_str()), ("queue", "mail"), ("id", &id)];
    let done = site.post("/act/revive", &fields).await;
    assert_eq!(done.status, 409, "{}", done.text);
    assert!(done.text.contains("its expiry has passed"), "{}", done.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_chosen_by_nobody_changes_nothing() {
    let owner = Site::memory(Role::Admin).await;
    let own = push(&owner, "shop.mail", 2).await;
    let other = push(&owner, "mill.mail", 2).await;
    bury(&owner, "mill.bills", 1, "refused").await;
    let tenant = User::new("ann", Role::Admin).only(|queue| queue.starts_with("shop."));
    let tenant = tenant.only_schedules_of("shop");
    let site = Site::of_user(owner.bus.clone(), tenant).await;
    let csrf = site
        .get("/act/pause?queue=shop.mail")
        .await
        .csrf()
        .to_owned();
    let id = own[0];
    let strange = [
        String::new(),
        "x".to_owned(),
        "shop.mail/".to_owned(),
        format!("/{id}"),
        format!("{id}"),
        "shop.mail/../mill.mail".to_owned(),
        "shop.mail/\"><script>alert(1)</script>".to_owned(),
        format!("shop.mail/{id} mill.mail/{}", other[0]),
        format!("mill.mail/{}", other[0]),
        format!("mill.mail/{id}"),
        format!("shop.duly.audit/{id} mill.duly.audit/{id}"),
        "\0/\0".to_owned(),
    ];
    for chosen in &strange {
        for action in ["cancel", "run", "reschedule", "revive", "drop"] {
            let path = format!("/act/{action}-chosen");
            let mut query = form_urlencoded::Serializer::new(String::new());
            query
                .append_pair("chosen", chosen)
                .append_pair("list", "\r\n//evil");
            let asked = site.get(&format!("{path}?{}", query.finish())).await;
            let fields = [("csrf", csrf.as_str()), ("chosen", chosen), ("delay", "1")];
            let done = site.post(&path, &fields).await;
            for page in [asked, done] {
                let status = page.status.as_u16();
                assert!(
                    [400, 404].contains(&status),
                    "{chosen}: {status}: {}",
                    page.text
                );
                assert!(!page.text.contains("<script>alert"), "{}", page.text);
            }
        }
    }
    // Beside what is the tenant's own, another's is not taken either; nor is a form of elsewhere.
    let both = [row("shop.mail", own[0]), row("mill.mail", other[0])];
    let mut fields: Vec<_> = both
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    for csrf in [None, Some("forged"), Some(csrf.as_str())] {
        fields.truncate(2);
        fields.extend(csrf.map(|csrf| ("csrf", csrf)));
        let done = site.post("/act/cancel-chosen", &fields).await;
        let is_own = csrf.is_some_and(|csrf| csrf != "forged");
        assert_eq!(done.status, if is_own { 404 } else { 403 }, "{}", done.text);
    }
    for queue in ["mill.mail", "mill.bills", "no-such", "shop.duly.schedules"] {
        let asked = site.get(&format!("/act/purge?queue={queue}")).await;
        let fields = [("csrf", csrf.as_str()), ("queue", queue)];
        let done = site.post("/act/purge", &fields).await;
        for page in [asked, done] {
            assert!(
                [400, 404].contains(&page.status.as_u16()),
                "{queue}: {}",
                page.text
            );
        }
    }
    for (queue, ids) in [("shop.mail", &own), ("mill.mail", &other)] {
        assert_eq!(states(&site, queue, ids).await, [Some(State::Scheduled); 2]);
    }
    assert_eq!(site.bus.stats("mill.bills").await.unwrap().dead, 1);
    assert_eq!(audit(&owner).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_cancels_what_waits_in_its_queue_and_nothing_else() {
    let site = Site::memory(Role::Admin).await;
    bury(&site, "mail", 2, "refused").await;
    let (mail, bills) = (
        push(&site, "mail", 120).await,
        push(&site, "bills", 3).await,
    );
    site.bus
        .queue_named::<u64>("mail")
        .unwrap()
        .push(0, Duration::ZERO)
        .await
        .unwrap();
    let asked = site.get("/act/purge?queue=mail").await;
    assert!(
        asked.text.contains("121 events wait in it."),
        "{}",
        asked.text
    );
    let csrf = asked.csrf().to_owned();
    let forged = site
        .post("/act/purge", &[("queue", "mail"), ("csrf", "x")])
        .await;
    assert_eq!(forged.status, 403);
    let states_before = states(&site, "mail", &mail).await;
    assert!(
        states_before
            .iter()
            .all(|state| *state == Some(State::Scheduled))
    );
    let fields = [("queue", "mail"), ("rate", "100000"), ("csrf", &csrf)];
    let done = site.post("/act/purge", &fields).await;
    assert_eq!(said(&site, &done).await, "The purge has begun.");
    until("its end", async || {
        let page = site.get("/find?queue=mail").await.text;
        page.contains("Purge queue mail") && page.contains("<strong>121</strong> so far, done")
    })
    .await;
    let stats = site.bus.stats("mail").await.unwrap();
    assert_eq!((stats.scheduled, stats.ready, stats.dead), (0, 0, 2));
    assert_eq!(
        states(&site, "bills", &bills).await,
        [Some(State::Scheduled); 3]
    );
    let line = ("queue purged".to_owned(), "mail".to_owned());
    assert_eq!(audit(&site).await, [line]);
    let page = site.get("/audit").await.text;
    assert!(
        page.contains("anonymous") && page.contains("queue purged"),
        "{page}"
    );
}
