//! Made-up files, of which each check must complain.

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
