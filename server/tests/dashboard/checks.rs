//! What is checked of a page in a browser: the rules of axe, the keyboard alone, three widths, light
//! and dark.

use std::path::Path;
use std::process::Command;

use super::browser::Browser;

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
pub(super) async fn browser() -> Browser {
    let browser = Browser::start().await;
    browser.in_each_page(&axe()).await;
    browser.blocks("*/live").await;
    browser
}

/// Returns what axe finds: all of it, or only what depends on colours.
pub(super) async fn violations(browser: &Browser, of: &str) -> Vec<String> {
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
pub(super) async fn keyboard(browser: &Browser) -> Vec<String> {
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

/// Whether the focus is at the question of a page that asks, or at what was filled in wrongly, before
/// somebody presses a key.
const FOCUS: &str = "const wrong = document.querySelector('[aria-invalid=true]'); \
                     const first = wrong || document.getElementById('question'); \
                     return first === null || document.activeElement === first";

/// Which checks are made, of all pages, widths and schemes: all where `DULY_AXE` is `all`, else a
/// third of them, by a seed.
pub(super) struct Sample {
    is_all: bool,
    pub(super) seed: u64,
    random: fastrand::Rng,
}

impl Sample {
    pub(super) fn of_environment() -> Self {
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
    pub(super) async fn check(
        &mut self,
        browser: &Browser,
        url: &str,
        pages: &[&str],
    ) -> Vec<String> {
        let mut found = Vec::new();
        for page in pages {
            browser.goto(&format!("{url}{page}")).await;
            found.extend(self.check_here(browser, page).await);
        }
        found
    }

    /// Checks the page that is shown, whose name is for who reads what is wrong.
    pub(super) async fn check_here(&mut self, browser: &Browser, page: &str) -> Vec<String> {
        let mut found = Vec::new();
        if browser.run(FOCUS).await != true {
            found.push(format!(
                "{page}: the focus is not at the question, or what is wrong"
            ));
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
        found
    }
}
