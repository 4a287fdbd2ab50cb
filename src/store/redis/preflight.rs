//! Start-up preflight: whether the servers can keep the promises of a store.

use std::collections::BTreeSet;

use redis::Value;

use crate::error::Result;
use crate::panics;
use crate::store::durability::Durability;
use crate::store::redis::hub::eviction_watch::VALUES;
use crate::store::redis::link::fault;
use crate::store::redis::link::managed::ManagedConnection;
use crate::store::redis::link::preflight::{
    self, Info, Needs, Permission, Permissions, Version, unreadable,
};
use crate::store::redis::link::script::Script;
use crate::store::redis::link::url::Target;
use crate::store::redis::op::server_facts::ServerFacts;
use crate::store::redis::script::keys;
use crate::store::redis::{hub, op};
use crate::time::Clock;

/// The first version that can confirm that an append-only file was synced.
const WAITS_FOR_DISK: Version = Version(7, 2, 0);

/// A node's clock that is off by more than this is logged. Only displayed times depend on it, since
/// due times use the server's clock.
const SKEW_US: u64 = 1_000_000;

/// The command that waits for replicas.
const WAIT: &[&str] = &["WAIT", "0", "1"];

/// A command on servers that have it.
const WAITAOF: &[&str] = &["WAITAOF", "0", "0", "1"];

/// The commands of functions, without which scripts do the same.
const FUNCTIONS: [&[&str]; 2] = [&["FCALL", "f", "0"], &["FUNCTION", "LOAD", "text"]];

/// Commands on keys outside of scripts.
const ON_KEYS: &[&str] = &["HSETNX"];

/// Commands without which a store works, and a check of it does not.
const OF_CHECKS: &[&str] = &["SCAN"];

/// Commands of scripts on no key, which connections need, too.
const WITHOUT_KEY: &[&str] = &["INFO", "TIME"];

/// Commands on channels.
const OF_CHANNELS: &[&str] = &["SPUBLISH", "SSUBSCRIBE"];

/// Returns all scripts.
pub fn scripts() -> impl Iterator<Item = &'static Script> {
    op::scripts().chain(hub::scripts())
}

/// How often a server is asked for its settings at a start before it counts as one that does not say.
const SETTINGS_TRIES: usize = 3;

/// Checks the servers of `link`.
///
/// # Errors
///
/// As [`preflight::check`].
pub(super) async fn check(
    link: &ManagedConnection,
    target: &Target,
    prefix: &str,
    clock: &dyn Clock,
) -> Result<ServerFacts> {
    let has_waitaof = |version: Version| version >= WAITS_FOR_DISK;
    let needs = |oldest: Option<Version>| async move {
        let has_waitaof = match oldest {
            Some(version) => has_waitaof(version),
            None => knows(link, WAITAOF).await,
        };
        Needs {
            values: VALUES,
            permissions: permissions(prefix, has_waitaof),
        }
    };
    let servers = preflight::check(link, target, needs).await?;
    // A proxy may end a connection for a call that it does not pass on; once, any connection may end.
    let mut said = durability(link, &servers.infos, true).await;
    for _ in 1..SETTINGS_TRIES {
        if said.is_err() {
            said = durability(link, &servers.infos, true).await;
        }
    }
    let (durability, says_settings) = match said {
        Ok(durability) => (durability, true),
        Err(error) => {
            panics::reported(|| {
                tracing::warn!(
                    %error,
                    "{target} does not say how often its append-only file is synced: once a second is \
                     assumed, and receipts say so"
                );
            });
            (Durability::OsCache, false)
        }
    };
    if durability == Durability::Memory {
        panics::reported(|| {
            tracing::warn!(
                "{target} keeps no append-only file: its data is lost with its process; \
             set `appendonly yes`"
            );
        });
    }
    Ok(ServerFacts {
        version: servers.version,
        durability,
        says_settings,
        waits_for_disk: has_waitaof(servers.version) && durability != Durability::Memory,
        offset_us: offset(link, target, clock).await?,
        allows_functions: servers.has_optional,
    })
}

/// Returns the durability that the weakest server offers.
///
/// # Errors
///
/// If the servers do not answer, where they are asked. What they do not say is assumed.
pub(super) async fn durability(
    link: &ManagedConnection,
    infos: &[Info],
    says_settings: bool,
) -> Result<Durability> {
    if !infos.iter().all(|info| info.has_aof) {
        return Ok(Durability::Memory);
    }
    if !says_settings {
        return Ok(Durability::OsCache);
    }
    let mut question = redis::cmd("CONFIG");
    question.arg("GET").arg("appendfsync");
    match link.send_everywhere(&question).await {
        Ok(replies) if replies.iter().all(is_always) => Ok(Durability::Disk),
        Ok(_) => Ok(Durability::OsCache),
        Err(error) if fault::is_silent(&error) => Err(error),
        Err(error) => {
            panics::reported(|| tracing::debug!("appendfsync assumed to be everysec: {error}"));
            Ok(Durability::OsCache)
        }
    }
}

/// Returns whether the reply to `CONFIG GET appendfsync` is `always`.
fn is_always(reply: &Value) -> bool {
    let text = |value: &Value| match value {
        Value::BulkString(text) => text == b"always",
        Value::SimpleString(text) => text == "always",
        _ => false,
    };
    match reply {
        Value::Map(pairs) => pairs.iter().any(|(_, value)| text(value)),
        Value::Array(parts) => parts.iter().any(text),
        _ => false,
    }
}

/// Returns the server's clock minus this one; half of the round trip is subtracted.
async fn offset(link: &ManagedConnection, target: &Target, clock: &dyn Clock) -> Result<i64> {
    let sent = clock.wall_us();
    let reply = link.send(&redis::cmd("TIME")).await?;
    let answered = clock.wall_us();
    let (seconds, micros): (u64, u64) =
        redis::from_redis_value(reply).map_err(|_| unreadable(target))?;
    let theirs = seconds * 1_000_000 + micros;
    let ours = sent + answered.saturating_sub(sent) / 2;
    let offset = i128::from(theirs) - i128::from(ours);
    let offset = i64::try_from(offset).unwrap_or(0);
    if offset.unsigned_abs() > SKEW_US {
        let seconds = offset.unsigned_abs() / 1_000_000;
        let direction = if offset > 0 { "ahead of" } else { "behind" };
        panics::reported(|| {
            tracing::warn!(
                "the clock of {target} is {seconds} s {direction} that of this node; events are due \
             by the server's"
            );
        });
    }
    Ok(offset)
}

/// Returns whether the server knows a command. One that may not be called is refused as that, also to
/// a user who may not ask for the version.
async fn knows(link: &ManagedConnection, words: &[&str]) -> bool {
    let mut call = redis::cmd(words[0]);
    call.arg(&words[1..]);
    match link.send(&call).await {
        Ok(_) => true,
        Err(error) => fault::cause_of(&error).is_some_and(|cause| cause.code() == Some("NOPERM")),
    }
}

/// Returns the permissions that a store, its scripts and its check need.
fn permissions(prefix: &str, has_waitaof: bool) -> Permissions {
    let mut needed = vec![Permission::plain(WAIT)];
    if has_waitaof {
        needed.push(Permission::plain(WAITAOF));
    }
    let bucket = |part: &str| format!("{prefix}:{{check:0}}:{part}");
    let channel = bucket("wake");
    let on_channel = |command: &&str| Permission::on_channel(command, &channel);
    needed.extend(OF_CHANNELS.iter().map(on_channel));
    let texts = scripts().map(|script| called(script.text()));
    let mut commands: BTreeSet<String> = texts.flatten().collect();
    commands.extend(ON_KEYS.iter().map(|command| (*command).to_owned()));
    commands.retain(|command| takes_key(command));
    for key in [bucket("meta"), keys::hub(prefix, "members")] {
        let on_keys = commands.iter();
        needed.extend(on_keys.map(|command| Permission::on_key(command, &key)));
    }
    Permissions {
        prefix: prefix.to_owned(),
        needed,
        optional: FUNCTIONS.map(Permission::plain).into(),
        untested: OF_CHECKS,
    }
}

fn takes_key(command: &str) -> bool {
    !WITHOUT_KEY.contains(&command) && !OF_CHANNELS.contains(&command)
}

/// Returns the commands that a script calls: quoted words in capitals, each the first argument of a
/// function, whatever that is called.
fn called(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split('(').skip(1).filter_map(|arguments| {
        let arguments = arguments.trim_start();
        let quote = arguments
            .chars()
            .next()
            .filter(|c| matches!(c, '"' | '\''))?;
        let (word, _) = arguments[1..].split_once(quote)?;
        let is_command = word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase());
        is_command.then(|| word.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::{called, scripts};

    /// What scripts call `redis.call`.
    fn caller(text: &str) -> Option<&str> {
        let line = text.lines().find(|line| line.contains("redis.call"))?;
        let (names, values) = line.split_once('=')?;
        let mut named = names.split(',').zip(values.split(','));
        let (name, _) = named.find(|(_, value)| value.trim() == "redis.call")?;
        Some(name.trim())
    }

    #[test]
    fn every_call_of_a_script_names_its_command() {
        for script in scripts() {
            let text = script.text();
            let call = caller(text).expect("scripts give `redis.call` a name");
            let opened = format!("{call}(");
            let calls = text.match_indices(&opened).filter(|(at, _)| {
                !text[..*at].ends_with(char::is_alphanumeric) // `pcall`
            });
            let commands: Vec<_> = calls
                .map(|(at, call)| text[at + call.len()..].trim_start())
                .collect();
            assert!(!commands.is_empty(), "{}", script.name);
            for command in commands {
                let is_quoted = command.starts_with(['"', '\'']);
                let word = command.split(',').next().unwrap_or_default();
                // A function that calls a command for others has it as its first parameter.
                let mut functions = text.lines().filter(|line| line.contains("function "));
                let is_passed_on = functions.any(|line| line.contains(&format!("({word},")));
                assert!(is_quoted || is_passed_on, "{}: {word}", script.name);
            }
            assert!(called(text).count() > 0, "{}", script.name);
        }
    }
}
