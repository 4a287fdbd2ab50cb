//! `kill -9` of the program under load: every confirmed job is delivered.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use reqwest::Client;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::world::{client, reply, until};

/// How often the program is killed.
const KILLS: usize = 4;
/// How many clients publish at the same time.
const CLIENTS: usize = 8;
/// How many jobs are confirmed before each kill.
const JOBS: usize = 200;

const TOKEN: &str = "a-token-that-survives-kills";

/// The program, and where it listens.
pub(crate) struct Program {
    child: Child,
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
        let mut child = Command::new(env!("CARGO_BIN_EXE_duly"))
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
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut addresses = Vec::new();
        while addresses.len() < 2 {
            let line = lines.next().expect("it runs").expect("a line");
            if let Some((_, address)) = line.split_once("address=") {
                addresses.push(format!("http://{}", address.trim()));
            }
        }
        // Its pipe must not fill up.
        std::thread::spawn(move || lines.for_each(drop));
        let admin = addresses.pop().expect("two addresses");
        let api = addresses.pop().expect("two addresses");
        Self { child, api, admin }
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

/// Publishes until the program is gone; returns what was confirmed.
async fn publish(client: Client, url: String) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let sent = client
            .put(&url)
            .header("X-Token", TOKEN)
            .body("x")
            .send()
            .await;
        let Ok(response) = sent else { return ids };
        let status = response.status();
        let Ok(text) = response.text().await else {
            return ids;
        };
        if status != 201 {
            return ids;
        }
        let reply: Value = serde_json::from_str(&text).expect("JSON");
        ids.push(reply["job_id"].as_str().expect("an id").to_owned());
    }
}

async fn every_confirmed_job_is_delivered(store: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let client = client();
    let mut confirmed = BTreeSet::new();
    for kill in 0..KILLS {
        let mut program = Program::start(folder.path(), store);
        if kill == 0 {
            let path = format!("{}/token/ns?description=d&token={TOKEN}", program.admin);
            reply(client.post(path)).await.is(201);
        }
        let url = format!("{}/api/ns/q?ttl=0&tries=50", program.api);
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            clients.spawn(publish(client.clone(), url.clone()));
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
    let url = format!("{}/api/ns/q?count=100&ttr=600&timeout=1", program.api);
    loop {
        let jobs = reply(client.get(&url).header("X-Token", TOKEN)).await;
        if jobs.status == 404 {
            break;
        }
        let jobs = jobs.is(200);
        let ids = jobs.as_array().expect("an array").iter();
        delivered.extend(ids.map(|job| job["job_id"].as_str().expect("an id").to_owned()));
    }
    let lost: Vec<_> = confirmed.difference(&delivered).collect();
    assert!(
        lost.is_empty(),
        "{} of {} are lost",
        lost.len(),
        confirmed.len()
    );
    assert!(confirmed.len() > KILLS, "{}", confirmed.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_embedded_store() {
    every_confirmed_job_is_delivered("sqlite:jobs.db").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis() {
    let url = crate::servers::shared().url();
    let separator = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{separator}prefix={}", crate::servers::prefix());
    every_confirmed_job_is_delivered(&url).await;
}
