//! Whether the user may do what the store does, and if not, all that is missing at once.

use std::collections::BTreeSet;

use redis::{RedisError, Value};

use crate::error::{Error, Result};
use crate::store::redis::keys;
use crate::store::redis::link::Link;
use crate::store::redis::scripts;
use crate::store::redis::url::{Place, Target};

const RIGHTS: &str = include_str!("rights.lua");

/// What the store asks besides what its scripts do. `|` stands before a part of a command.
const PLAIN: &[&str] = &["EVAL", "EVALSHA", "INFO", "PING", "SSUBSCRIBE", "TIME"];

/// What it asks of a cluster as well.
const OF_A_CLUSTER: &[&str] = &["CLUSTER|INFO", "CLUSTER|SLOTS"];

/// Whether the servers refused it for want of a permission.
pub(super) fn is_denied(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    let cause = source.and_then(|source| source.downcast_ref::<RedisError>());
    cause.is_some_and(|cause| cause.code() == Some("NOPERM"))
}

/// Asks a server what the user may not do on keys such as those of a bucket and of the hub.
///
/// # Errors
///
/// [`Invalid`](crate::ErrorKind::Invalid), with everything that is missing and the command that
/// grants it.
pub(super) async fn check(link: &Link, target: &Target, prefix: &str) -> Result<()> {
    let commands = needed(target);
    let mut missing = Missing::default();
    for tag in ["check:0", "hub"] {
        let key = format!("{prefix}:{{{tag}}}:meta");
        let channel = match tag {
            "hub" => keys::hub(prefix, "news"),
            _ => format!("{prefix}:{{{tag}}}:wake"),
        };
        let mut call = redis::cmd("EVAL");
        // The key is no key of the call, or a user without it could not even ask.
        call.arg(RIGHTS)
            .arg(0)
            .arg(&key)
            .arg(channel)
            .arg(&commands);
        match link.send(&call).await {
            Ok(answer) => missing.note(answer, &key).ok_or_else(|| {
                Error::corrupt(format!("{target} does not say what its users may do"))
            })?,
            Err(error) if is_denied(&error) => missing.cannot_be_asked(),
            Err(error) => return Err(error),
        }
    }
    missing.into_result(target, prefix, &commands)
}

/// Every command that the store sends or that its scripts call.
fn needed(target: &Target) -> Vec<String> {
    let texts = scripts::all().map(|script| called(script.text()));
    let mut commands: BTreeSet<String> = texts.flatten().collect();
    commands.extend(PLAIN.iter().copied().map(str::to_owned));
    if matches!(target.place, Place::Cluster(_)) {
        commands.extend(OF_A_CLUSTER.iter().copied().map(str::to_owned));
    }
    commands.into_iter().collect()
}

/// The commands that a script calls: what stands in quotes behind `call(`.
fn called(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split("call(").skip(1).filter_map(|rest| {
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let (name, _) = rest[1..].split_once(quote)?;
        Some(name.to_owned())
    })
}

/// What a user lacks.
#[derive(Debug, Default)]
struct Missing {
    commands: BTreeSet<String>,
    keys: BTreeSet<String>,
    has_no_channel: bool,
    is_incomplete: bool,
}

impl Missing {
    fn note(&mut self, answer: Value, key: &str) -> Option<()> {
        let answer: (Vec<String>, Vec<String>, u8) = redis::from_redis_value(answer).ok()?;
        let (commands, on_key, channel) = answer;
        self.commands.extend(commands);
        // A channel is refused like a key by what takes channels; it has its own answer.
        if on_key.iter().any(|command| !is_about_channels(command)) {
            self.keys.insert(key.to_owned());
        }
        self.has_no_channel |= channel == 1;
        Some(())
    }

    /// Not even the question was allowed.
    fn cannot_be_asked(&mut self) {
        self.commands.insert("EVAL".to_owned());
        self.is_incomplete = true;
    }

    fn into_result(self, target: &Target, prefix: &str, commands: &[String]) -> Result<()> {
        let mut lacks = Vec::new();
        if !self.commands.is_empty() {
            let names: Vec<_> = self.commands.into_iter().collect();
            lacks.push(format!("the commands {}", names.join(", ")));
        }
        if !self.keys.is_empty() {
            let names: Vec<_> = self.keys.into_iter().collect();
            lacks.push(format!("keys like {}", names.join(", ")));
        }
        if self.has_no_channel {
            lacks.push(format!("the channels {prefix}:*"));
        }
        if lacks.is_empty() {
            return Ok(());
        }
        let user = target.login.user.as_deref().unwrap_or("default");
        let more = match self.is_incomplete {
            true => ", and perhaps more",
            false => "",
        };
        let commands: Vec<_> = commands.iter().map(|name| format!("+{name}")).collect();
        Err(Error::invalid(format!(
            "{target}: the user {user} lacks {}{more}; all that is needed is granted by: ACL \
             SETUSER {user} ~{prefix}:* &{prefix}:* {}",
            lacks.join("; "),
            commands.join(" ").to_lowercase()
        )))
    }
}

fn is_about_channels(command: &str) -> bool {
    matches!(command, "SPUBLISH" | "SSUBSCRIBE")
}

#[cfg(test)]
mod tests {
    use super::called;
    use crate::store::redis::scripts;

    #[test]
    fn every_call_of_a_script_names_its_command() {
        for script in scripts::all() {
            let calls = script.text().matches("call(").count();
            assert_eq!(called(script.text()).count(), calls, "{}", script.name);
        }
    }
}
