//! `kill -9` of the program under load: every confirmed job is delivered, and of a bulk all or none.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use reqwest::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::servers;
use crate::world::{client, reply, until, with_prefix};

/// How often the program is killed, unless `DULY_SERVER_KILLS` says otherwise.
const KILLS: usize = 4;
/// How many clients publish at the same time; every other one publishes bulks.
const CLIENTS: usize = 8;
/// The jobs of a bulk.
const BULK: usize = 8;
/// How many jobs are confirmed before each kill.
const JOBS: usize = 200;

const TOKEN: &str = "a-token-that-survives-kills";

/// The program, and where it listens.
pub(crate) struct Program {
    pub(crate) child: Child,
    /// Its output, unless it is read to the end.
    output: Option<BufReader<ChildStdout>>,
    pub(crate) api: String,
    pub(crate) admin: String,
}

impl Program {
    pub(crate) fn start(folder: &std::path::Path, store: &str) -> Self {
        Self::start_with(folder, store, &[])
    }

    /// Starts the program with more variables.
    pub(crate) fn start_with(
        folder: &std::path::Path,
        store: &str,
        variables: &[(&str, &str)],
    ) -> Self {
        Self::run(&[env!("CARGO_BIN_EXE_duly")], folder, store, variables).reading()
    }

    /// Starts the program by a command line of its own; what it writes after its addresses is not
    /// read.
    pub(crate) fn run(
        command: &[&str],
        folder: &std::path::Path,
        store: &str,
        variables: &[(&str, &str)],
    ) -> Self {
        let mut child = Command::new(command[0])
            .args(&command[1..])
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--admin-listen",
                "127.0.0.1:0",
            ])
            .args(["--store", store])
            .env("DULY_SERVER__LOG__ACCESS", "false")
            .envs(variables.iter().copied())
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut addresses = Vec::new();
        while addresses.len() < 2 {
            let mut line = String::new();
            let read = output.read_line(&mut line).expect("a line");
            assert!(read > 0, "it runs");
            if let Some((_, address)) = line.split_once("address=") {
                addresses.push(format!("http://{}", address.trim()));
            }
        }
        let admin = addresses.pop().expect("two addresses");
        let api = addresses.pop().expect("two addresses");
        Self {
            child,
            output: Some(output),
            api,
            admin,
        }
    }

    /// Reads what it writes, so that its pipe does not fill up.
    fn reading(mut self) -> Self {
        self.read();
        self
    }

    /// Reads what it writes from now on; returns it when it has ended.
    pub(crate) fn read(&mut self) -> Option<JoinHandle<String>> {
        let mut output = self.output.take()?;
        Some(std::thread::spawn(move || {
            let mut text = String::new();
            output.read_to_string(&mut text).ok();
            text
        }))
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.expect("`kill` is there").success());
    }

    /// Waits until it has ended; returns whether it was a success.
    pub(crate) async fn ended(&mut self) -> bool {
        let status = std::cell::Cell::new(None);
        let child = std::cell::RefCell::new(&mut self.child);
        until("the program has ended", async || {
            status.set(child.borrow_mut().try_wait().expect("its status"));
            status.get().is_some()
        })
        .await;
        status.get().is_some_and(|status| status.success())
    }

    /// `kill -9`; it is gone when this returns.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn kills() -> usize {
    let kills = std::env::var("DULY_SERVER_KILLS").ok();
    kills.map_or(KILLS, |kills| kills.parse().expect("a number of kills"))
}

/// Publishes until the program is gone; returns what was confirmed.
async fn publish(client: Client, url: String, is_bulk: bool) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let body = if is_bulk {
            json!(vec![fastrand::u64(..); BULK]).to_string()
        } else {
            "x".to_owned()
        };
        let put = client.put(&url).header("X-Token", TOKEN).body(body);
        let Ok(response) = put.send().await else {
            return ids;
        };
        let status = response.status();
        let Ok(text) = response.text().await else {
            return ids;
        };
        if status != 201 {
            return ids;
        }
        let reply: Value = serde_json::from_str(&text).expect("JSON");
        let of = |id: &Value| id.as_str().expect("an id").to_owned();
        match reply["job_ids"].as_array() {
            Some(bulk) => ids.extend(bulk.iter().map(of)),
            None => ids.push(of(&reply["job_id"])),
        }
    }
}

async fn every_confirmed_job_is_delivered(store: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let client = client();
    let mut confirmed = BTreeSet::new();
    let kills = kills();
    for kill in 0..kills {
        let mut program = Program::start(folder.path(), store);
        if kill == 0 {
            let path = format!("{}/token/ns?description=d&token={TOKEN}", program.admin);
            reply(client.post(path)).await.is(201);
        }
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let is_bulk = number % 2 == 1;
            let bulk = if is_bulk { "/bulk" } else { "" };
            let url = format!("{}/api/ns/q{bulk}?ttl=0&tries=50", program.api);
            clients.spawn(publish(client.clone(), url, is_bulk));
        }
        let size = format!("{}/api/ns/q/size", program.api);
        let enough = (kill + 1) * JOBS;
        until("jobs are published", async || {
            let size = reply(client.get(&size)).await.is(200);
            size["size"].as_u64() >= u64::try_from(enough).ok()
        })
        .await;
        program.kill();
        for ids in clients.join_all().await {
            confirmed.extend(ids);
        }
    }
    let program = Program::start(folder.path(), store);
    let mut delivered = BTreeSet::new();
    let mut bulks: BTreeMap<String, usize> = BTreeMap::new();
    let url = format!("{}/api/ns/q?count=100&ttr=600&timeout=1", program.api);
    loop {
        let jobs = reply(client.get(&url).header("X-Token", TOKEN)).await;
        if jobs.status == 404 {
            break;
        }
        let jobs = jobs.is(200);
        for job in jobs.as_array().expect("an array") {
            let text = |field: &str| job[field].as_str().expect("a text").to_owned();
            delivered.insert(text("job_id"));
            *bulks.entry(text("data")).or_default() += 1;
        }
    }
    bulks.remove("eA=="); // what is no bulk
    let torn: Vec<_> = bulks.iter().filter(|(_, jobs)| **jobs != BULK).collect();
    assert!(torn.is_empty() && !bulks.is_empty(), "torn: {torn:?}");
    let lost: Vec<_> = confirmed.difference(&delivered).collect();
    assert!(
        lost.is_empty(),
        "{} of {} are lost",
        lost.len(),
        confirmed.len()
    );
    assert!(confirmed.len() > kills, "{}", confirmed.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_embedded_store() {
    every_confirmed_job_is_delivered("sqlite:jobs.db").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis() {
    every_confirmed_job_is_delivered(&with_prefix(&servers::shared().url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster() {
    every_confirmed_job_is_delivered(&with_prefix(&servers::shared_cluster())).await;
}
