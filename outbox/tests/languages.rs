//! The examples in other languages, which push by plain SQL: what they commit is handled, once.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sqlx_0_8::Executor;

use crate::world::World;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(name)
}

/// A folder under the target directory, where what an example needs is installed once.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outbox-languages");
    folder.join(name)
}

fn run(command: &mut Command) -> Output {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}; see tests/run.sh"));
    assert!(
        output.status.success(),
        "{command:?}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Runs an installation unless it is there; beside another one it is done twice, into two folders.
fn installed(folder: &Path, install: impl FnOnce(&Path)) {
    if folder.exists() {
        return;
    }
    let parent = folder.parent().unwrap();
    std::fs::create_dir_all(parent).unwrap();
    let new = tempfile::tempdir_in(parent).unwrap();
    install(new.path());
    // Whoever was first has the name.
    std::fs::rename(new.path(), folder).ok();
    assert!(folder.exists());
}

/// Runs an example that places these orders, and sees that each is handled once and nothing else is.
async fn places(orders: [u64; 3], program: impl FnOnce(&str) -> Command + Send + 'static) {
    let world = World::new().await;
    let sql = "create table orders (number bigint primary key)";
    world.database.pool.execute(sql).await.unwrap();
    let relay = world.relay().await;
    let url = world.database.url.clone();
    let run = move || run(program(&url).env("DATABASE_URL", &url).env("DELAY", "0"));
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("again: refused, and no event"), "{said}");
    world.seen.reach(orders.len()).await;
    let settled = "select count(*) from duly_outbox_step where n = (select max(n) from \
                   duly_outbox_step) and reading is null";
    world.database.until(settled, 1).await;
    assert_eq!(world.seen.numbers(), orders);
    assert!(world.seen.counts().values().all(|count| *count == 1));
    relay.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_in_python_pushes_in_its_transactions() {
    places([1, 2, 3], |_| {
        let (example, folder) = (example("python"), folder("python"));
        installed(&folder, |folder| {
            let mut pip = Command::new("python3");
            pip.args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ]);
            pip.arg("--target").arg(folder);
            run(pip.arg("-r").arg(example.join("requirements.txt")));
        });
        let mut python = Command::new("python3");
        python
            .arg(example.join("shop.py"))
            .env("PYTHONPATH", &folder);
        python
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_in_node_pushes_in_its_transactions() {
    places([11, 12, 13], |_| {
        let (example, folder) = (example("node"), folder("node"));
        installed(&folder, |folder| {
            for file in ["package.json", "shop.mjs"] {
                std::fs::copy(example.join(file), folder.join(file)).unwrap();
            }
            let mut npm = Command::new("npm");
            npm.args(["install", "--silent", "--no-audit", "--no-fund"]);
            run(npm.current_dir(folder));
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
