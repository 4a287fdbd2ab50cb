//! `duly demo`, visited as a newcomer does it, in a browser.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use super::accessibility::faults;
use super::browser::Browser;

/// How much wider a page is than its window.
const WIDE: &str = "return document.documentElement.scrollWidth - innerWidth";

/// A demo that runs.
struct Demo {
    process: Child,
    out: BufReader<ChildStdout>,
    url: String,
}

async fn demo(seconds: &str) -> Demo {
    let mut process = Command::new(env!("CARGO_BIN_EXE_duly"))
        .args([
            "demo",
            "--listen",
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
async fn a_newcomer_finds_what_is_wrong_and_mends_it() {
    let Demo {
        mut process, url, ..
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
    for page in [
        "/",
        "/queues",
        "/queues/invoices",
        "/dead",
        "/records",
        "/schedules",
        "/schedules/stock-sync",
        "/find",
        "/find?queue=invoices",
        "/find?q=customer",
        "/act/pause?queue=invoices",
        "/act/reschedule-all?queue=invoices",
        "/audit",
        "/history?span=hour",
        "/nodes",
    ] {
        browser.goto(&format!("{url}{page}")).await;
        for scheme in ["light", "dark"] {
            browser.looks(scheme, 1280, 900).await;
            assert_eq!(faults(&browser).await, [""; 0], "{page} in {scheme}");
        }
        for (width, height) in [(1440, 900), (768, 1024), (390, 844)] {
            browser.looks("light", width, height).await;
            assert_eq!(browser.run(WIDE).await, 0, "{page} is wider than {width}");
        }
        browser.looks("light", 1280, 900).await;
    }

    // Revives one event, by way of its page.
    browser.goto(&format!("{url}/")).await;
    browser
        .press("//li[contains(., 'payments has')]", "Dead letters")
        .await;
    browser.sees("insufficient funds").await;
    browser.press("//tbody/tr[1]/th", "").await;
    browser.sees("Failed for good: dead letter").await;
    browser.sees("\"customer\"").await;
    for (scheme, width) in [
        ("light", 1440),
        ("dark", 768),
        ("light", 390),
        ("dark", 1280),
    ] {
        browser.looks(scheme, width, 900).await;
        assert_eq!(faults(&browser).await, [""; 0], "page of an event, {width}");
        assert_eq!(browser.run(WIDE).await, 0, "an event is wider than {width}");
    }
    browser.looks("light", 1280, 900).await;
    browser.press("//main", "Revive").await;
    browser.sees("It becomes ready again").await;
    assert_eq!(faults(&browser).await, [""; 0], "page of a question");
    browser.press("//main//form", "Revive").await;
    browser.sees("is ready again.").await;
    browser.sees("by anonymous").await;

    // Pauses a queue, without script: every page works without it.
    browser.script(false).await;
    browser.goto(&format!("{url}/queues?sort=name")).await;
    browser.press("//tbody", "stock-sync").await;
    browser.press("//main", "Pause").await;
    browser.press("//main//form", "Pause").await;
    browser.sees("stock-sync is paused.").await;
    browser.script(true).await;
    browser.goto(&format!("{url}/")).await;
    browser.sees("stock-sync is paused").await;

    browser.close().await;
    process.kill().await.unwrap();
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
        ("queue", "/queues/invoices", "light", 1280, 960),
        ("dead", "/dead", "light", 1280, 860),
        ("queues", "/queues", "dark", 1280, 600),
        ("records", "/records?outcome=failed", "light", 1280, 860),
        ("nodes", "/nodes", "light", 1280, 760),
        ("phone", "/", "light", 390, 844),
        ("phone-dead", "/dead", "dark", 390, 844),
        ("find", "/find?queue=cart-reminders", "light", 1440, 900),
        (
            "phone-find",
            "/find?queue=cart-reminders",
            "light",
            390,
            844,
        ),
        ("phone-queues", "/queues", "light", 390, 844),
        ("phone-nodes", "/nodes", "light", 390, 844),
        ("audit", "/audit", "light", 1440, 900),
        (
            "ask",
            "/act/reschedule-all?queue=invoices",
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
