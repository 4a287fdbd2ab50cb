//! A headless Chromium, driven by chromedriver.

use std::fmt;
use std::process::Stdio;
use std::time::Duration;

use axum::http::Method;
use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// How many Tab keys lead through any page of a test.
const TABS_MAX: usize = 300;

/// A browser, which ends with its value.
pub(super) struct Browser {
    pub(super) page: Client,
    driver: Child,
    _folder: tempfile::TempDir,
}

/// The path of links and buttons of a text, in the part of a page.
fn path_of(within: &str, text: &str) -> String {
    format!("{within}//*[self::a or self::button][starts-with(normalize-space(.), '{text}')]")
}

/// A command of the protocol of Chromium's own tools.
struct DevTools(Value);

impl fmt::Debug for DevTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevTools({})", self.0)
    }
}

impl WebDriverCompatibleCommand for DevTools {
    fn endpoint(&self, base: &url::Url, id: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!(
            "session/{}/goog/cdp/execute",
            id.unwrap_or_default()
        ))
    }

    fn method_and_body(&self, _: &url::Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.0.to_string()))
    }
}

/// A test that failed leaves no browser behind.
impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.id() {
            let group = format!("-{driver}");
            let killed = std::process::Command::new("kill")
                .args(["-KILL", "--", &group])
                .status();
            assert!(
                killed.is_ok_and(|status| status.success()),
                "the browser ends"
            );
        }
    }
}

/// Starts a driver on a free port; `None` if it has ended: it takes a port that is free for IPv4, and
/// ends where that is taken for IPv6.
async fn driver() -> Option<(Child, String)> {
    let mut driver = Command::new("chromedriver")
        .arg("--port=0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0) // its browser is in it, too
        .kill_on_drop(true)
        .spawn()
        .expect("chromedriver: tests/run.sh installs it on Debian, and says how elsewhere");
    let mut lines = BufReader::new(driver.stdout.take().expect("its output")).lines();
    let mut said = Vec::new();
    let port = loop {
        let line = tokio::time::timeout(Duration::from_secs(30), lines.next_line());
        let Some(line) = line.await.expect("a line in time").expect("its output") else {
            let is_taken = said
                .iter()
                .any(|line: &String| line.contains("not available"));
            assert!(is_taken, "the driver ended: {said:?}");
            return None;
        };
        if let Some((_, port)) = line.split_once("successfully on port ") {
            break port.trim_end_matches('.').to_owned();
        }
        said.push(line);
    };
    // A full pipe would hold it up.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Some((driver, port))
}

impl Browser {
    pub(super) async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (driver, port) = loop {
            if let Some(started) = driver().await {
                break started;
            }
        };
        let data = format!("--user-data-dir={}", folder.path().display());
        let options = json!({"args": [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--hide-scrollbars", "--window-size=1280,900", data,
        ]});
        let mut capabilities = serde_json::Map::new();
        capabilities.insert("goog:chromeOptions".to_owned(), options);
        // A page takes a tenth of a second, unless streams of those before hold all connections.
        capabilities.insert("timeouts".to_owned(), json!({"pageLoad": 30_000}));
        let page = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .expect("a session");
        Self {
            page,
            driver,
            _folder: folder,
        }
    }

    pub(super) async fn close(mut self) {
        self.page.clone().close().await.expect("the session ends");
        self.driver.kill().await.expect("the driver ends");
    }

    async fn tool(&self, command: &str, parameters: Value) {
        let command = DevTools(json!({"cmd": command, "params": parameters}));
        self.page
            .issue_cmd(command)
            .await
            .expect("a command of the tools");
    }

    /// Sets the colours that a user prefers, and the size of the screen.
    pub(super) async fn looks(&self, scheme: &str, width: u32, height: u32) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.tool("Emulation.setEmulatedMedia", json!({"features": features}))
            .await;
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.tool("Emulation.setDeviceMetricsOverride", size).await;
    }

    pub(super) async fn script(&self, on: bool) {
        let value = json!({"value": !on});
        self.tool("Emulation.setScriptExecutionDisabled", value)
            .await;
    }

    /// Runs a script at the begin of each page from now on.
    pub(super) async fn in_each_page(&self, source: &str) {
        let source = json!({"source": source});
        self.tool("Page.addScriptToEvaluateOnNewDocument", source)
            .await;
    }

    /// Loads nothing from such addresses from now on.
    pub(super) async fn blocks(&self, address: &str) {
        self.tool("Network.enable", json!({})).await;
        let urls = json!({"urls": [address]});
        self.tool("Network.setBlockedURLs", urls).await;
    }

    /// Presses the Tab key so many times.
    pub(super) async fn tabs(&self, times: usize) {
        const TAB: char = '\u{E004}';
        let mut keys = KeyActions::new("keyboard".to_owned());
        for _ in 0..times {
            keys = keys.then(KeyAction::Down { value: TAB });
            keys = keys.then(KeyAction::Up { value: TAB });
        }
        self.page.perform_actions(keys).await.expect("keys");
    }

    /// Follows a link or presses a button as [`press`](Self::press) does, by keyboard alone: by the Tab
    /// key from where the focus is, and Enter.
    pub(super) async fn press_by_key(&self, within: &str, text: &str) {
        const ENTER: char = '\u{E007}';
        let path = path_of(within, text);
        let found = self.page.wait().for_element(Locator::XPath(&path)).await;
        found.unwrap_or_else(|error| panic!("{path}: {error}"));
        // What is live may be replaced meanwhile, so it is looked up each time.
        let is_there = format!(
            "return document.evaluate({}, document, null, XPathResult.FIRST_ORDERED_NODE_TYPE, null)\
             .singleNodeValue === document.activeElement",
            json!(path)
        );
        for _ in 0..TABS_MAX {
            if self.run(&is_there).await == true {
                let keys = KeyActions::new("keyboard".to_owned());
                let keys = keys.then(KeyAction::Down { value: ENTER });
                let keys = keys.then(KeyAction::Up { value: ENTER });
                return self.page.perform_actions(keys).await.expect("keys");
            }
            self.tabs(1).await;
        }
        panic!("no Tab key reaches {path}");
    }

    /// Types a text into a field.
    pub(super) async fn types(&self, field: &str, text: &str) {
        let field = self.page.wait().for_element(Locator::Css(field)).await;
        let field = field.expect("a field");
        field.send_keys(text).await.expect("keys");
    }

    pub(super) async fn goto(&self, url: &str) {
        self.page.goto(url).await.expect("a page");
    }

    /// Returns the text of the page; none while one page takes the place of another.
    async fn text(&self) -> Option<String> {
        let main = self.page.find(Locator::Css("main")).await.ok()?;
        main.text().await.ok()
    }

    /// Returns whether the page has a text.
    pub(super) async fn sees_now(&self, text: &str) -> bool {
        self.text().await.is_some_and(|shown| shown.contains(text))
    }

    /// Waits for a text of the page.
    pub(super) async fn sees(&self, text: &str) {
        let looked = async {
            while !self.sees_now(text).await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let seen = tokio::time::timeout(Duration::from_secs(60), looked).await;
        if seen.is_err() {
            panic!("no {text:?} within a minute in: {:?}", self.text().await);
        }
    }

    /// Follows a link or presses a button of this text, in the part of the page under `within`.
    pub(super) async fn press(&self, within: &str, text: &str) {
        let path = path_of(within, text);
        // What is live may be replaced between finding and pressing.
        for tried in 0..5 {
            let found = self.page.wait().for_element(Locator::XPath(&path)).await;
            let pressed = found
                .unwrap_or_else(|error| panic!("{path}: {error}"))
                .click()
                .await;
            match pressed {
                Ok(()) => return,
                Err(error) if tried == 4 => panic!("{path}: {error}"),
                Err(_) => {}
            }
        }
    }

    /// Calls a function of a script; returns what it returns.
    pub(super) async fn run(&self, script: &str) -> Value {
        self.page
            .execute(script, Vec::new())
            .await
            .expect("a script")
    }

    /// Calls a function of a script that gives its result to its last argument; returns that.
    pub(super) async fn run_async(&self, script: &str) -> Value {
        let run = self.page.execute_async(script, Vec::new());
        run.await.expect("a script")
    }

    /// Saves a picture of the page, where `DULY_PICTURES` names a folder.
    pub(super) async fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("DULY_PICTURES") else {
            return;
        };
        let bytes = self.page.screenshot().await.expect("a picture");
        let path = std::path::Path::new(&folder).join(format!("{name}.png"));
        std::fs::write(path, bytes).expect("a file");
    }
}
