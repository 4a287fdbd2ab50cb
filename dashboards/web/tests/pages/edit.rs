//! Editing dead letters.

use std::time::Duration;

use duly::Bus;
use duly::codec::{Codec, Key, KeyRing};
use duly::config::QueueChoices;
use duly::event::State;
use duly::records::Outcome;
use duly::time::When;
use duly::{EventId, Queue};
use duly_dashboard::Role;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::site::Site;

/// Makes a dead letter.
async fn bury<T>(queue: &Queue<T>, payload: T) -> EventId
where
    T: serde::Serialize + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    let id = queue.push(payload, When::Now).await.unwrap().id();
    let lease = queue.lease(1, Duration::from_secs(60));
    let leased = lease.wait(Duration::from_secs(9)).send().await.unwrap();
    let _ = leased[0].bury("no such address").await.unwrap();
    id
}

fn hidden<'a>(page: &'a str, name: &str) -> &'a str {
    let (_, rest) = page
        .split_once(&format!("name=\"{name}\" value=\""))
        .unwrap();
    rest.split('"').next().unwrap()
}

#[tokio::test]
async fn a_dead_letter_is_edited_and_revived_with_a_record_of_who_did_it() {
    let site = Site::memory(Role::Admin).await;
    let queue = site.bus.queue_named::<Value>("mail").unwrap();
    let id = bury(
        &queue,
        json!({"to": "nobody", "n": 18446744073709551615_u64}),
    )
    .await;
    let path = format!("/dead/edit?queue=mail&id={id}");
    let dead = site.get("/dead").await.text;
    assert!(dead.contains("/dead/edit?queue=mail"), "{dead}");
    let form = site.get(&path).await;
    assert!(
        form.text.contains("&#34;to&#34;: &#34;nobody&#34;"),
        "{form:?}"
    );
    let id_text = id.to_string();
    let was = hidden(&form.text, "was");
    let fields = |payload| {
        [
            ("csrf", form.csrf()),
            ("queue", "mail"),
            ("id", &*id_text),
            ("was", was),
            ("payload", payload),
        ]
    };

    // What is wrong is said, and what was entered is kept.
    for (entered, said) in [
        ("{\"to\": \"ann\",", "it is no JSON: EOF while parsing"),
        ("", "nothing was entered"),
    ] {
        let wrong = site.post("/dead/edit", &fields(entered)).await;
        assert_eq!(wrong.status, 400, "{entered}");
        assert!(wrong.text.contains(said), "{said}: {wrong:?}");
        let kept = entered.replace('"', "&#34;");
        assert!(wrong.text.contains(&kept), "{wrong:?}");
        assert_eq!(hidden(&wrong.text, "was"), was);
    }
    let event = site.bus.event(id).await.unwrap().unwrap();
    assert_eq!(event.state, State::Dead);

    let mended = r#"{"to": "ann@example.org", "n": 18446744073709551615}"#;
    let done = site.post("/dead/edit", &fields(mended)).await;
    assert_eq!(done.status, 303, "{done:?}");
    let event = site.bus.event(id).await.unwrap().unwrap();
    assert_eq!(event.state, State::Ready);
    let payload: Value = event.payload_as().unwrap();
    assert_eq!(payload, serde_json::from_str::<Value>(mended).unwrap());
    let records = site.bus.records().id(id).page().await.unwrap().items;
    for outcome in [Outcome::Edited, Outcome::Revived] {
        let record = records.iter().find(|it| it.outcome == outcome).unwrap();
        assert_eq!(record.by.as_deref(), Some("anonymous"));
    }
    // It is over: the form says so, and loses nothing.
    let late = site.post("/dead/edit", &fields("[1]")).await;
    assert_eq!(late.status, 409);
    assert!(late.text.contains("no dead letter"), "{late:?}");
}

#[tokio::test]
async fn an_edit_does_not_overwrite_what_another_has_edited_meanwhile() {
    let site = Site::memory(Role::Admin).await;
    let queue = site.bus.queue_named::<Value>("mail").unwrap();
    let id = bury(&queue, json!("mine")).await;
    let form = site.get(&format!("/dead/edit?queue=mail&id={id}")).await;
    let edit = site.bus.dead_letters().queue("mail");
    let edited = edit.edit(id, &json!("of another")).await.unwrap();
    assert_eq!(edited, duly::dead_letters::Edited::Edited);
    let id_text = id.to_string();
    let fields = |was| {
        [
            ("csrf", form.csrf()),
            ("queue", "mail"),
            ("id", &*id_text),
            ("was", was),
            ("payload", "\"mended\""),
        ]
    };
    let conflict = site
        .post("/dead/edit", &fields(hidden(&form.text, "was")))
        .await;
    assert_eq!(conflict.status, 409);
    for text in ["was changed meanwhile", "of another", "mended"] {
        assert!(conflict.text.contains(text), "{text}: {conflict:?}");
    }
    let event = site.bus.event(id).await.unwrap().unwrap();
    assert_eq!(event.state, State::Dead);
    // Who has seen it may send it again.
    let again = fields(hidden(&conflict.text, "was"));
    assert_eq!(site.post("/dead/edit", &again).await.status, 303);
    let event = site.bus.event(id).await.unwrap().unwrap();
    assert_eq!(event.payload_as::<String>().unwrap(), "mended");
}

#[tokio::test]
async fn an_edit_needs_a_role_and_a_form_of_ours() {
    let site = Site::memory(Role::View).await;
    let queue = site.bus.queue_named::<Value>("mail").unwrap();
    let id = bury(&queue, json!(1)).await.to_string();
    let path = format!("/dead/edit?queue=mail&id={id}");
    assert_eq!(site.get(&path).await.status, 403);
    let own = Site::memory(Role::Admin).await;
    let own = own.get("/act/pause?queue=mail").await;
    let fields = [
        ("csrf", own.csrf()),
        ("queue", "mail"),
        ("id", &id),
        ("payload", "2"),
    ];
    assert_eq!(site.post("/dead/edit", &fields).await.status, 403);
    assert!(!site.get("/dead").await.text.contains("/dead/edit"));
    assert_eq!(site.bus.stats("mail").await.unwrap().dead, 1);

    let site = Site::of(site.bus.clone(), Role::Admin).await;
    let forged = [("queue", "mail"), ("id", &*id), ("payload", "2")];
    assert_eq!(site.post("/dead/edit", &forged).await.status, 403);
    assert_eq!(site.bus.stats("mail").await.unwrap().dead, 1);
}

#[tokio::test]
async fn an_encrypted_payload_is_not_edited() {
    let encrypted = QueueChoices {
        encrypt: Some(true),
        ..QueueChoices::default()
    };
    let keys = KeyRing::new();
    keys.add("k1", Key::new([7; 32])).unwrap();
    keys.choose("k1").unwrap();
    let bus = Bus::builder().settings(Default::default());
    let bus = bus.store_url("memory:").keys(keys).queue("mail", encrypted);
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    let queue = bus.queue_named::<String>("mail").unwrap();
    let id = bury(&queue, "a secret".to_owned()).await.to_string();
    let site = Site::of(bus, Role::Admin).await;
    let page = site.get(&format!("/dead/edit?queue=mail&id={id}")).await;
    assert_eq!(page.status, 409);
    assert!(page.text.contains("encrypted under key"), "{page:?}");
    assert!(!page.text.contains("a secret"), "{page:?}");
    let own = site.get("/act/pause?queue=mail").await;
    let fields = [
        ("csrf", own.csrf()),
        ("queue", "mail"),
        ("id", &id),
        ("payload", "2"),
    ];
    assert_eq!(site.post("/dead/edit", &fields).await.status, 409);
    assert!(!site.get("/dead").await.text.contains("/dead/edit"));
    assert_eq!(site.bus.stats("mail").await.unwrap().dead, 1);
}

#[tokio::test]
async fn an_edit_keeps_the_digits_of_what_was_not_edited() {
    let site = Site::memory(Role::Admin).await;
    let queue = site.bus.queue_named::<Box<RawValue>>("mail").unwrap();
    let numbers = r#""of":[1234567890123456.78,18446744073709551616,1.10,1e2]"#;
    let text = format!(r#"{{"to":"no \\\" body ","n":1,{numbers}}}"#);
    let id = bury(&queue, RawValue::from_string(text.clone()).unwrap()).await;
    let form = site.get(&format!("/dead/edit?queue=mail&id={id}")).await;
    let shown = form.text.split_once("<textarea").unwrap().1;
    let shown = shown.split_once('>').unwrap().1;
    let shown = shown.split_once("</textarea>").unwrap().0;
    let shown = shown.replace("&#34;", "\"");
    let edited = shown.replace("\"n\": 1,", "\"n\": 2,");
    assert_ne!(edited, shown);
    let id_text = id.to_string();
    let fields = [
        ("csrf", form.csrf()),
        ("queue", "mail"),
        ("id", &*id_text),
        ("was", hidden(&form.text, "was")),
        ("payload", &*edited),
    ];
    let done = site.post("/dead/edit", &fields).await;
    assert_eq!(done.status, 303, "{done:?}");
    let event = site.bus.event(id).await.unwrap().unwrap();
    let payload: Box<RawValue> = event.payload_as().unwrap();
    assert_eq!(payload.get(), text.replace("\"n\":1", "\"n\":2"));
}

#[tokio::test]
async fn an_edit_into_another_codec_refuses_a_number_that_it_cannot_keep() {
    let packed = QueueChoices {
        codec: Some(Codec::MsgPack),
        ..QueueChoices::default()
    };
    let bus = Bus::builder().settings(Default::default());
    let bus = bus.store_url("memory:").queue("mail", packed);
    let bus = bus.only_registered().publish_only().start().await.unwrap();
    let queue = bus.queue_named::<Value>("mail").unwrap();
    let id = bury(&queue, json!({"n": 1})).await;
    let site = Site::of(bus, Role::Admin).await;
    let form = site.get(&format!("/dead/edit?queue=mail&id={id}")).await;
    let id_text = id.to_string();
    let edited = async |payload| {
        let fields = [
            ("csrf", form.csrf()),
            ("queue", "mail"),
            ("id", &*id_text),
            ("was", hidden(&form.text, "was")),
            ("payload", payload),
        ];
        site.post("/dead/edit", &fields).await
    };
    let wrong = edited("{\"n\": 18446744073709551616}").await;
    assert_eq!(wrong.status, 400, "{wrong:?}");
    assert!(wrong.text.contains("cannot be kept exactly"), "{wrong:?}");
    assert_eq!(edited("{\"n\": 2}").await.status, 303);
    let event = site.bus.event(id).await.unwrap().unwrap();
    assert_eq!(event.payload_as::<Value>().unwrap(), json!({"n": 2}));
}
