//! What pages say: hostile texts, headers, exports, encrypted payloads.

use std::time::Duration;

use duly::Bus;
use duly::codec::{Key, KeyRing};
use duly::config::QueueChoices;
use duly::schedule::ScheduleOptions;
use duly::time::When;
use duly_dashboard::Role;
use serde_json::{Value, json};

use crate::forms::bury;
use crate::site::Site;

const HOSTILE: &str = "</pre><script>alert(1)</script>\"'><img src=x onerror=alert(1)>";

#[tokio::test]
async fn hostile_texts_are_escaped_on_every_page() {
    let site = Site::memory(Role::Admin).await;
    let queue = site.bus.queue_named::<Value>("mail").unwrap();
    let event = queue.event(json!({ HOSTILE: HOSTILE })).key(HOSTILE);
    let id = event.header(HOSTILE, HOSTILE).push().await.unwrap().id();
    let leased = queue
        .lease(1, Duration::from_secs(60))
        .wait(Duration::from_secs(9));
    let leased = leased.send().await.unwrap();
    let _ = leased[0].bury(HOSTILE).await.unwrap();
    let schedule = ScheduleOptions::new("mail", "@daily").unwrap();
    let schedule = schedule.payload(&HOSTILE).unwrap();
    site.bus.schedules().set("hostile", schedule).await.unwrap();
    let text: String = form_urlencoded::byte_serialize(HOSTILE.as_bytes()).collect();
    for path in [
        "/".to_owned(),
        format!("/?done={text}"),
        format!("/queues?q={text}"),
        format!("/queues?sort={text}&order={text}&page={text}"),
        format!("/queues/{text}"),
        "/queues/mail".to_owned(),
        format!("/queues/mail/events/{id}"),
        "/dead".to_owned(),
        format!("/dead?error={text}&key={text}"),
        format!("/dead?cause={text}"),
        "/records".to_owned(),
        format!("/records?key={text}&error={text}"),
        format!("/records?since={text}"),
        format!("/find?id={text}"),
        format!("/schedules?q={text}&page={text}"),
        format!("/schedules/{text}"),
        "/schedules/hostile".to_owned(),
        format!("/act/run-schedule?schedule={text}"),
        format!("/login?to={text}"),
        format!("/act/revive-all?error={text}"),
        format!("/act/replay?queue=mail&key={text}&error={text}"),
        format!("/act/{text}"),
    ] {
        let page = site.get(&path).await;
        assert_ne!(page.status, 500, "{path}");
        assert!(!page.text.contains("<script>"), "{path}: {page:?}");
        assert!(!page.text.contains("<img src=x"), "{path}: {page:?}");
    }
    let event = site.get(&format!("/queues/mail/events/{id}")).await;
    assert!(event.text.contains("&#60;script&#62;alert(1)"), "{event:?}");
}

#[tokio::test]
async fn marks_that_turn_a_text_are_seen_as_numbers() {
    const TURNED: &str = "ann\u{202e}gnp.exe\u{7}";
    let site = Site::memory(Role::Admin).await;
    let queue = site.bus.queue_named::<Value>("mail").unwrap();
    let event = queue.event(json!(TURNED)).key(TURNED);
    let id = event.header("name", TURNED).push().await.unwrap().id();
    let minute = Duration::from_secs(60);
    let leased = queue.lease(1, minute).wait(minute).send().await.unwrap();
    let _ = leased[0].bury(TURNED).await.unwrap();
    let letters = site.bus.dead_letters().queue("mail").by(TURNED);
    let edited = letters.edit(id, &json!(TURNED)).await.unwrap();
    assert_eq!(edited, duly::dead_letters::Edited::Edited);
    let audit = (TURNED, "dead letter edited", TURNED);
    site.bus
        .add_to_audit(audit.0, audit.1, audit.2)
        .await
        .unwrap();
    for path in [
        "/audit".to_owned(),
        "/dead".to_owned(),
        "/records".to_owned(),
        "/find?state=dead&queue=mail".to_owned(),
        format!("/queues/mail/events/{id}"),
    ] {
        let page = site.get(&path).await;
        assert!(page.text.contains("\\u{202e}"), "{path}: {page:?}");
        let raw = page.text.contains(['\u{202e}', '\u{7}']);
        assert!(!raw, "{path}: {page:?}");
    }
}

#[tokio::test]
async fn every_response_forbids_what_is_not_ours() {
    let site = Site::memory(Role::View).await;
    for path in [
        "/",
        "/queues",
        "/assets/style.css",
        "/nothing",
        "/login",
        "/queues/no",
    ] {
        let page = site.get(path).await;
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"));
        assert!(
            !policy.contains("unsafe") && !policy.contains('*'),
            "{policy}"
        );
        assert_eq!(page.headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(page.headers["x-frame-options"], "DENY", "{path}");
        for inline in [
            " style=",
            "<style",
            " onclick=",
            "<script>",
            "http://",
            "https://",
        ] {
            let is_style = path.starts_with("/assets");
            assert!(
                is_style || !page.text.contains(inline),
                "{path} has {inline}"
            );
        }
    }
}

#[tokio::test]
async fn an_encrypted_payload_is_hidden() {
    let encrypted = QueueChoices {
        encrypt: Some(true),
        ..QueueChoices::default()
    };
    let keys = KeyRing::new();
    keys.add("k1", Key::new([7; 32])).unwrap();
    keys.choose("k1").unwrap();
    let bus = Bus::builder()
        .settings(Default::default())
        .store_url("memory:")
        .keys(keys)
        .queue("mail", encrypted);
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    let queue = bus.queue_named::<String>("mail").unwrap();
    let id = queue
        .push("a secret".to_owned(), Duration::from_secs(60))
        .await
        .unwrap()
        .id();
    let site = Site::of(bus, Role::Admin).await;
    let page = site.get(&format!("/queues/mail/events/{id}")).await;
    assert!(
        page.text.contains("Hidden: encrypted under key"),
        "{page:?}"
    );
    assert!(!page.text.contains("a secret"), "{page:?}");
}

#[tokio::test]
async fn records_are_exported_in_bounded_pages() {
    let site = Site::memory(Role::View).await;
    let queue = site.bus.queue_named::<u64>("mail").unwrap();
    let sent = queue
        .push_many(0..10_050, Duration::from_secs(3_600))
        .await
        .unwrap();
    for id in sent.iter().map(duly::Receipt::id) {
        let cancelled = queue.cancel(id).await.unwrap();
        assert_eq!(cancelled, duly::CancelOutcome::Cancelled);
    }
    let first = site
        .get("/records/export?queue=mail&outcome=cancelled&format=csv")
        .await;
    assert_eq!(first.headers["content-type"], "text/csv; charset=utf-8");
    assert_eq!(first.text.lines().count(), 10_001);
    let link = first.headers["link"].to_str().unwrap();
    let next = link
        .split(['<', '>'])
        .nth(1)
        .unwrap()
        .strip_prefix("/jobs")
        .unwrap();
    let rest = site.get(next).await;
    assert_eq!(rest.text.lines().count(), 51);
    assert!(!rest.headers.contains_key("link"));
    let lines = site
        .get("/records/export?queue=mail&order=oldest&format=jsonl")
        .await;
    let line: Value = serde_json::from_str(lines.text.lines().next().unwrap()).unwrap();
    assert_eq!(line["outcome"], "cancelled");
}

#[tokio::test]
async fn no_cell_of_an_export_is_a_formula_or_a_command() {
    let site = Site::memory(Role::View).await;
    let queue = site.bus.queue_named::<u64>("mail").unwrap();
    let hostile = [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        " \r\n=1",
        "＝1",
        "\u{1b}]0;x\u{7}",
    ];
    for text in hostile {
        queue.event(1).key(text).push().await.unwrap();
    }
    let wait = Duration::from_secs(9);
    let leased = queue
        .lease(hostile.len(), Duration::from_secs(60))
        .wait(wait);
    for event in leased.send().await.unwrap() {
        let _ = event
            .bury("=HYPERLINK(\"http://x\")\u{1b}[2J")
            .await
            .unwrap();
    }
    let csv = site.get("/records/export?queue=mail&format=csv").await;
    let mut lines = csv::Reader::from_reader(csv.text.as_bytes());
    let records: Vec<_> = lines.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), hostile.len(), "{csv:?}");
    for cell in records.iter().flatten() {
        assert!(
            !cell.trim_start().starts_with(['=', '+', '-', '@', '＝']),
            "{cell}"
        );
        assert!(!cell.contains(char::is_control), "{cell:?}");
    }
    // A file for programs has what was written.
    let lines = site.get("/records/export?queue=mail&format=jsonl").await;
    assert!(lines.text.contains("\"=1+1\""), "{lines:?}");
}

#[tokio::test]
async fn an_event_tells_its_life() {
    let site = Site::memory(Role::Operate).await;
    let queue = site.bus.queue_named::<Value>("mail").unwrap();
    let id = queue
        .push(json!({"to": "ann"}), When::Now)
        .await
        .unwrap()
        .id();
    let leased = queue
        .lease(1, Duration::from_secs(60))
        .wait(Duration::from_secs(9));
    let leased = leased.send().await.unwrap();
    let _ = leased[0]
        .retry_after(Duration::from_secs(300), "the line is busy")
        .await
        .unwrap();
    let page = site.get(&format!("/queues/mail/events/{id}")).await.text;
    for text in [
        "Pushed",
        "Due for attempt 1",
        "Leased",
        "Failed, to be retried",
        "the line is busy",
        "it is due in",
        "&#34;to&#34;: &#34;ann&#34;",
        "Run now",
    ] {
        assert!(page.contains(text), "{text} is not in {page}");
    }
    let found = site.get(&format!("/find?id={id}")).await;
    assert_eq!(
        found.headers["location"],
        format!("/jobs/queues/mail/events/{id}")
    );
}

#[tokio::test]
async fn cookies_are_secure_where_browsers_come_over_tls() {
    for is_secure in [false, true] {
        let bus = Bus::builder().settings(Default::default());
        let bus = bus.store_url("memory:").only_registered().publish_only();
        let bus = bus.start().await.unwrap();
        let site = Site::with(bus, |dashboard| dashboard.secure(is_secure)).await;
        let request = reqwest::Client::new().get(site.url("/nodes"));
        let page = Site::send(request).await;
        let cookie = page.headers["set-cookie"].to_str().unwrap();
        assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
        assert_eq!(cookie.contains("; Secure"), is_secure, "{cookie}");
    }
}

#[tokio::test]
async fn live_updates_go_by_no_clock_that_is_set_back() {
    let site = Site::memory(Role::View).await;
    let script = site.get("/assets/live.js").await;
    assert!(script.text.contains("performance.now()"), "{script:?}");
    assert!(!script.text.contains("Date"), "{script:?}");
}

#[tokio::test]
async fn streams_are_bounded_and_one_that_ends_makes_room() {
    let site = Site::memory(Role::View).await;
    let mut streams = Vec::new();
    for _ in 0..64 {
        let stream = site.request(reqwest::Method::GET, "/live").send().await;
        let stream = stream.unwrap();
        assert_eq!(stream.status(), 200);
        streams.push(stream);
    }
    let refused = site.get("/live").await;
    assert_eq!(refused.status, 503);
    assert!(refused.text.contains("too many pages are kept current"));
    assert_eq!(site.get("/").await.status, 200, "pages are still shown");
    streams.clear();
    let again = async {
        loop {
            let stream = site.request(reqwest::Method::GET, "/live").send().await;
            if stream.unwrap().status() == 200 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), again)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_queue_shows_in_which_stage_its_attempts_waited() {
    let site = Site::memory(Role::View).await;
    let queue = site.bus.queue_named::<u64>("mail").unwrap();
    let before = site.get("/queues/mail").await;
    assert!(!before.text.contains("Lateness by stage"), "{before:?}");
    queue.push(1, When::Now).await.unwrap();
    let lease = queue.lease(1, Duration::from_secs(60));
    let leased = lease.wait(Duration::from_secs(9)).send().await.unwrap();
    let _ = leased[0].bury("no such address").await.unwrap();
    let page = site.get("/queues/mail").await.text;
    assert!(page.contains("Where the last 1 attempt waited"), "{page}");
    for (class, name) in [
        ("move", "until ready"),
        ("fetch", "until leased"),
        ("start", "for a worker"),
    ] {
        let legend = format!("<span class=\"{class}\">{name}</span>");
        assert!(page.contains(&legend), "{legend}: {page}");
    }
    // All of what ended so far is in the minute that is not over.
    let now = site.get("/").await.text;
    assert!(
        now.contains("Attempts a minute</span> <strong>1</strong>"),
        "{now}"
    );
    // A record may have a payload of 64 KiB: of two for each bar of the chart it is read, and no more.
    bury(&site, "mail", 70, "no such address").await;
    let page = site.get("/queues/mail").await.text;
    assert!(page.contains("Where the last 60 attempts waited"), "{page}");
    assert!(
        now.contains("<a href=\"/jobs/nodes\">Nodes alive</a></dt><dd>0</dd>"),
        "{now}"
    );
}
