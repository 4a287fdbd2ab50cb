//! The examples of other languages, against a server of this process.

use std::process::Command;

use crate::world::{Place, World};

async fn run(program: &str, example: &str) {
    let world = World::start(Place::Embedded).await;
    let path = format!("{}/examples/{example}", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(program);
    command
        .arg(path)
        .env("DULY_API", format!("http://{}", world.server.api_address()))
        .env(
            "DULY_ADMIN",
            format!("http://{}", world.server.admin_address()),
        );
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.expect("no panic").expect(program);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert!(
        text.contains("acknowledged") || text.contains("closed order 7"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_publishes_and_acknowledges() {
    run("sh", "curl.sh").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_leases_and_settles() {
    run("python3", "worker.py").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_leases_and_settles() {
    run("node", "worker.mjs").await;
}
