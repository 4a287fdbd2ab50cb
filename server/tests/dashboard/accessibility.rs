//! Every page in a browser: by the rules of axe, by keyboard alone, at three widths, light and dark.

use super::checks::{Sample, browser, keyboard, violations};
use super::demo::demo;
use crate::rights::admin_settings;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_passes_axe_and_is_used_by_keyboard_alone() {
    let mut demo = demo("600").await;
    let url = demo.url.clone();
    let browser = browser().await;
    browser.goto(&format!("{url}/")).await;
    browser.sees("payments has").await;
    let mut first = Vec::new();
    for list in [
        "/find?queue=shop.cart-reminders",
        "/dead?queue=shop.payments",
    ] {
        browser.goto(&format!("{url}{list}")).await;
        let row = "return document.querySelector('[name=chosen]').value";
        first.push(browser.run(row).await.as_str().unwrap().to_owned());
    }
    let [waiting, dead] = [0, 1].map(|at| first[at].rsplit_once('/').unwrap().1);
    let one = |action: &str, queue: &str, id: &str| format!("/act/{action}?queue={queue}&id={id}");
    let of_waiting = |action: &str| one(action, "shop.cart-reminders", waiting);
    let of_dead = |action: &str| one(action, "shop.payments", dead);
    let pages = [
        "/",
        "/login",
        "/queues",
        "/queues?sort=name",
        "/queues/shop.invoices",
        "/queues/shop.payments",
        "/queues/no-such-queue",
        &format!("/queues/shop.cart-reminders/events/{waiting}"),
        &format!("/queues/shop.payments/events/{dead}"),
        "/dead?error=insufficient",
        &format!("/dead/edit?queue=shop.payments&id={dead}"),
        "/records?outcome=failed",
        "/schedules",
        "/schedules/shop.stock-sync",
        "/find",
        "/find?queue=shop.payments&state=scheduled",
        "/find?q=no-such-customer",
        "/audit",
        "/history?span=hour",
        "/history?span=year&queue=shop.payments",
        "/nodes",
        "/act/pause?queue=shop.invoices",
        "/act/purge?queue=shop.invoices",
        "/act/rate?queue=shop.payments",
        &of_waiting("cancel"),
        &of_waiting("reschedule"),
        &of_dead("revive"),
        "/act/reschedule-all?queue=shop.invoices",
        "/act/replay?queue=shop.invoices",
        &format!("/act/drop-chosen?chosen=shop.payments/{dead}"),
        "/act/cancel-chosen",
        "/act/run-all?queue=shop.invoices",
        "/act/cancel-all?queue=shop.cart-reminders",
        "/act/drop-all?queue=shop.payments",
        "/act/revive-all?queue=shop.payments",
        "/act/pause-schedule?schedule=shop.stock-sync",
        "/audit?queue=shop.invoices",
    ];
    let mut sample = Sample::of_environment();
    let mut found = sample.check(&browser, &url, &pages).await;
    // A sweep that goes on.
    let sweep = "/act/cancel-all?queue=shop.renewals";
    browser.goto(&format!("{url}{sweep}")).await;
    let slowly = "document.getElementById('i-rate').value = '0.001'";
    browser.run(slowly).await;
    browser.press("//main//form", "Cancel").await;
    browser.sees("so far, running").await;
    let stop = "return document.querySelector('main a[href*=\"/act/stop\"]').getAttribute('href')";
    let stop = browser.run(stop).await;
    let stop = stop.as_str().unwrap().strip_prefix(path_of(&url)).unwrap();
    let pages = ["/find", "/dead", "/records", stop];
    found.extend(sample.check(&browser, &url, &pages).await);
    browser.close().await;
    demo.process.kill().await.unwrap();
    assert_eq!(
        found.len(),
        0,
        "DULY_AXE_SEED={}\n{}",
        sample.seed,
        found.join("\n")
    );
}

/// Returns the path of a URL.
fn path_of(url: &str) -> &str {
    let (_, rest) = url.split_once("://").unwrap();
    rest.find('/').map_or("", |at| &rest[at..])
}

/// Who is logged in has a name, a way out, and here a choice of stores.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_of_who_is_logged_in_pass_axe_and_are_used_by_keyboard_alone() {
    let more = "accounts = { ann = 'secret' }\n[pools.second]\nurl = 'memory:'";
    let server = duly_server::Server::start(admin_settings(more)).await;
    let server = server.unwrap();
    let url = format!("http://{}/dashboard", server.admin_address());
    let browser = browser().await;
    let mut sample = Sample::of_environment();
    let mut found = sample.check(&browser, &url, &["/login"]).await;
    browser.goto(&format!("{url}/")).await;
    browser.types("#name", "ann").await;
    browser.types("#secret", "wrong").await;
    browser.press("//main//form", "Log in").await;
    browser.sees("do not match").await;
    browser.types("#name", "ann").await;
    browser.types("#secret", "secret\n").await;
    browser.sees("Nothing is scheduled for").await;
    let who = "return document.querySelector('.who').textContent";
    let who = browser.run(who).await;
    assert!(who.as_str().unwrap().contains("Log out"), "{who}");
    let pages = ["/", "/queues", "/find", "/history", "/audit", "/nodes"];
    found.extend(sample.check(&browser, &url, &pages).await);
    let second = url.replace("/dashboard", "/pools/second/dashboard");
    found.extend(sample.check(&browser, &second, &["/queues"]).await);
    browser.close().await;
    server.stop().await;
    let seed = sample.seed;
    assert_eq!(found.len(), 0, "DULY_AXE_SEED={seed}\n{}", found.join("\n"));
}

/// Each check finds a fault of its kind, and finds none in a page without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_checks_find_planted_faults() {
    let browser = browser().await;
    let page = |style: &str, planted: &str| {
        format!(
            "data:text/html,<!doctype html><html lang=en><title>t</title><meta name=viewport \
             content='width=device-width'><style>:focus-visible {{ outline: 2px solid blue }} \
             {style}</style><main><h1>Title</h1><p><a href='/a'>First</a></p>{planted}\
             <p><a href='/b'>Last</a></p></main>"
        )
    };
    let trap = "<input aria-label=x onkeydown='if (event.key == `Tab`) event.preventDefault()'>";
    for (style, planted, expected) in [
        ("", "<p>text</p>", ""),
        ("", "<img src='/x'>", "image-alt"),
        ("", "<input>", "label"),
        ("", "<button></button>", "button-name"),
        ("", "<h4>deep</h4>", "heading-order"),
        (
            "",
            "<p style='color:silver;background:white'>pale</p>",
            "color-contrast",
        ),
        (
            "",
            "<p id=x></p><p aria-labelledby=y role=img></p>",
            "role-img-alt",
        ),
        ("", "<ul><p>no item</p></ul>", "list"),
        (
            "",
            "<table><tr><th></th><td>1</table>",
            "empty-table-header",
        ),
        (
            "",
            "<button style='height:9px;width:9px;padding:0'>x</button> <button>y</button>",
            "target-size",
        ),
        (
            "a { color: black }",
            trap,
            "it is not reached: <a href=\"/b\"",
        ),
        (
            "",
            "<a href='/c' tabindex=-1>never</a>",
            "it is not reached: <a href=\"/c\"",
        ),
        (
            "",
            "<p role=button>press</p>",
            "it is not reached: <p role=\"button\"",
        ),
        (
            "button { outline: none !important }",
            "<button>x</button>",
            "its focus is not seen: <button",
        ),
        (
            "button { position: absolute; left: -99px }",
            "<button>x</button>",
            "out of sight: <button",
        ),
        (
            "p { position: relative } i { position: absolute; inset: 0 }",
            "<p><button>x</button><i></i></p>",
            "out of sight: <button",
        ),
    ] {
        browser.goto(&page(style, planted)).await;
        let mut found = violations(&browser, "all").await;
        found.extend(keyboard(&browser).await);
        let is_found = found.iter().any(|fault| fault.contains(expected));
        assert_eq!(is_found, !expected.is_empty(), "{planted}: {found:#?}");
    }
    // A fault of one scheme alone.
    let style = "@media (prefers-color-scheme: dark) { p { color: %23222; background: black } }";
    browser.goto(&page(style, "<p>text</p>")).await;
    for (scheme, is_planted) in [("light", false), ("dark", true)] {
        browser.looks(scheme, 390, 844).await;
        let found = violations(&browser, "colours").await;
        assert_eq!(!found.is_empty(), is_planted, "{scheme}: {found:?}");
    }
    browser.close().await;
}
