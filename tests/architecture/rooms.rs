//! Which room may know which, and which package.

use super::files::{File, is_name, words};

/// Rooms from the ground up: each may name those below it, never one beside or above it.
///
/// `error` lies under everything, since everything may fail. `lib.rs` is the front door and stands
/// on no floor; `__private` is the door for what the macros write, and `__internal` for this repository.
const FLOORS: &[&[&str]] = &[
    &["error"],
    &["time", "duration", "outage"],
    &["event"],
    &["retry", "record", "codec", "metrics"],
    &["core", "sqlite"],
    &["store", "trace"],
    &["handler", "journal"],
    &["flow"],
    &["config"],
    &["bus"],
    &["testing", "__private", "__internal"],
];

/// Rooms of `flow` from the ground up. The pool could be a crate: it names none of the others.
const FLOW_FLOORS: &[&[&str]] = &[
    &["pool", "options", "log_limiter", "runtime_settings"],
    &["node"],
    &["handlers", "call_metrics", "pull"],
    &["consumers"],
    &["membership"],
    &["mover"],
    &["start"],
];

/// Packages that one room hides from the rest, and that room: changing one is changing the other.
const PACKAGES: &[(&str, &[&str])] = &[
    ("disruptor", &["src/flow/pool/ring.rs"]),
    (
        "rusqlite",
        &["src/sqlite", "src/store/embedded", "src/journal/sqlite"],
    ),
    ("tokio_postgres", &["src/journal/postgres"]),
    ("tokio_postgres_rustls", &["src/journal/postgres"]),
    ("redis", &["src/store/redis"]),
    ("rustls", &["src/store/redis", "src/journal/postgres"]),
    ("aes_gcm_siv", &["src/codec/cipher.rs"]),
    ("base64", &["src/codec/keys.rs"]),
    ("rmp_serde", &["src/codec/values.rs"]),
    (
        "metrics_exporter_prometheus",
        &["src/metrics/prometheus.rs"],
    ),
    ("config", &["src/config.rs", "src/config"]),
    ("opentelemetry", &["src/trace/otel.rs"]),
    ("tracing_opentelemetry", &["src/trace/otel.rs"]),
    (
        "inventory",
        &[
            "src/flow/consumers/registry.rs",
            "src/lib.rs",
            "src/__private.rs",
        ],
    ),
];

/// What decides knows no thread, runtime, clock, lock, random number or random order: the same
/// inputs have to give the same actions, or a seed proves nothing.
#[rustfmt::skip]
const IMPURE: &[&str] = &[
    "std::thread", "thread::", "tokio", "async", "await", "Instant", "SystemTime", "fastrand",
    "HashMap", "HashSet", "RandomState", "Mutex", "RwLock", "Condvar", "OnceLock", "LazyLock",
    "sync::atomic", "atomic::", "std::fs", "std::io", "std::net", "std::env", "std::process",
    "print", "println", "eprint", "eprintln", "dbg",
];

/// Imports that point up, sideways or at the front door.
pub(crate) fn imports_not_down(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let Some(room) = room(&file.path) else {
            continue;
        };
        let path = &file.path;
        let Some(here) = floor(room) else {
            wrong.push(format!(
                "{path}: room `{room}` has no floor; FLOORS in tests/architecture gives it one"
            ));
            continue;
        };
        for (number, line) in file.code() {
            for used in rooms_named(line).filter(|used| *used != room) {
                if used.is_empty() {
                    wrong.push(format!(
                        "{path}:{number}: room `{room}` names several rooms in one `use`; each \
                         takes a line"
                    ));
                } else if floor(used).is_none_or(|there| there >= here) {
                    wrong.push(format!(
                        "{path}:{number}: room `{room}` names `crate::{used}`"
                    ));
                }
            }
            if line.contains("use super::") && line.matches("super::").count() >= depth(path) {
                wrong.push(format!(
                    "{path}:{number}: room `{room}` names the front door by `super::`"
                ));
            }
        }
    }
    wrong
}

/// Imports between the rooms of `flow` that point up or sideways.
pub(crate) fn flow_imports_not_down(files: &[File]) -> Vec<String> {
    let floor = |room: &str| FLOW_FLOORS.iter().position(|floor| floor.contains(&room));
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let path = &file.path;
        let Some(inside) = path.strip_prefix("src/flow/") else {
            continue;
        };
        let room = inside.split(['/', '.']).next().unwrap_or_default();
        if room == "mod" {
            continue;
        }
        let here = floor(room);
        for (number, line) in file.code() {
            for at in words(line, "crate::flow::") {
                let used = line[at + "crate::flow::".len()..].split(|c| !is_name(c));
                let used = used.into_iter().next().unwrap_or_default();
                if used != room && (here.is_none() || floor(used) >= here || floor(used).is_none())
                {
                    wrong.push(format!(
                        "{path}:{number}: room `{room}` names `crate::flow::{used}`"
                    ));
                }
            }
        }
    }
    wrong
}

/// Packages that are named outside the room that hides them.
pub(crate) fn packages_out_of_their_room(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (package, rooms) in PACKAGES {
        let outside = |file: &&File| !rooms.iter().any(|room| file.is_in(room));
        for file in files.iter().filter(outside) {
            for (number, line) in file.code() {
                if names_package(line, package) {
                    wrong.push(format!(
                        "{}:{number}: names `{package}`, which only {} may",
                        file.path,
                        rooms.join(" and ")
                    ));
                }
            }
        }
    }
    wrong
}

/// Where files name one of `hidden`, modules that are outside of the public face.
pub(crate) fn hidden_modules_named(files: &[File], hidden: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files {
        for (number, line) in file.code() {
            for word in hidden {
                if words(line, word).next().is_some() {
                    wrong.push(format!(
                        "{}:{number}: names `{word}`, which is hidden",
                        file.path
                    ));
                }
            }
        }
    }
    wrong
}

/// What the files of `core` name of the world outside.
pub(crate) fn impurities(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files {
        for (number, line) in file.code() {
            for word in IMPURE {
                if words(line, word).next().is_some() {
                    wrong.push(format!(
                        "{}:{number}: names `{word}`; core only decides: times and answers go in, \
                         actions come out",
                        file.path
                    ));
                }
            }
        }
    }
    wrong
}

/// The room that a file lies in; the front door is none.
fn room(path: &str) -> Option<&str> {
    let first = path.strip_prefix("src/")?.split('/').next()?;
    let room = first.strip_suffix(".rs").unwrap_or(first);
    (room != "lib").then_some(room)
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&room))
}

/// What follows each `crate::`; empty for a brace, so that each import has to name its own room.
fn rooms_named(line: &str) -> impl Iterator<Item = &str> {
    let paths = words(line, "crate::").map(|at| &line[at + "crate::".len()..]);
    paths.map(|path| path.split(|c| !is_name(c)).next().unwrap_or_default())
}

/// How many steps a module is away from the front door.
fn depth(path: &str) -> usize {
    path.matches('/').count() - usize::from(path.ends_with("/mod.rs"))
}

/// Whether `line` names a package; `crate::config::` and `self::config::` are modules of ours.
fn names_package(line: &str, package: &str) -> bool {
    words(line, package).any(|at| {
        let (before, after) = (&line[..at], &line[at + package.len()..]);
        let (path, is_rooted) = match before.strip_suffix("::") {
            Some(path) => (path, true),
            None => (before, false),
        };
        let is_ours = is_rooted && path.ends_with(is_name);
        let is_imported = path.ends_with("use ") || path.ends_with("extern crate ");
        !is_ours && (is_imported || after.starts_with("::"))
    })
}

#[cfg(test)]
mod made_up {
    use super::*;

    fn complaints(check: fn(&[File]) -> Vec<String>, path: &str, line: &str) -> Vec<String> {
        check(&[File::new(path, &format!("//! A file.\n\n{line}\n"))])
    }

    #[test]
    fn an_import_that_points_up_is_found() {
        let found = complaints(
            imports_not_down,
            "src/store/mod.rs",
            "use crate::flow::Ring;",
        );
        assert_eq!(
            found,
            ["src/store/mod.rs:3: room `store` names `crate::flow`"]
        );
    }

    #[test]
    fn an_import_that_points_sideways_is_found() {
        let line = "    let outcome: crate::journal::Line = read();";
        let found = complaints(imports_not_down, "src/handler/context.rs", line);
        assert_eq!(
            found,
            ["src/handler/context.rs:3: room `handler` names `crate::journal`"]
        );
    }

    #[test]
    fn an_import_from_the_front_door_is_found() {
        for (line, end) in [
            ("use crate::Error;", "names `crate::Error`"),
            (
                "use crate::{error::Error, time::Mono};",
                "names several rooms in one `use`; each takes a line",
            ),
            ("use super::Error;", "names the front door by `super::`"),
        ] {
            let found = complaints(imports_not_down, "src/retry.rs", line);
            assert_eq!(found, [format!("src/retry.rs:3: room `retry` {end}")]);
        }
    }

    #[test]
    fn an_import_that_points_up_within_flow_is_found() {
        for line in [
            "use crate::flow::mover::Mover;",
            "use crate::flow::options::QueueOptions;",
            "use crate::flow::Flow;",
        ] {
            let found = complaints(flow_imports_not_down, "src/flow/pool/worker.rs", line);
            assert_eq!(found.len(), 1, "{line}");
        }
        let down = "use crate::flow::pool::Pool;";
        let found = complaints(flow_imports_not_down, "src/flow/consumers/set.rs", down);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn a_room_without_a_floor_is_found() {
        let found = complaints(imports_not_down, "src/attic/mod.rs", "");
        assert!(found[0].starts_with("src/attic/mod.rs: room `attic` has no floor"));
    }

    #[test]
    fn an_import_that_points_down_or_stays_is_fine() {
        for line in [
            "use crate::error::Error;",
            "use crate::store::Store;",
            "use crate::flow::pool::wake::Gate;",
            "use super::wake::Gate;",
            "pub(crate) fn a() {} // unlike crate::bus::a",
        ] {
            let found = complaints(imports_not_down, "src/flow/pool/mod.rs", line);
            assert_eq!(found, [""; 0], "{line}");
        }
        let front_door = complaints(imports_not_down, "src/lib.rs", "use crate::bus::Bus;");
        assert_eq!(front_door, [""; 0]);
    }

    #[test]
    fn a_package_outside_its_room_is_found() {
        for (path, line, package) in [
            (
                "src/flow/pool/mod.rs",
                "use disruptor::EventPoller;",
                "disruptor",
            ),
            (
                "src/flow/ring_two.rs",
                "use disruptor as ring;",
                "disruptor",
            ),
            (
                "src/core/op.rs",
                "fn a(row: &rusqlite::Row<'_>) {}",
                "rusqlite",
            ),
            (
                "src/bus/builder.rs",
                "    let file = ::config::File::new();",
                "config",
            ),
            ("src/bus/mod.rs", "pub use config;", "config"),
            ("src/bus/mod.rs", "inventory::submit! { x }", "inventory"),
        ] {
            let found = complaints(packages_out_of_their_room, path, line);
            assert_eq!(found.len(), 1, "{line}");
            let start = format!("{path}:3: names `{package}`, which only src/");
            assert!(found[0].starts_with(&start), "{found:?}");
        }
    }

    #[test]
    fn a_package_in_its_room_and_a_room_of_the_same_name_are_fine() {
        for (path, line) in [
            ("src/flow/pool/ring.rs", "use disruptor::EventPoller;"),
            ("src/store/embedded/file.rs", "use rusqlite::Connection;"),
            ("src/config.rs", "use config::Environment;"),
            ("src/config/reload.rs", "use config::Environment;"),
            ("src/lib.rs", "    pub use inventory;"),
            ("src/lib.rs", "pub use self::config::Settings;"),
            ("src/testing.rs", "use crate::config::Settings;"),
            ("src/bus/mod.rs", "let config = self.config.clone();"),
        ] {
            let found = complaints(packages_out_of_their_room, path, line);
            assert_eq!(found, [""; 0], "{line}");
        }
    }

    #[test]
    fn a_hidden_module_is_found() {
        let line = "use duly::__internal::Node;";
        let check = |files: &[File]| hidden_modules_named(files, &["__internal"]);
        let found = complaints(check, "conformance/src/lib.rs", line);
        assert_eq!(
            found,
            ["conformance/src/lib.rs:3: names `__internal`, which is hidden"]
        );
    }

    #[test]
    fn what_makes_core_impure_is_found() {
        for line in [
            "use std::thread;",
            "    thread::park();",
            "use std::time::{Duration, Instant};",
            "use std::time::SystemTime;",
            "use tokio::sync::Notify;",
            "use std::collections::HashMap;",
            "    let seen = HashSet::new();",
            "    let jitter = fastrand::u64(..);",
            "use std::sync::{Arc, Mutex};",
            "use std::sync::atomic::AtomicU64;",
            "    println!(\"here\");",
        ] {
            let found = complaints(impurities, "src/core/mover.rs", line);
            assert!(!found.is_empty(), "{line}");
        }
    }

    #[test]
    fn deciding_is_pure() {
        for line in [
            "use std::collections::BTreeMap;",
            "use std::time::Duration;",
            "use std::sync::Arc;",
            "// An `Instant` is the driver's.",
            "    let instants = self.fingerprint(threads);",
        ] {
            let found = complaints(impurities, "src/core/mover.rs", line);
            assert_eq!(found, [""; 0], "{line}");
        }
    }
}
