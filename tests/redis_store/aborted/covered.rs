//! Which scripts fail in the tests here: every one that writes.

use std::collections::BTreeSet;

use duly::__internal::redis::scripts;

/// The scripts that [`ACTS`](super::acts::ACTS) call and that write.
pub(super) const OF_BUCKETS: [&str; 18] = [
    "cancel",
    "drop",
    "edit_and_revive",
    "expire",
    "extend",
    "fetch",
    "heartbeat",
    "look",
    "move_due",
    "overdue",
    "push",
    "reap",
    "reconcile",
    "reschedule",
    "revive",
    "rewrite",
    "settle",
    "update",
];

/// Those that write nothing, or in one write the counts of a bucket.
const READING: [&str; 6] = ["find", "forecast", "outbox", "peek", "read_dead", "stats"];

#[test]
fn every_script_that_writes_is_among_those_that_fail() {
    let lists: [&[&str]; 5] = [
        &OF_BUCKETS,
        &READING,
        &super::shared::TRIMS,
        &super::shared::REPAIRS,
        &super::hub::ALL,
    ];
    let listed: BTreeSet<&str> = lists.concat().into_iter().collect();
    let all: BTreeSet<&str> = scripts().map(|script| script.name).collect();
    assert_eq!(listed, all);
}
