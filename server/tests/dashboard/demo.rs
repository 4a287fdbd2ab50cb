//! `duly demo`, visited as a newcomer does it, in a browser.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use super::browser::Browser;
use crate::world::until;

/// A demo that runs.
pub(super) struct Demo {
    pub(super) process: Child,
    out: BufReader<ChildStdout>,
    pub(super) url: String,
}

pub(super) async fn demo(seconds: &str) -> Demo {
    let mut process = Command::new(env!("CARGO_BIN_EXE_duly"))
        .args([
            "demo",
            "--listen",
            "127.0.0.1:0",
            "--api",
            "127.0.0.1:0",
            "--seconds",
            seconds,
            "--seed",
            "7",
        ])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut out = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).await.unwrap();
    let url = line
        .split("Its dashboard: ")
        .nth(1)
        .unwrap()
        .trim()
        .to_owned();
    Demo { process, out, url }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demo_says_what_to_look_at_and_ends_by_itself() {
    let Demo {
        mut process,
        mut out,
        ..
    } = demo("1").await;
    let mut rest = String::new();
    out.read_to_string(&mut rest).await.unwrap();
    for queue in ["invoices", "payments", "newsletter", "cart-reminders"] {
        assert!(rest.contains(queue), "{rest}");
    }
    assert!(process.wait().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demo_that_is_told_to_end_leaves_nothing() {
    for signal in ["HUP", "INT", "TERM"] {
        for is_announced in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let places = || std::fs::read_dir(folder.path()).unwrap().count();
            let mut process = Command::new(env!("CARGO_BIN_EXE_duly"))
                .args(["demo", "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0"])
                .env("TMPDIR", folder.path())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            let mut out = BufReader::new(process.stdout.take().unwrap());
            if is_announced {
                out.read_line(&mut String::new()).await.unwrap();
            } else {
                until("it fills its shop", async || places() > 0).await;
            }
            let pid = process.id().unwrap().to_string();
            let sent = Command::new("kill").args(["-s", signal, &pid]).status();
            assert!(sent.await.unwrap().success());
            let ended = tokio::time::timeout(Duration::from_secs(30), process.wait()).await;
            let ended = ended.unwrap_or_else(|_| panic!("it goes on after {signal}"));
            assert!(ended.unwrap().success(), "{signal}, {is_announced}");
            assert_eq!(places(), 0, "{signal}, {is_announced}");
        }
    }
}

/// Each line that a demo gives to try works as it is, and those of nodes name the host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_demo_says_to_try_works_when_it_is_pasted() {
    let Demo {
        mut process,
        mut out,
        ..
    } = demo("600").await;
    let (mut commands, mut tries) = (Vec::new(), false);
    while commands.len() < 5 {
        let mut line = String::new();
        assert!(out.read_line(&mut line).await.unwrap() > 0, "{commands:?}");
        if tries && !line.trim().is_empty() {
            commands.push(line.trim().to_owned());
        }
        tries |= line.starts_with("Try");
    }
    let paste = async |command: &str| {
        let output = Command::new("sh").args(["-c", command]).output();
        let output = output.await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {text}{error}");
        text
    };
    for command in &commands {
        let said = paste(command).await;
        let expected = match command {
            it if it.contains(" top ") => "shop.invoices",
            it if it.contains(" event list ") => "customer:ada",
            it if it.contains(" node list ") => "alive",
            it if it.contains("curl") => "job_id",
            _ => "",
        };
        assert!(said.contains(expected), "{command}: {said}");
    }
    let nodes = commands.iter().find(|it| it.contains(" node list "));
    let nodes = paste(&format!("{} --json", nodes.unwrap())).await;
    let nodes: serde_json::Value = serde_json::from_str(&nodes).unwrap();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(nodes["items"][0]["host"], host.trim());
    assert_eq!(nodes["items"][0]["is_alive"], true);
    let queues = nodes["items"][0]["queues"].as_array().unwrap();
    assert!(queues.contains(&"shop.invoices".into()), "{queues:?}");
    process.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newcomer_finds_what_is_wrong_and_mends_it() {
    let Demo {
        mut process,
        url,
        out: _out, // which it goes on to write to
    } = demo("600").await;
    let browser = Browser::start().await;
    browser.goto(&format!("{url}/")).await;

    // Why a queue is late: on the first page, in words, which keeps itself current.
    browser.sees("invoices is").await;
    browser.sees("Its only worker is busy").await;
    // Which events fail, and why.
    browser.sees("payments has").await;
    browser.sees("card declined: insufficient funds").await;
    // The load of the next hour.
    browser.sees("Due in the next hour").await;
    let coming = "return document.querySelector('section[aria-labelledby=coming] svg')\
                  .getAttribute('aria-label')";
    let coming = browser.run(coming).await;
    assert!(
        coming
            .as_str()
            .unwrap()
            .contains("events fall due in the next hour"),
        "{coming}"
    );

    pictures(&browser, &url).await;
    // The values of a chart, and the way from its peak to the records, by keyboard alone.
    browser.goto(&format!("{url}/history?span=hour")).await;
    let chart = "const plot = document.querySelector('.plot[data-steps]'); plot.focus(); \
                 for (const key of ['End', 'ArrowLeft', 'ArrowRight']) \
                 plot.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true})); \
                 return [plot.getAttribute('role'), plot.getAttribute('aria-valuetext'), \
                 plot.parentElement.querySelector('output').textContent, \
                 document.activeElement === plot].join('|')";
    let values = browser.run(chart).await;
    let values: Vec<&str> = values.as_str().unwrap().split('|').collect();
    assert_eq!((values[0], values[3]), ("slider", "true"), "{values:?}");
    assert_eq!(values[1], values[2]);
    assert!(
        values[1].contains(" done, ") && values[1].contains("p99"),
        "{values:?}"
    );
    let enter = "document.activeElement.dispatchEvent(\
                 new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))";
    browser.run(enter).await;
    browser.sees("Outcome").await;
    let address = browser.run("return location.href").await;
    assert!(
        address.as_str().unwrap().contains("/records?since="),
        "{address}"
    );

    typed_text_stays(&browser, &url).await;
    scrolled_places_stay(&browser, &url).await;

    // Revives one event, by way of its page.
    browser.goto(&format!("{url}/")).await;
    browser
        .press("//li[contains(., 'payments has')]", "Dead letters")
        .await;
    browser.sees("insufficient funds").await;
    browser.press("//tbody/tr[1]/th", "").await;
    browser.sees("Failed for good: dead letter").await;
    browser.sees("\"customer\"").await;
    browser.press("//main", "Revive").await;
    browser.sees("It becomes ready again").await;
    browser.press("//main//form", "Revive").await;
    browser.sees("is ready again.").await;
    browser.sees("by anonymous").await;
    said_once(&browser).await;

    // Pauses a queue, without script: every page works without it.
    browser.script(false).await;
    browser.goto(&format!("{url}/queues?sort=name")).await;
    browser.press("//tbody", "shop.stock-sync").await;
    browser.press("//main", "Pause").await;
    browser.press("//main//form", "Pause").await;
    browser.sees("stock-sync is paused.").await;
    browser.script(true).await;
    browser.goto(&format!("{url}/")).await;
    browser.sees("stock-sync is paused").await;

    browser.close().await;
    process.kill().await.unwrap();
}

/// What an action has done is said once: the address of the page does not say it again.
async fn said_once(browser: &Browser) {
    let address = browser.run("return location.href").await;
    let address = address.as_str().unwrap();
    assert!(
        address.contains("/events/") && !address.contains("done="),
        "{address}"
    );
    browser.run("location.reload()").await;
    browser.sees("by anonymous").await;
    let said = "return document.querySelectorAll('p.done').length";
    until("it is said no more", async || browser.run(said).await == 0).await;
}

/// What is filled in and not sent yet stays, while a page that is not filled in keeps itself current.
async fn typed_text_stays(browser: &Browser, url: &str) {
    browser.goto(&format!("{url}/dead")).await;
    let begin = "window.rounds = 0; const live = document.querySelector('script[data-live]'); \
                 new EventSource(live.dataset.live).addEventListener('round', () => rounds++); \
                 const field = document.getElementById('f-error'); field.focus(); \
                 field.value = 'insufficient'; field.blur();";
    browser.run(begin).await;
    let rounds = async || browser.run("return window.rounds").await.as_u64();
    until("there are some rounds", async || rounds().await > Some(3)).await;
    let value = browser
        .run("return document.getElementById('f-error').value")
        .await;
    assert_eq!(value, "insufficient");
    // So does a row that is ticked.
    let tick = "const field = document.getElementById('f-error'); field.value = ''; \
                window.rounds = 0; document.querySelector('[name=chosen]').click(); \
                document.activeElement.blur()";
    browser.run(tick).await;
    until("there are some rounds", async || rounds().await > Some(3)).await;
    let ticked = "return document.querySelectorAll('[name=chosen]:checked').length";
    assert_eq!(browser.run(ticked).await, 1);
    let untick = "document.querySelector('[name=chosen]:checked').click(); \
                  document.activeElement.blur()";
    browser.run(untick).await;
    let empty = "const field = document.getElementById('f-error'); field.value = ''; \
                 field.dataset.old = 'true'";
    browser.run(empty).await;
    let is_old = "return document.querySelectorAll('[data-old]').length";
    until("it is current", async || browser.run(is_old).await == 0).await;
}

/// Who has scrolled in a part of a page, or has reached something by keyboard, stays there while the page
/// keeps itself current.
async fn scrolled_places_stay(browser: &Browser, url: &str) {
    browser.looks("light", 390, 844).await;
    for (page, reached) in [
        ("/queues", ".scroll"),
        ("/dead", "form.filter button"),
        ("/dead", "tbody tr:nth-child(2) a"),
    ] {
        browser.goto(&format!("{url}{page}")).await;
        let begin = "const style = document.styleSheets[0]; \
             style.insertRule('.scroll { max-height: 90px; overflow: auto !important }'); \
             style.insertRule('.scroll table { min-width: 900px !important }'); \
             const region = document.querySelector('.scroll'); \
             region.dataset.old = 'true'; region.scrollTo(30, 40); ";
        let reach = format!("document.querySelector('{reached}').focus({{preventScroll: true}})");
        browser.run(&format!("{begin}{reach}")).await;
        let is_old = "return document.querySelectorAll('[data-old]').length";
        until("it is current", async || browser.run(is_old).await == 0).await;
        let place = "const region = document.querySelector('.scroll'); \
             return [region.scrollLeft, region.scrollTop].join()";
        assert_eq!(browser.run(place).await, "30,40", "{page}");
        let is_there = format!("return document.activeElement.matches('{reached}')");
        assert_eq!(browser.run(&is_there).await, true, "{page}, {reached}");
    }
    browser.looks("light", 1280, 900).await;
}

/// Takes the pictures of the README, where they are asked for.
async fn pictures(browser: &Browser, url: &str) {
    if std::env::var_os("DULY_PICTURES").is_none() {
        return;
    }
    // The charts need some minutes.
    tokio::time::sleep(Duration::from_secs(60)).await;
    for (name, page, scheme, width, height) in [
        ("now", "/", "light", 1280, 860),
        ("now-dark", "/", "dark", 1280, 860),
        ("queue", "/queues/shop.invoices", "light", 1280, 960),
        ("dead", "/dead", "light", 1280, 860),
        ("queues", "/queues", "dark", 1280, 600),
        ("records", "/records?outcome=failed", "light", 1280, 860),
        ("nodes", "/nodes", "light", 1280, 760),
        ("phone", "/", "light", 390, 844),
        ("phone-dead", "/dead", "dark", 390, 844),
        (
            "find",
            "/find?queue=shop.cart-reminders",
            "light",
            1440,
            900,
        ),
        (
            "phone-find",
            "/find?queue=shop.cart-reminders",
            "light",
            390,
            844,
        ),
        ("phone-queues", "/queues", "light", 390, 844),
        ("phone-nodes", "/nodes", "light", 390, 844),
        ("audit", "/audit", "light", 1440, 900),
        (
            "ask",
            "/act/reschedule-all?queue=shop.invoices",
            "light",
            1440,
            900,
        ),
    ] {
        browser.looks(scheme, width, height).await;
        browser.goto(&format!("{url}{page}")).await;
        browser.picture(name).await;
    }
    browser.looks("dark", 1280, 960).await;
    browser.goto(&format!("{url}/dead")).await;
    browser.press("//tbody/tr[1]/th", "").await;
    browser.sees("Failed for good").await;
    browser.picture("event").await;
    browser.looks("light", 1280, 900).await;
}
