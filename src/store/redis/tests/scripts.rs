//! All scripts, as they are assembled.

use std::collections::HashSet;

use super::super::hub::members::POLL_MEMBERS;
use super::super::op::scripts as of_buckets;
use super::super::preflight::scripts;
use super::super::script::keys::PARTS;

/// A name that a table lacks is still there.
#[test]
fn every_name_in_a_script_is_in_its_table() {
    for script in scripts() {
        for line in script.text().lines() {
            let is_named = ["ARGV.", "REPLY", "RUST."]
                .iter()
                .any(|name| line.contains(name));
            assert!(!is_named, "{}: {line}", script.name);
        }
    }
}

#[test]
fn every_script_file_is_called() {
    let called: HashSet<_> = scripts().map(|script| script.name).collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/redis/lua");
    for file in std::fs::read_dir(folder).expect("the scripts") {
        let path = file.expect("a script").path();
        let text = std::fs::read_to_string(&path).expect("a script");
        let name = path.file_stem().and_then(|name| name.to_str());
        let is_called = name.is_some_and(|name| called.contains(name));
        assert_eq!(is_called, text.starts_with("-- Script:"), "{name:?}");
    }
}

#[test]
fn the_keys_of_a_script_are_those_that_it_touches() {
    let parts = |name: &str| {
        let mut all = of_buckets();
        all.find(|script| script.name == name)
            .expect("it is one")
            .parts()
    };
    assert_eq!(
        parts("heartbeat"),
        [
            "meta", "state", "delay", "ready", "nodes", "held", "requests"
        ]
    );
    assert_eq!(parts("check").len(), PARTS.len(), "all");
    assert_eq!(POLL_MEMBERS.parts(), ["members", "queues", "hub"]);
}
