//! What a form says when what was entered is wrong, and a page that cannot be shown.

use duly::time::When;
use duly_dashboard::Role;
use serde_json::{Value, json};

use crate::forms::bury;
use crate::site::Site;

/// A form whose action, field and entry are these, and what is said of it.
const WRONG: [(&str, &str, &str, &str); 16] = [
    ("rate", "rate", "10,5", "it must be a number"),
    ("rate", "rate", "-1", "rate"),
    ("reschedule", "delay", "soon", "it must be a number"),
    ("reschedule", "delay", "-1", "0 to 4294967295"),
    ("reschedule-all", "delay", "1e99", "0 to 4294967295"),
    ("reschedule-all", "rate", "0", "0.001 to 1000000"),
    ("cancel-all", "rate", "2e6", "0.001 to 1000000"),
    ("revive-all", "rate", "fast", "it must be a number"),
    ("purge", "rate", "NaN", "it must be a number"),
    ("replay", "version", "first", "0 to 4294967295"),
    ("replay", "rate", "0", "0.001 to 1000000"),
    ("replay", "name", "x", ""), // as long as no name may be
    ("reschedule-chosen", "delay", "-5", "0 to 4294967295"),
    (
        "reschedule-chosen",
        "delay",
        "",
        "seconds from now, or a time",
    ),
    ("reschedule", "delay", "", "seconds from now, or a time"),
    ("reschedule-all", "delay", "", "seconds from now, or a time"),
];

#[tokio::test]
async fn a_form_that_is_filled_in_wrongly_is_shown_again_with_what_was_entered() {
    let site = Site::memory(Role::Admin).await;
    bury(&site, "mail", 1, "refused").await;
    let queue = site.bus.queue_named::<Value>("mail").unwrap();
    let at = std::time::Duration::from_secs(3_600);
    let id = queue.push(json!(1), at).await.unwrap().id().to_string();
    let due = site.bus.event(id.parse().unwrap()).await.unwrap().unwrap();
    for (action, field, entered, why) in WRONG {
        let long = "n".repeat(5_000);
        let entered = if field == "name" { &long } else { entered };
        let of = match action {
            "reschedule" => format!("&id={id}"),
            "reschedule-chosen" => format!("&chosen=mail/{id}"),
            _ => String::new(),
        };
        let asked = site.get(&format!("/act/{action}?queue=mail{of}")).await;
        let mut fields = hidden(&asked.text);
        fields.push(("csrf".to_owned(), asked.csrf().to_owned()));
        fields.push((field.to_owned(), entered.to_owned()));
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        let again = site.post(&format!("/act/{action}"), &fields).await;
        let case = format!("{action} {field} {entered:.20}: {again:?}");
        assert_eq!(again.status, 400, "{case}");
        assert!(
            again.text.contains("Not done.") && again.text.contains(why),
            "{case}"
        );
        // The field that is wrong says so, has the focus, and what was entered.
        let (_, input) = again
            .text
            .split_once(&format!("id=\"i-{field}\""))
            .expect(&case);
        let (input, _) = input.split_once('>').expect(&case);
        for has in [
            format!("value=\"{entered}\""),
            "aria-invalid=\"true\" aria-describedby=\"wrong h-".to_owned(),
            "autofocus".to_owned(),
        ] {
            assert!(input.contains(&has), "{has}: {case}");
        }
        assert_eq!(again.text.matches("autofocus").count(), 1, "{case}");
        // It can be sent again.
        for (name, value) in hidden(&asked.text) {
            let is_there = hidden(&again.text)
                .iter()
                .any(|(known, kept)| *known == name && (*kept == value || name == "asked"));
            assert!(is_there, "{name} of {case}");
        }
    }
    let event = site.bus.event(id.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(event.due, due.due, "nothing was done");
    assert!(site.bus.controls().await.unwrap().is_empty());
    assert!(site.bus.audit(None, 9).await.unwrap().items.is_empty());
}

/// Returns the hidden fields of a form, without its token.
fn hidden(page: &str) -> Vec<(String, String)> {
    let mark = "<input type=\"hidden\" name=\"";
    let fields = page.split(mark).skip(1).map(|field| {
        let (name, rest) = field.split_once("\" value=\"").unwrap();
        (name.to_owned(), rest.split('"').next().unwrap().to_owned())
    });
    fields.filter(|(name, _)| name != "csrf").collect()
}

/// A page that cannot be shown looks like the others, and leads to the page before, and nowhere else.
#[tokio::test]
async fn a_page_that_cannot_be_shown_leads_back() {
    let site = Site::memory(Role::Admin).await;
    let queue = site.bus.queue_named::<Value>("mail").unwrap();
    queue.push(json!(1), When::Now).await.unwrap();
    let own = site.url("/records?queue=mail&outcome=failed");
    let elsewhere = own.replace("/jobs/", "/other/");
    for (path, status) in [
        ("/queues/none", 404),
        ("/nowhere", 404),
        ("/find?since=yesterday", 400),
        ("/act/fly?queue=mail", 404),
        ("/act/replay", 400),
    ] {
        for (from, back) in [
            (own.as_str(), "/jobs/records?queue=mail&#38;outcome=failed"),
            (&site.url("/"), ""),
            (&elsewhere, ""),
            ("https://example.org", ""),
            ("https://example.org/jobs//example.org", ""),
            ("nothing", ""),
        ] {
            let request = site.request(reqwest::Method::GET, path);
            let page = Site::send(request.header("referer", from)).await;
            let case = format!("{path} from {from}: {page:?}");
            assert_eq!(page.status, status, "{case}");
            assert_eq!(
                page.headers["content-type"], "text/html; charset=utf-8",
                "{case}"
            );
            assert!(page.text.contains("/jobs/assets/style.css"), "{case}");
            assert!(page.text.contains("href=\"/jobs/\">First page"), "{case}");
            let link = format!("href=\"{back}\">Back");
            let leads = page.text.contains(">Back");
            assert_eq!(leads, !back.is_empty(), "{case}");
            assert!(!leads || page.text.contains(&link), "{case}");
            assert!(!page.text.contains("example.org"), "{case}");
        }
    }
}
