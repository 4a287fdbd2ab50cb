//! Every page in a browser: by the rules of axe, by keyboard alone, at three widths, light and dark.

use std::path::Path;
use std::process::Command;

use super::browser::Browser;
use super::demo::demo;
use crate::rights::admin_settings;

/// How many stops of the keyboard a field of date and time has, at most.
const STOPS_OF_TIME: usize = 8;

/// Returns the source of axe, which npm installs once, as the lock says.
fn axe() -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("axe-core-4.14.1");
    if !folder.exists() {
        let parent = folder.parent().unwrap();
        std::fs::create_dir_all(parent).unwrap();
        let new = tempfile::tempdir_in(parent).unwrap();
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dashboard/axe");
        for file in ["package.json", "package-lock.json"] {
            std::fs::copy(package.join(file), new.path().join(file)).unwrap();
        }
        let output = Command::new("npm")
            .args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"])
            .current_dir(new.path())
            .output()
            .expect("npm: tests/run.sh installs it");
        assert!(output.status.success(), "{output:?}");
        // Whoever was first has the name.
        std::fs::rename(new.path(), &folder).ok();
    }
    std::fs::read_to_string(folder.join("node_modules/axe-core/axe.min.js")).unwrap()
}

/// Starts a browser with axe in each page, whose pages do not change by themselves.
async fn browser() -> Browser {
    let browser = Browser::start().await;
    browser.in_each_page(&axe()).await;
    browser.blocks("*/live").await;
    browser
}

/// Returns what axe finds: all of it, or only what depends on colours.
async fn violations(browser: &Browser, of: &str) -> Vec<String> {
    let only = match of {
        "colours" => r#"["color-contrast", "link-in-text-block"]"#,
        _ => {
            r#"{type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa",
                "best-practice"]}"#
        }
    };
    let script = format!(
        "const done = arguments[0]; \
         axe.run(document, {{runOnly: {only}, resultTypes: ['violations']}}).then(found => \
         done(found.violations.flatMap(rule => rule.nodes.map(node => \
         `${{rule.id}}: ${{node.html.slice(0, 200)}}: ${{node.failureSummary}}`))), \
         error => done([String(error)]))"
    );
    serde_json::from_value(browser.run_async(&script).await).expect("a list of texts")
}

/// Goes through the page by the Tab key; returns what is not reached, or where the focus is not seen.
async fn keyboard(browser: &Browser) -> Vec<String> {
    let begun = browser.run(KEYBOARD).await;
    let [controls, times] = [0, 1].map(|at| begun[at].as_u64().unwrap() as usize);
    browser.tabs(controls + times * STOPS_OF_TIME + 3).await;
    serde_json::from_value(browser.run("return keyboardFaults()").await).expect("a list of texts")
}

/// Looks at the element that has the focus when the next key is pressed, by when it has been scrolled to.
const KEYBOARD: &str = r#"
const isShown = element => element.checkVisibility({visibilityProperty: true}) && !element.disabled;
const controls = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [role=button], [role=slider], [tabindex='0']")].filter(isShown);
// From the top, wherever keys have led before.
const top = document.createElement("i");
top.tabIndex = -1;
document.body.prepend(top);
top.focus();
top.remove();
const seen = new Set();
const faults = new Set();
const text = element => element.outerHTML.slice(0, 160);
const look = () => {
  const element = document.activeElement;
  if (!element || element === document.body || seen.has(element)) return;
  seen.add(element);
  const style = getComputedStyle(element);
  if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2)
    return faults.add(`its focus is not seen: ${text(element)}`);
  const boxes = [...element.getClientRects()];
  const isThere = ({left, top, width, height}) => {
    const [x, y] = [left + width / 2, top + height / 2];
    const at = width >= 8 && height >= 8 && document.elementFromPoint(x, y);
    return at && (element.contains(at) || at.contains(element) && at.closest("label, [tabindex]"));
  };
  // A part that is larger than the window is seen at its edge.
  const {width, height} = element.getBoundingClientRect();
  if (width < innerWidth && height < innerHeight / 2 && !boxes.some(isThere))
    faults.add(`it has the focus out of sight: ${text(element)}`);
};
document.addEventListener("keydown", look, true);
window.keyboardFaults = () => {
  look();
  document.removeEventListener("keydown", look, true);
  const missed = controls.filter(element => !seen.has(element));
  return [...faults, ...missed.map(element => `it is not reached: ${text(element)}`)];
};
return [controls.length, controls.filter(element => element.type === "datetime-local").length];
"#;

/// How much wider a page is than its window.
const WIDE: &str = "return document.documentElement.scrollWidth - innerWidth";

/// Whether the focus is at the question of a page that asks, before somebody presses a key.
const FOCUS: &str = "const question = document.getElementById('question'); \
                     return question === null || document.activeElement === question";

/// Which checks are made, of all pages, widths and schemes: all where `DULY_AXE` is `all`, else a
/// third of them, by a seed.
struct Sample {
    is_all: bool,
    seed: u64,
    random: fastrand::Rng,
}

impl Sample {
    fn of_environment() -> Self {
        let seed = std::env::var("DULY_AXE_SEED").ok();
        let seed = seed.and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| fastrand::u64(..));
        Self {
            is_all: std::env::var("DULY_AXE").is_ok_and(|value| value == "all"),
            seed,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    fn takes(&mut self) -> bool {
        self.random.u8(..3) == 0 || self.is_all
    }

    /// Checks pages; returns what is wrong.
    async fn check(&mut self, browser: &Browser, url: &str, pages: &[&str]) -> Vec<String> {
        let mut found = Vec::new();
        for page in pages {
            browser.goto(&format!("{url}{page}")).await;
            if browser.run(FOCUS).await != true {
                found.push(format!("{page}: the focus is not at the question"));
            }
            for (width, height) in [(1440, 900), (768, 1024), (390, 844)] {
                let mut wrong = Vec::new();
                if self.takes() {
                    browser.looks("dark", width, height).await;
                    let dark = violations(browser, "colours").await;
                    wrong.extend(dark.iter().map(|it| format!("dark: {it}")));
                }
                browser.looks("light", width, height).await;
                if self.takes() {
                    wrong.extend(violations(browser, "all").await);
                }
                if self.takes() {
                    wrong.extend(keyboard(browser).await);
                }
                if browser.run(WIDE).await != 0 {
                    wrong.push("it is wider than its window".to_owned());
                }
                let case = |it: String| format!("{page} at {width}, {it}");
                found.extend(wrong.into_iter().map(case));
            }
        }
        found
    }
}

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
