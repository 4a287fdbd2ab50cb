//! Packages that programs have beside duly: each must stand in one manifest with it.
//!
//! A package that links a C library says so, and a program has one of each: SQLite above all. Here
//! cargo chooses the versions for a program that depends on duly with its default features and on a
//! neighbour as its own pages show it. Nothing is downloaded but the registry's index.
//! `DULY_NEIGHBOURS=build` builds each program, too, which takes half an hour.

mod outbox;
mod traced;

use std::path::Path;
use std::process::{Command, Output};

use crate::architecture::files::root;

/// How often the registry is asked before a test says that it cannot be reached.
const TRIES: u32 = 3;

/// A program with these dependencies, one a line.
struct Program {
    dependencies: &'static str,
    main: &'static str,
}

fn program(dependencies: &'static str) -> Program {
    Program {
        dependencies,
        main: "",
    }
}

impl Program {
    /// What its `main` does beside opening a bus.
    fn that(self, main: &'static str) -> Self {
        Self { main, ..self }
    }

    fn check(&self) {
        let folder = tempfile::tempdir().expect("a directory");
        self.write(folder.path());
        let lock = resolved(folder.path());
        for package in ["duly", "rusqlite", "libsqlite3-sys"] {
            let versions = locked(&lock, package);
            assert_eq!(versions.len(), 1, "{package} of {}", self.dependencies);
        }
        match std::env::var("DULY_NEIGHBOURS").as_deref() {
            Err(_) => {}
            Ok("build") => build(folder.path()),
            Ok(other) => panic!("DULY_NEIGHBOURS is {other:?}; it may be \"build\""),
        }
    }

    fn write(&self, folder: &Path) {
        let manifest = format!(
            "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
             [workspace]\n\n[dependencies]\nduly = {{ path = {:?} }}\n\
             tokio = {{ version = \"1\", features = [\"full\"] }}\n{}\n",
            root(),
            self.dependencies
                .replace("{root}", &root().display().to_string())
        );
        let main = format!(
            "#[tokio::main]\nasync fn main() {{\n    \
             let bus = duly::Bus::builder().store_url(\"sqlite:duly.db\").start().await.unwrap();\n    \
             {}\n    bus.shutdown(std::time::Duration::from_secs(30)).await.unwrap();\n}}\n",
            self.main
        );
        std::fs::create_dir(folder.join("src")).expect("a folder");
        std::fs::write(folder.join("Cargo.toml"), manifest).expect("a manifest");
        std::fs::write(folder.join("src/main.rs"), main).expect("a program");
    }
}

fn cargo(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(folder);
    // A registry that is slow is waited for; one that cannot be reached is said to be so.
    command.envs([("CARGO_NET_RETRY", "5"), ("CARGO_HTTP_TIMEOUT", "60")]);
    command.output().expect("cargo")
}

/// The lock that cargo makes for the program.
fn resolved(folder: &Path) -> String {
    let mut said = String::new();
    for _ in 0..TRIES {
        let output = cargo(folder, &["generate-lockfile"]);
        if output.status.success() {
            return std::fs::read_to_string(folder.join("Cargo.lock")).expect("a lock");
        }
        said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !is_conflict(&said),
            "duly cannot stand in one manifest with it:\n{said}"
        );
    }
    panic!("the registry could not be asked, so nothing is known of this neighbour:\n{said}");
}

/// Whether cargo found no versions that go together, and did not just fail to ask for them.
fn is_conflict(said: &str) -> bool {
    said.contains("failed to select a version")
}

/// Builds the program with all it depends on, and runs it.
fn build(folder: &Path) {
    let target = root().join("target/neighbours");
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or(target, |target| Path::new(&target).join("neighbours"));
    let target = target.display().to_string();
    let arguments = ["run", "--quiet", "--locked", "--target-dir", &target];
    let output = cargo(folder, &arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// The versions of a package in a lock.
fn locked(lock: &str, package: &str) -> Vec<String> {
    let name = format!("\nname = \"{package}\"\nversion = \"");
    let tables = lock.split("[[package]]");
    let versions = tables.filter_map(|table| table.strip_prefix(&name)?.split('"').next());
    versions.map(str::to_owned).collect()
}

/// In the database of the neighbour and in the store of duly there is one SQLite.
const POOL: &str = "let pool = sqlx::sqlite::SqlitePoolOptions::new()\
    .connect(\"sqlite::memory:\").await.unwrap(); \
    let (one,): (i64,) = sqlx::query_as(\"SELECT 1\").fetch_one(&pool).await.unwrap(); \
    assert_eq!(one, 1);";

#[test]
fn sqlx_0_8_with_sqlite() {
    program("sqlx = { version = \"0.8\", features = [\"runtime-tokio\", \"sqlite\"] }")
        .that(POOL)
        .check();
}

#[test]
fn sqlx_0_9_with_sqlite() {
    program("sqlx = { version = \"0.9\", features = [\"runtime-tokio\", \"sqlite\"] }")
        .that(POOL)
        .check();
}

/// Its SQLite stands in the lock, though nothing compiles it: cargo reserves it all the same.
#[test]
fn sqlx_0_8_with_postgres() {
    program("sqlx = { version = \"0.8\", features = [\"runtime-tokio\", \"postgres\"] }").check();
}

#[test]
fn sqlx_0_9_with_postgres() {
    program("sqlx = { version = \"0.9\", features = [\"runtime-tokio\", \"postgres\"] }").check();
}

#[test]
fn sea_orm_1() {
    program(
        "sea-orm = { version = \"1\", features = [\"runtime-tokio-rustls\", \"sqlx-sqlite\"] }",
    )
    .check();
}

#[test]
fn sea_orm_2() {
    program(
        "sea-orm = { version = \"2\", features = [\"runtime-tokio-rustls\", \"sqlx-sqlite\"] }",
    )
    .check();
}

#[test]
fn diesel_2_with_sqlite() {
    program("diesel = { version = \"2\", features = [\"r2d2\", \"sqlite\"] }").check();
}

#[test]
fn rusqlite_itself() {
    for dependency in [
        "rusqlite = \"0.32\"",
        "rusqlite = \"0.37\"",
        "rusqlite = \"0.41\"",
        "rusqlite = { version = \"0.43\", features = [\"bundled\"] }",
    ] {
        program(dependency).check();
    }
}

#[test]
fn axum() {
    program("axum = \"0.8\"").check();
}

#[test]
fn actix_web() {
    program("actix-web = \"4\"").check();
}

#[test]
fn tonic() {
    program("prost = \"0.14\"\ntonic = \"0.14\"").check();
}

#[test]
fn reqwest() {
    program("reqwest = { version = \"0.13\", features = [\"json\"] }").check();
    program("reqwest = { version = \"0.12\", features = [\"json\"] }").check();
}

/// `tokio-console`: its subscriber brings a tonic of its own.
#[test]
fn console_subscriber() {
    program("console-subscriber = \"0.5\"\ntracing = \"0.1\"").check();
}

/// A service as there are many.
#[test]
fn all_of_a_service() {
    program(
        "axum = \"0.8\"\nreqwest = \"0.13\"\ntonic = \"0.14\"\n\
         sqlx = { version = \"0.9\", features = [\"runtime-tokio\", \"postgres\", \"sqlite\"] }\n\
         tokio-postgres = \"0.7\"\nredis = { version = \"1\", features = [\"tokio-comp\"] }\n\
         metrics-exporter-prometheus = \"0.18\"",
    )
    .that(POOL)
    .check();
}

/// The rest of the suite runs on the newest that is allowed, `tests/oldest` on the oldest.
#[test]
fn the_suite_has_the_newest_rusqlite_that_is_allowed() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).expect("a file");
    let is = locked(&read("Cargo.lock"), "rusqlite");
    let manifest = read("Cargo.toml");
    let bound = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rusqlite = { version = \">="))
        .and_then(|range| range.split_once("<0.")?.1.split('"').next())
        .expect("a range");
    let newest: u32 = bound.parse::<u32>().expect("a number") - 1;
    assert_eq!(is.len(), 1, "{is:?}");
    assert!(
        is[0].starts_with(&format!("0.{newest}.")),
        "{is:?}, <0.{bound}"
    );
}

#[test]
fn a_registry_that_is_away_is_no_conflict() {
    assert!(!is_conflict(
        "error: failed to get `sqlx` as a dependency\n\nCaused by:\n  Could not resolve hostname"
    ));
    assert!(is_conflict(
        "error: failed to select a version for `libsqlite3-sys`.\n    ... required by ..."
    ));
}
