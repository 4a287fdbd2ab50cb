//! One Prometheus server, and its tool.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::address::free_port;
use super::home::{Home, Process, output, wait_until};

/// A server in a folder of its own, which scrapes each second.
#[derive(Debug)]
pub(crate) struct Prometheus {
    port: u16,
    process: Process, // before `home`: killed first
    home: Home,
}

impl Prometheus {
    /// Starts a server that scrapes these and evaluates the rules of a file; it answers when this
    /// returns.
    pub(crate) fn start(targets: &[SocketAddr], rules: &Path) -> Self {
        let home = Home::new();
        let targets: Vec<_> = targets.iter().map(|target| format!("'{target}'")).collect();
        let settings = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: ['{}']\n\
             scrape_configs:\n\
             - job_name: duly\n  static_configs: [{{targets: [{}]}}]\n",
            rules.display(),
            targets.join(", ")
        );
        fs::write(home.path().join("prometheus.yml"), settings).expect("settings");
        let port = free_port();
        let mut command = Command::new("prometheus");
        command.args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"]);
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let mut process = home.spawn("prometheus", &mut command);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        wait_until("prometheus answers", || {
            let log = || fs::read_to_string(home.path().join("prometheus.log"));
            assert!(!process.has_ended(), "it has ended:\n{:?}", log());
            get(address, "/-/ready").is_some_and(|answer| answer.0 == 200)
        });
        Self {
            port,
            process,
            home,
        }
    }

    /// What the API answers, as JSON: `query?query=up`.
    pub(crate) fn api(&self, path: &str, parameters: &[(&str, &str)]) -> serde_json::Value {
        let mut path = format!("/api/v1/{path}");
        for (at, (name, value)) in parameters.iter().enumerate() {
            path.push(if at == 0 { '?' } else { '&' });
            path.push_str(name);
            path.push('=');
            for byte in value.bytes() {
                write!(path, "%{byte:02X}").expect("a text takes in anything");
            }
        }
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        let (_, body) = get(address, &path).expect("prometheus answers");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}\n{body}"))
    }
}

/// `GET`: the status and the body of the answer, or nothing where nobody answers.
pub(crate) fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

/// Runs `promtool`, which has to find nothing wrong; answers what it prints.
pub(crate) fn promtool(words: &[&str]) -> String {
    let folder = env!("CARGO_MANIFEST_DIR");
    output(Command::new("promtool").args(words).current_dir(folder))
}

/// Lets `promtool` look at a page; answers what it has to say against it.
pub(crate) fn check_metrics(page: &str) -> Result<(), String> {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(page.as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    if output.status.success() && said.is_empty() {
        Ok(())
    } else {
        Err(said)
    }
}
