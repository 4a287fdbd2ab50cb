//! A fault injector: scripts that fail after any of their writes.

use std::collections::BTreeSet;

use duly::__internal::redis::scripts;

use crate::servers::Redis;

/// Commands that write.
const WRITES: [&str; 15] = [
    "HSET",
    "HDEL",
    "ZADD",
    "ZREM",
    "RPUSH",
    "LPUSH",
    "LTRIM",
    "LSET",
    "LINSERT",
    "XADD",
    "XTRIM",
    "HINCRBY",
    "ZREMRANGEBYRANK",
    "LREM",
    "SADD",
];

/// What a call of a script begins with that fails once, after so many writes as the key `fault` says.
/// It is all in one block, as a function of Lua has 60 upvalues, of which some scripts use each.
fn injected(script: &str) -> String {
    let writes = WRITES.map(|name| format!("{name}=1")).join(",");
    format!(
        "ARGV = arguments\n\
         do local writes, left = {{{writes}}}, tonumber(redis.call('GET', 'fault') or 1000) \
         call = function(command, ...) if writes[command] then left = left - 1 if left < 0 then \
         redis.call('DEL', 'fault') redis.call('SADD', 'aborted', '{script}') error('a fault') end end \
         return redis.call(command, ...) end end\n"
    )
}

/// Puts scripts onto a server that fail once, after so many writes as the key `fault` says: in place of
/// each library, and beside each script. Returns the hash of each script with that of its other.
pub(crate) fn load(server: &Redis) -> Vec<(String, String)> {
    let mut hashes = Vec::new();
    for script in scripts() {
        let faulty = |text: &str| text.replace("ARGV = arguments\n", &injected(script.name));
        let library = faulty(script.library());
        let loaded = server.cli(&["FUNCTION", "LOAD", "REPLACE", &library]);
        assert_eq!(loaded.trim(), script.function());
        let hash = server.cli(&["SCRIPT", "LOAD", &faulty(script.text())]);
        let hash = hash.trim().to_owned();
        assert_eq!(hash.len(), script.hash().len(), "{}: {hash}", script.name);
        hashes.push((script.hash().to_owned(), hash));
    }
    hashes
}

/// From now on the first script with more writes than this fails after so many.
pub(crate) fn fail_after(server: &Redis, writes: usize) {
    server.cli(&["SET", "fault", &writes.to_string()]);
}

/// Whether a script has failed since; from now on none does.
pub(crate) fn has_failed(server: &Redis) -> bool {
    server.cli(&["DEL", "fault"]) == "0"
}

/// The names of the scripts that have failed after some of their writes.
pub(crate) fn aborted(server: &Redis) -> Vec<String> {
    let names = server.cli(&["SMEMBERS", "aborted"]);
    let names: BTreeSet<_> = names.lines().map(str::to_owned).collect();
    names.into_iter().collect()
}

/// What the server says of each command that a script names.
#[test]
fn every_command_that_writes_can_fail() {
    let server = Redis::plain();
    let mut named = BTreeSet::new();
    for script in scripts() {
        let words = script.text().split('"');
        let is_name =
            |word: &&str| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase());
        named.extend(words.filter(is_name));
    }
    let is_write = |name: &str| {
        let said = server.cli(&["COMMAND", "INFO", name]);
        said.lines().any(|word| word == "write")
    };
    let writing: BTreeSet<_> = named.into_iter().filter(|name| is_write(name)).collect();
    assert!(writing.len() > 10, "{writing:?}");
    let missing: Vec<_> = writing.iter().filter(|it| !WRITES.contains(it)).collect();
    assert!(missing.is_empty(), "{missing:?} cannot fail");
}
