//! The scripts: one for each operation, put together from what they share.

use std::sync::LazyLock;

#[cfg(feature = "testing")]
use crate::store::redis::body;

/// A script as the server gets it.
#[derive(Debug)]
pub struct Script {
    /// What it is called in logs and errors.
    pub name: &'static str,
    text: String,
    hash: String,
}

impl Script {
    fn new(name: &'static str, parts: &[&str]) -> Self {
        let text = parts.concat();
        #[cfg(feature = "testing")]
        let text = match body::pretended_format() {
            Some(format) => text
                .replace("local FORMAT = 1", &format!("local FORMAT = {format}"))
                .replace("local RECORDS = 1", &format!("local RECORDS = {format}")),
            None => text,
        };
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { name, text, hash }
    }

    /// Its text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The hash by which a server knows it.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// A call of it on these keys; arguments follow.
    pub(super) fn call(&self, keys: &[Vec<u8>]) -> redis::Cmd {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.hash).arg(keys.len());
        for key in keys {
            call.arg(key);
        }
        call
    }
}

/// A script that makes room, or needs so little that it must run on a server whose memory is full.
const DRAINS: &str = "#!lua flags=allow-oom\n";
/// A script that a server whose memory is full refuses before it begins.
const FILLS: &str = "#!lua\n";
/// A script that changes nothing.
const READS: &str = "#!lua flags=no-writes\n";

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $file:literal, $flags:ident, [$($part:literal),*];)*) => {
        $(
            $(#[$doc])*
            pub(super) static $name: LazyLock<Script> = LazyLock::new(|| {
                Script::new($file, &[
                    $flags,
                    $(include_str!(concat!("lua/", $part, ".lua")),)*
                    include_str!(concat!("lua/", $file, ".lua")),
                ])
            });
        )*

        /// All of them.
        pub fn all() -> impl Iterator<Item = &'static Script> {
            let all: [&'static LazyLock<Script>; _] = [$(&$name),*];
            all.into_iter().map(|script| &**script)
        }
    };
}

scripts! {
    /// Adds events.
    PUSH = "push", FILLS, ["bucket", "bytes", "body", "ending", "waiting"];
    /// Moves due events to the publish list.
    MOVE_DUE = "move_due", DRAINS, ["bucket"];
    /// Leases events to a node.
    FETCH = "fetch", DRAINS, ["bucket", "bytes", "body", "ending", "nodes"];
    /// Ends attempts.
    SETTLE = "settle", DRAINS, ["bucket", "bytes", "body", "ending", "waiting", "nodes"];
    /// Keeps what a node holds.
    HEARTBEAT = "heartbeat", DRAINS, ["bucket", "nodes"];
    /// Moves deadlines.
    EXTEND = "extend", DRAINS, ["bucket", "nodes"];
    /// Takes back what nobody holds any more.
    REAP = "reap", DRAINS, ["bucket", "bytes", "body", "ending", "waiting", "nodes", "take_back"];
    /// Takes back what a node does not hold any more by its own account.
    RECONCILE = "reconcile", DRAINS,
        ["bucket", "bytes", "body", "ending", "waiting", "nodes", "take_back"];
    /// Takes an event back.
    CANCEL = "cancel", DRAINS, ["bucket", "body", "ending", "waiting"];
    /// Gives an event another due time.
    RESCHEDULE = "reschedule", DRAINS, ["bucket", "waiting"];
    /// Gives an event another body.
    UPDATE = "update", FILLS, ["bucket", "bytes", "body", "ending"];
    /// Gives events other bodies that say the same.
    REWRITE = "rewrite", FILLS, ["bucket", "bytes"];
    /// Looks events up.
    LOOK = "look", DRAINS, ["bucket", "bytes", "look_up"];
    /// Reads what is not over, page by page.
    PEEK = "peek", DRAINS, ["bucket", "bytes", "look_up"];
    /// Reads events by their key or their unique key.
    FIND = "find", DRAINS, ["bucket", "bytes", "body", "look_up"];
    /// Reads dead events.
    READ_DEAD = "read_dead", DRAINS, ["bucket", "bytes", "look_up"];
    /// Makes dead events ready again.
    REVIVE = "revive", DRAINS, ["bucket", "bytes", "body", "ending", "waiting"];
    /// Removes dead events.
    DROP = "drop", DRAINS, ["bucket", "bytes", "body", "ending"];
    /// Reads records.
    OUTBOX = "outbox", READS, ["bucket"];
    /// Lets go of records that are in the journal.
    TRIM = "trim", DRAINS, ["bucket"];
    /// Counts events by state.
    STATS = "stats", DRAINS, ["bucket"];
    /// Counts events by due time.
    FORECAST = "forecast", DRAINS, ["bucket"];
    /// Checks everything that must be so.
    AUDIT = "audit", DRAINS, ["bucket", "body", "nodes"];
    /// Says that a node is there.
    ROLL = "roll", DRAINS, [];
    /// Adds buckets to the registry.
    REGISTER = "register", DRAINS, [];
    /// Sets one thing of a queue.
    SET = "set", DRAINS, [];
}
