//! The Lua scripts: one for each operation, assembled from shared parts.

use std::collections::HashSet;
use std::sync::LazyLock;

#[cfg(feature = "testing")]
use crate::codec::body;
use crate::store::redis::keys;
pub use crate::store::redis::link::script::Script;

/// The line above what a library does in each call, or a script that has definitions. What is before
/// it is kept from call to call where the server has the library: functions, constants, and names
/// without a value.
const EACH_CALL: &str = "-- Each call:\n";

/// Assembles a script from its parts.
fn script(name: &'static str, flags: &[&str], libraries: &[&str], source: &str) -> Script {
    let (shared, source) = source.split_once(EACH_CALL).unwrap_or(("", source));
    let (mut once, mut each) = (String::new(), String::new());
    for library in libraries {
        let (definitions, of_a_call) = library.split_once(EACH_CALL).unwrap_or((library, ""));
        once.push_str(definitions);
        each.push_str(of_a_call);
    }
    let names = include_str!("lua/names.lua").split_once(EACH_CALL);
    let (names, values) = names.unwrap_or_default();
    let parts = parts_in(&[&once, &each, shared, source].concat());
    let (declared, assigned) = named_keys(&parts);
    // The names are locals of the chunk, and all else is in a function: to make a function, Lua
    // copies the references to what is beyond the enclosing function, but for each one to a
    // local of that function it searches all that are referred to so far.
    let text = [
        names,
        &declared,
        "local function define()\nlocal ARGV\n",
        values,
        &once,
        "local function begin(KEYS, arguments)\nARGV = arguments\n",
        &assigned,
        &each,
        "end\n",
        shared,
        "return function(KEYS, arguments)\nbegin(KEYS, arguments)\n",
        source,
        "end\nend\n",
    ];
    let common = of_this_format(text.concat());
    Script::new(name, flags, parts, &common)
}

/// Returns the text as it is in the format that a test pretends to know.
fn of_this_format(text: String) -> String {
    #[cfg(feature = "testing")]
    if let Some(format) = body::pretended_format() {
        return text
            .replace("local FORMAT = 1", &format!("local FORMAT = {format}"))
            .replace("local RECORDS = 1", &format!("local RECORDS = {format}"));
    }
    text
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

/// The lines that declare the names of a script's keys, and assign the keys to them.
fn named_keys(parts: &[&str]) -> (String, String) {
    if parts.is_empty() {
        return <_>::default();
    }
    let names = parts.join(", ").to_ascii_uppercase();
    let keys: Vec<_> = (1..=parts.len()).map(|n| format!("KEYS[{n}]")).collect();
    (
        format!("local {names}\n"),
        format!("{names} = {}\n", keys.join(", ")),
    )
}

/// The flags of a script that frees memory, or needs so little that it must run on a server whose
/// memory is full.
const DRAINS: &[&str] = &["allow-oom"];
/// Those of a script that a server whose memory is full refuses before it begins.
const FILLS: &[&str] = &[];
/// Those of a script that changes nothing.
const READS: &[&str] = &["no-writes"];

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $file:literal, $flags:ident, [$($part:literal),*];)*) => {
        $(
            $(#[$doc])*
            pub(super) static $name: LazyLock<Script> = LazyLock::new(|| {
                let libraries = &[$(include_str!(concat!("lua/", $part, ".lua")),)*];
                script($file, $flags, libraries, include_str!(concat!("lua/", $file, ".lua")))
            });
        )*

        /// Returns all scripts.
        pub fn all() -> impl Iterator<Item = &'static Script> {
            let all: [&'static LazyLock<Script>; _] = [$(&$name,)* &EDIT_AND_REVIVE];
            all.into_iter().map(|script| &**script)
        }
    };
}

/// Returns the names of the functions of all scripts.
pub(super) fn functions() -> HashSet<&'static str> {
    all().map(Script::function).collect()
}

/// Edits a dead event and revives it, in one step: the scripts that do the one and the other, as
/// functions of one script. The second runs only if the first has changed the event.
///
/// `ARGV[4..=7]` as of the edit, `ARGV[8]` the calling process. Returns what the edit returns, and 1
/// if there is earlier work.
pub(super) static EDIT_AND_REVIVE: LazyLock<Script> = LazyLock::new(|| {
    let libraries = [
        include_str!("lua/bucket.lua"),
        include_str!("lua/state.lua"),
        include_str!("lua/page.lua"),
        include_str!("lua/bytes.lua"),
        include_str!("lua/body.lua"),
        include_str!("lua/ending.lua"),
        include_str!("lua/waiting.lua"),
    ];
    let source = [
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
    script("edit_and_revive", FILLS, &libraries, &source.concat())
});

scripts! {
    /// Adds events.
    PUSH = "push", FILLS, ["bucket", "state", "page", "sweep", "bytes", "body", "ending", "expiring"];
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
    CANCEL = "cancel", DRAINS, ["bucket", "state", "page", "sweep", "bytes", "body", "ending", "expiring"];
    /// Ends what has expired.
    EXPIRE = "expire", DRAINS, ["bucket", "state", "page", "sweep", "bytes", "body", "ending", "expiring"];
    /// Changes the due time of an event.
    RESCHEDULE = "reschedule", DRAINS, ["bucket", "state", "page", "sweep", "waiting", "unexpired"];
    /// Replaces the body of an event.
    UPDATE = "update", FILLS, ["bucket", "state", "page", "bytes", "body", "ending"];
    /// Replaces bodies by re-encoded ones.
    REWRITE = "rewrite", FILLS, ["bucket", "state", "page", "bytes", "unexpired"];
    /// Looks events up.
    LOOK = "look", DRAINS, ["bucket", "state", "page", "bytes", "look_up", "unexpired"];
    /// Reads the events that have not ended, page by page.
    PEEK = "peek", DRAINS, ["bucket", "state", "page", "bytes", "look_up", "unexpired"];
    /// Reads events by their key or their unique key.
    FIND = "find", DRAINS, ["bucket", "state", "page", "bytes", "body", "look_up", "unexpired"];
    /// Reads dead events.
    READ_DEAD = "read_dead", DRAINS, ["bucket", "state", "page", "bytes", "look_up", "unexpired"];
    /// Revives dead events.
    REVIVE = "revive", DRAINS, ["bucket", "state", "page", "bytes", "body", "ending", "waiting"];
    /// Deletes dead events.
    DROP = "drop", DRAINS, ["bucket", "state", "page", "bytes", "body", "ending"];
    /// Reads records.
    OUTBOX = "outbox", READS, ["bucket"];
    /// Drops records that are in the journal.
    TRIM = "trim", DRAINS, ["bucket"];
    /// Counts events by state.
    STATS = "stats", DRAINS, ["bucket", "state", "page", "unexpired"];
    /// Counts events by due time.
    FORECAST = "forecast", DRAINS, ["bucket", "state", "page", "unexpired"];
    /// Checks that everything is where it must be, and repairs damage.
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
        let (declared, assigned) = named_keys(&parts);
        assert_eq!(declared, "local META, BODY\n");
        assert_eq!(assigned, "META, BODY = KEYS[1], KEYS[2]\n");
    }

    #[test]
    fn the_keys_of_a_script_are_those_that_it_touches() {
        assert_eq!(
            HEARTBEAT.parts(),
            ["meta", "delay", "ready", "nodes", "held", "requests"]
        );
        assert_eq!(CHECK.parts().len(), keys::PARTS.len(), "all");
        assert_eq!(
            POLL_MEMBERS.parts(),
            [""; 0],
            "its keys are those of all nodes"
        );
    }

    /// A library lives on between calls: what a call changes must have its first value in each.
    #[test]
    fn what_a_call_changes_begins_anew_in_each_call() {
        /// Functions, under names that no call changes.
        const FUNCTIONS: [&str; 3] = ["guarded", "check", "parts"];
        let mut files = 0;
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/redis/lua");
        for file in std::fs::read_dir(folder).expect("the scripts") {
            let path = file.expect("a script").path();
            let text = std::fs::read_to_string(&path).expect("a script");
            let (once, each) = match text.split_once(EACH_CALL) {
                Some(parts) => parts,
                None if text.starts_with("-- Library:") => (&text[..], ""),
                None => continue,
            };
            files += 1;
            let assigned: HashSet<&str> = each
                .lines()
                .filter_map(|line| line.trim_start_matches("local ").split_once(" = "))
                .flat_map(|(names, _)| names.split(", "))
                .collect();
            let declared = once.lines().filter_map(|line| line.strip_prefix("local "));
            for line in declared.filter(|line| !line.starts_with("function ")) {
                let line = line.split(" --").next().unwrap_or(line);
                let (names, value) = line.split_once(" = ").unwrap_or((line, ""));
                for name in names.split(", ") {
                    let is_constant =
                        name == name.to_ascii_uppercase() || FUNCTIONS.contains(&name);
                    let is_anew = value.is_empty() && assigned.contains(name);
                    assert!(
                        is_anew || (!value.is_empty() && is_constant),
                        "{}: {name} is neither a constant nor given a value in each call",
                        path.display()
                    );
                }
            }
        }
        assert!(files > 8, "{files} libraries");
    }
}
