//! The Lua scripts: one for each operation, assembled from shared parts.

use std::collections::HashSet;
use std::sync::LazyLock;

use redis::ToSingleRedisArg;

#[cfg(feature = "testing")]
use crate::codec::body;
use crate::store::redis::keys;

/// A script in the form that the server receives.
#[derive(Debug)]
pub struct Script {
    /// Its name in logs and errors.
    pub name: &'static str,
    /// Which keys of a bucket it is called with.
    parts: Vec<&'static str>,
    text: String,
    hash: String,
}

impl Script {
    fn new(name: &'static str, header: &str, sources: &[&str]) -> Self {
        let source = sources.concat();
        let parts = parts_in(&source);
        let names = [include_str!("lua/names.lua"), &named_keys(&parts)].concat();
        // The names are locals of the chunk, and all else is in a function: to make a function, Lua
        // copies the references to what is beyond the enclosing function, but for each one to a
        // local of that function it searches all that are referred to so far.
        let text = [
            header,
            &names,
            "local function run()\n",
            &source,
            "end\nreturn run()\n",
        ]
        .concat();
        #[cfg(feature = "testing")]
        let text = match body::pretended_format() {
            Some(format) => text
                .replace("local FORMAT = 1", &format!("local FORMAT = {format}"))
                .replace("local RECORDS = 1", &format!("local RECORDS = {format}")),
            None => text,
        };
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self {
            name,
            parts,
            text,
            hash,
        }
    }

    /// Returns the parts of a bucket's keys that it is called with: those that it touches.
    pub(super) fn parts(&self) -> &[&'static str] {
        &self.parts
    }

    /// Returns its text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns its hash on a server.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Starts a call on these keys; arguments follow.
    pub(super) fn call(
        &self,
        keys: impl ExactSizeIterator<Item = impl ToSingleRedisArg>,
    ) -> redis::Cmd {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.hash).arg(keys.len());
        for key in keys {
            call.arg(key);
        }
        call
    }
}

/// Returns the parts whose keys a source names in its code.
fn parts_in(source: &str) -> Vec<&'static str> {
    let code = source.lines().filter_map(|line| line.split("--").next());
    let is_in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names: HashSet<&str> = code
        .flat_map(|line| line.split(|c| !is_in_name(c)))
        .collect();
    let is_named = |part: &&str| names.contains(&*part.to_ascii_uppercase());
    keys::PARTS.into_iter().filter(is_named).collect()
}

/// The line that gives a script the names of its keys.
fn named_keys(parts: &[&str]) -> String {
    if parts.is_empty() {
        return String::new();
    }
    let names = parts.join(", ").to_ascii_uppercase();
    let keys: Vec<_> = (1..=parts.len()).map(|n| format!("KEYS[{n}]")).collect();
    format!("local {names} = {}\n", keys.join(", "))
}

/// The header of a script that frees memory, or needs so little that it must run on a server whose
/// memory is full.
const DRAINS: &str = "#!lua flags=allow-oom\n";
/// The header of a script that a server whose memory is full refuses before it begins.
const FILLS: &str = "#!lua\n";
/// The header of a script that changes nothing.
const READS: &str = "#!lua flags=no-writes\n";

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $file:literal, $flags:ident, [$($part:literal),*];)*) => {
        $(
            $(#[$doc])*
            pub(super) static $name: LazyLock<Script> = LazyLock::new(|| {
                Script::new($file, $flags, &[
                    $(include_str!(concat!("lua/", $part, ".lua")),)*
                    include_str!(concat!("lua/", $file, ".lua")),
                ])
            });
        )*

        /// Returns all scripts.
        pub fn all() -> impl Iterator<Item = &'static Script> {
            let all: [&'static LazyLock<Script>; _] = [$(&$name,)* &EDIT_AND_REVIVE];
            all.into_iter().map(|script| &**script)
        }
    };
}

/// Edits a dead event and revives it, in one step: the scripts that do the one and the other, as
/// functions of one script. The second runs only if the first has changed the event.
///
/// `ARGV[4..=7]` as of the edit, `ARGV[8]` the calling process. Returns what the edit returns, and 1
/// if there is earlier work.
pub(super) static EDIT_AND_REVIVE: LazyLock<Script> = LazyLock::new(|| {
    let sources = [
        include_str!("lua/bucket.lua"),
        include_str!("lua/state.lua"),
        include_str!("lua/page.lua"),
        include_str!("lua/bytes.lua"),
        include_str!("lua/body.lua"),
        include_str!("lua/ending.lua"),
        include_str!("lua/waiting.lua"),
        "\nlocal given = ARGV\nlocal function edit(ARGV)\n",
        include_str!("lua/update.lua"),
        "\nend\nlocal function revive(ARGV)\n",
        include_str!("lua/revive.lua"),
        "\nend\n",
        "check_keys()\n",
        "local edited = edit({ given[1], given[2], given[3], given[4], given[5], given[6], given[7], '1' })\n",
        "if edited[2] ~= 'changed' and edited[2] ~= 'after' then\n",
        "  return { edited[1], edited[2], edited[3], 0, 0 }\n",
        "end\n",
        "local revived = revive({ given[1], given[2], given[3], given[8], given[7], given[4] })\n",
        "return { now, edited[2], now_ms, 1, revived[2] }\n",
    ];
    Script::new("edit_and_revive", FILLS, &sources)
});

scripts! {
    /// Adds events.
    PUSH = "push", FILLS, ["bucket", "state", "page", "bytes", "body", "ending"];
    /// Adds events without keys, which is the most frequent call: without what only keys need, since
    /// each function of a script is made anew by each call.
    PUSH_PLAIN = "push", FILLS, ["bucket", "state", "page", "bytes", "plain"];
    /// Moves due events to the ready list.
    MOVE_DUE = "move_due", DRAINS, ["bucket", "state", "page"];
    /// Leases events to a node.
    FETCH = "fetch", DRAINS, ["bucket", "state", "page", "bytes", "body", "ending", "nodes"];
    /// Ends attempts.
    SETTLE = "settle", DRAINS, ["bucket", "state", "page", "bytes", "body", "ending", "waiting", "nodes"];
    /// Extends all leases of a node.
    HEARTBEAT = "heartbeat", DRAINS, ["bucket", "nodes"];
    /// Extends leases with deadlines.
    EXTEND = "extend", DRAINS, ["bucket", "state", "page", "nodes"];
    /// Takes back the leases of silent nodes and those past their deadline.
    REAP = "reap", DRAINS, ["bucket", "state", "page", "bytes", "body", "ending", "waiting", "nodes", "take_back"];
    /// Takes back leases that their node reports it does not hold.
    RECONCILE = "reconcile", DRAINS,
        ["bucket", "state", "page", "bytes", "body", "ending", "waiting", "nodes", "take_back"];
    /// Cancels an event.
    CANCEL = "cancel", DRAINS, ["bucket", "state", "page", "body", "ending"];
    /// Changes the due time of an event.
    RESCHEDULE = "reschedule", DRAINS, ["bucket", "state", "page", "waiting"];
    /// Replaces the body of an event.
    UPDATE = "update", FILLS, ["bucket", "state", "page", "bytes", "body", "ending"];
    /// Replaces bodies by re-encoded ones.
    REWRITE = "rewrite", FILLS, ["bucket", "state", "page", "bytes"];
    /// Looks events up.
    LOOK = "look", DRAINS, ["bucket", "state", "page", "bytes", "look_up"];
    /// Reads the events that have not ended, page by page.
    PEEK = "peek", DRAINS, ["bucket", "state", "page", "bytes", "look_up"];
    /// Reads events by their key or their unique key.
    FIND = "find", DRAINS, ["bucket", "state", "page", "bytes", "body", "look_up"];
    /// Reads dead events.
    READ_DEAD = "read_dead", DRAINS, ["bucket", "state", "page", "bytes", "look_up"];
    /// Revives dead events.
    REVIVE = "revive", DRAINS, ["bucket", "state", "page", "bytes", "body", "ending", "waiting"];
    /// Deletes dead events.
    DROP = "drop", DRAINS, ["bucket", "state", "page", "bytes", "body", "ending"];
    /// Reads records.
    OUTBOX = "outbox", READS, ["bucket"];
    /// Drops records that are in the journal.
    TRIM = "trim", DRAINS, ["bucket"];
    /// Counts events by state.
    STATS = "stats", DRAINS, ["bucket", "state", "page"];
    /// Counts events by due time.
    FORECAST = "forecast", DRAINS, ["bucket", "state", "page"];
    /// Checks the invariants.
    AUDIT = "audit", DRAINS, ["bucket", "state", "page", "body", "nodes"];
    /// Looks for damage, and repairs it.
    CHECK = "check", DRAINS,
        ["bucket", "state", "page", "bytes", "body", "ending", "waiting", "nodes", "take_back"];
    /// Announces a node, and returns the members.
    POLL_MEMBERS = "poll_members", DRAINS, [];
    /// Adds buckets to the registry.
    REGISTER = "register", DRAINS, [];
    /// Changes one runtime setting of a queue.
    SET = "set", DRAINS, [];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_called_with_the_keys_that_its_code_names() {
        let source = "-- HELD is of no use here\nlocal body = call('HGET', BODY, id) -- nor LEASE\n\
                      return body or READY_LEN(META)\n";
        let parts = parts_in(source);
        assert_eq!(parts, ["meta", "body"]);
        assert_eq!(named_keys(&parts), "local META, BODY = KEYS[1], KEYS[2]\n");
    }

    #[test]
    fn the_keys_of_a_script_are_those_that_it_touches() {
        assert_eq!(
            HEARTBEAT.parts(),
            ["meta", "delay", "ready", "nodes", "held"]
        );
        assert_eq!(
            AUDIT.parts().len(),
            keys::PARTS.len() - 1,
            "all but the channel"
        );
        assert_eq!(
            POLL_MEMBERS.parts(),
            [""; 0],
            "its keys are those of all nodes"
        );
    }
}
