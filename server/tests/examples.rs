//! The examples of other languages, each run twice against a server of this process.

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use duly_outbox::{Database, schema};
use serde_json::{Value, json};

use crate::servers::{Postgres, PostgresOptions};
use crate::world::{Place, World};

/// Returns what a program writes, which succeeds.
fn output(command: &mut Command) -> String {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}; see tests/run.sh"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{text}{errors}");
    text
}

async fn run(program: &str, example: &str) {
    let world = World::start(Place::Embedded).await;
    let path = format!("{}/examples/{example}", env!("CARGO_MANIFEST_DIR"));
    for _ in 0..2 {
        let mut command = Command::new(program);
        command
            .arg(&path)
            .env("DULY_API", format!("http://{}", world.server.api_address()))
            .env(
                "DULY_ADMIN",
                format!("http://{}", world.server.admin_address()),
            );
        let text = tokio::task::spawn_blocking(move || output(&mut command)).await;
        let text = text.expect("no panic");
        assert!(
            text.contains("acknowledged") || text.contains("closed order 7"),
            "{text}"
        );
    }
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

/// An example of the outbox, which pushes by plain SQL.
fn outbox_example(name: &str) -> PathBuf {
    let server = Path::new(env!("CARGO_MANIFEST_DIR"));
    server.with_file_name("outbox").join("examples").join(name)
}

/// Returns a folder under the target directory, where what an example needs is installed once;
/// beside another process that is done twice, into two folders.
fn installed(name: &str, install: impl FnOnce(&Path)) -> PathBuf {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outbox-languages");
    let folder = parent.join(name);
    if !folder.exists() {
        std::fs::create_dir_all(&parent).unwrap();
        let new = tempfile::tempdir_in(parent).unwrap();
        install(new.path());
        // The first one has the name.
        std::fs::rename(new.path(), &folder).ok();
        assert!(folder.exists());
    }
    folder
}

/// Runs an example that places three orders and is refused a fourth, beside a server that relays:
/// a worker of the namespace `shop` gets an event of each order, and no other one.
async fn places(program: impl Fn() -> Command + Clone + Send + 'static) {
    let database = Postgres::start(PostgresOptions::default());
    database.sql(schema(Database::Postgres));
    database.sql("create table orders (number bigint primary key)");
    let url = database.url();
    let relayed = format!("[outbox]\nurl = '{url}'");
    let mut world = World::start_with(Place::Embedded, &relayed).await;
    world.token = world.new_token("shop", "").await;
    let number = async || -> Value {
        let job = world.consume("/api/shop/orders?ttr=600&timeout=20").await;
        let body = STANDARD.decode(job["data"].as_str().unwrap()).unwrap();
        serde_json::from_slice::<Value>(&body).unwrap()["number"].clone()
    };
    for first in [1, 4] {
        let (program, url) = (program.clone(), url.clone());
        let text = tokio::task::spawn_blocking(move || {
            output(program().env("DATABASE_URL", url).env("DELAY", "0"))
        });
        let text = text.await.unwrap();
        assert!(text.contains("again: refused, and no event"), "{text}");
        for order in first..first + 3 {
            assert_eq!(number().await, json!(order));
        }
        // What is pushed after it comes next.
        database.sql(r#"select duly_push('shop.orders', '{"number": 0}')"#);
        assert_eq!(number().await, json!(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_in_python_pushes_in_its_transactions() {
    places(|| {
        let example = outbox_example("python");
        let packages = installed("python", |folder| {
            let mut pip = Command::new("python3");
            pip.args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ]);
            pip.arg("--target").arg(folder);
            output(pip.arg("-r").arg(example.join("requirements.txt")));
        });
        let mut python = Command::new("python3");
        python.arg(example.join("shop.py"));
        python.env("PYTHONPATH", packages);
        python
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_in_node_pushes_in_its_transactions() {
    places(|| {
        let example = outbox_example("node");
        let folder = installed("node", |folder| {
            std::fs::copy(example.join("package.json"), folder.join("package.json")).unwrap();
            let mut npm = Command::new("npm");
            npm.args(["install", "--silent", "--no-audit", "--no-fund"]);
            output(npm.current_dir(folder));
        });
        // It finds its packages beside itself.
        let program = folder.join("shop.mjs");
        std::fs::copy(example.join("shop.mjs"), &program).unwrap();
        let mut node = Command::new("node");
        node.arg(program);
        node
    })
    .await;
}
