//! The text of a script, assembled from its file and its libraries.

use std::collections::HashSet;

#[cfg(feature = "testing")]
use crate::codec::body;
use crate::core::op::{BATCH_BYTES, BATCH_MAX, HOLDS_MAX};
use crate::event::UNIQUE_FOR_MAX;
use crate::record::PAYLOAD_KEPT_MAX;
use crate::store::control::CONTROLS_MAX;
use crate::store::redis::link::script::Script;
use crate::store::redis::script::keys;
use crate::store::redis::script::names::{Head, Names, RECORDS_END, placed};

/// The longest body that is worth a place in a part of a page.
pub(in crate::store::redis) const PART_BODY_MAX: usize = 1024;

/// The constants that Lua has from Rust, as `RUST.` and the name.
const CONSTANTS: &[(&str, usize)] = &[
    ("BATCH_MAX", BATCH_MAX),
    ("BATCH_BYTES", BATCH_BYTES),
    ("HOLDS_MAX", HOLDS_MAX),
    ("CONTROLS_MAX", CONTROLS_MAX),
    ("RECORDS_END", RECORDS_END as usize),
    ("PART_BODY_MAX", PART_BODY_MAX),
    ("PAYLOAD_KEPT_MAX", PAYLOAD_KEPT_MAX),
    ("UNIQUE_FOR_MAX_MS", UNIQUE_FOR_MAX.as_millis() as usize),
];

/// The line above what a library does in each call, or a script that has definitions. What is before
/// it is kept from call to call where the server has the library: functions, constants, and names
/// without a value.
const EACH_CALL: &str = "-- Each call:\n";

/// Assembles a script from its parts; `table` names its arguments and its reply.
pub(in crate::store::redis) fn assemble(
    name: &'static str,
    flags: &[&str],
    libraries: &[&str],
    source: &str,
    table: &Names,
) -> Script {
    let (shared, source) = source.split_once(EACH_CALL).unwrap_or(("", source));
    let (mut once, mut each) = (String::new(), String::new());
    for library in libraries {
        let (definitions, of_a_call) = library.split_once(EACH_CALL).unwrap_or((library, ""));
        once.push_str(definitions);
        each.push_str(of_a_call);
    }
    let names = lua!("names").split_once(EACH_CALL);
    let (names, values) = names.unwrap_or_default();
    let all: &[&'static str] = match table.head {
        Head::Hub => &keys::HUB_PARTS,
        Head::Bucket | Head::Ending => &keys::PARTS,
    };
    let parts = parts_in(&[&once, &each, shared, source].concat(), all);
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
    let mut common = placed(&text.concat(), table);
    for (name, value) in CONSTANTS {
        common = common.replace(&format!("RUST.{name}"), &value.to_string());
    }
    Script::new(name, flags, parts, &of_this_format(common))
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

/// Returns which of `all` parts a source names in its code.
fn parts_in(source: &str, all: &[&'static str]) -> Vec<&'static str> {
    let code = source.lines().filter_map(|line| line.split("--").next());
    let is_in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names: HashSet<&str> = code
        .flat_map(|line| line.split(|c| !is_in_name(c)))
        .collect();
    let is_named = |part: &&str| names.contains(&*part.to_ascii_uppercase());
    all.iter().copied().filter(is_named).collect()
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
pub(in crate::store::redis) const DRAINS: &[&str] = &["allow-oom"];
/// Those of a script that a server whose memory is full refuses before it begins.
pub(in crate::store::redis) const FILLS: &[&str] = &[];
/// Those of a script that changes nothing.
pub(in crate::store::redis) const READS: &[&str] = &["no-writes"];

/// The text of a Lua file.
macro_rules! lua {
    ($file:expr) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/store/redis/lua/",
            $file,
            ".lua"
        ))
    };
}

pub(in crate::store::redis) use lua;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_called_with_the_keys_that_its_code_names() {
        let source = "-- HELD is of no use here\nlocal body = call('HGET', BODY, id) -- nor LEASE\n\
                      return body or READY_LEN(META)\n";
        let parts = parts_in(source, &keys::PARTS);
        assert_eq!(parts, ["meta", "body"]);
        let (declared, assigned) = named_keys(&parts);
        assert_eq!(declared, "local META, BODY\n");
        assert_eq!(assigned, "META, BODY = KEYS[1], KEYS[2]\n");
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
