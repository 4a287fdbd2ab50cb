//! Permission check: reports every command, key and channel that the user lacks.

use std::collections::BTreeSet;

use redis::Value;

use crate::error::{Error, Result};
use crate::store::redis::link::fault;
use crate::store::redis::link::managed::ManagedConnection;
use crate::store::redis::link::url::{Place, Target};

/// The script writes nothing, so it also runs on a server whose memory is full, and on a replica:
/// without a key it may reach any node of a cluster.
const RIGHTS: &str = concat!("#!lua flags=no-writes\n", include_str!("rights.lua"));

/// The commands of connections and of these checks, complete with arguments.
const PLAIN: &[&[&str]] = &[
    &["EVAL", "return 1", "0"],
    &["EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"],
    &["INFO"],
    &["PING"],
    &["TIME"],
];

/// Further commands on a cluster.
const OF_A_CLUSTER: &[&[&str]] = &[&["CLUSTER", "INFO"], &["CLUSTER", "SLOTS"]];

/// Commands of every new connection.
const OF_CONNECTIONS: &[&str] = &["HELLO", "CLIENT|SETNAME"];

/// The permissions that the user of a connection needs, beside those of the connection.
#[derive(Debug)]
pub(in crate::store::redis) struct Permissions {
    /// What all its keys and channels begin with, before a colon.
    pub(in crate::store::redis) prefix: String,
    pub(in crate::store::redis) needed: Vec<Permission>,
    /// Those without which it does with less.
    pub(in crate::store::redis) optional: Vec<Permission>,
    /// Commands that are granted with the others and are not tested: what lacks them says so when
    /// it needs them.
    pub(in crate::store::redis) untested: &'static [&'static str],
}

/// Returns whether the servers refused a call for want of a permission.
pub(super) fn is_denied(error: &Error) -> bool {
    fault::cause_of(error).is_some_and(|cause| cause.code() == Some("NOPERM"))
}

/// Tests the user's permissions. Returns whether it has the optional ones, too.
///
/// # Errors
///
/// [`Invalid`](crate::ErrorKind::Invalid), with everything that is missing and the command that
/// grants it.
pub(super) async fn check(
    link: &ManagedConnection,
    target: &Target,
    permissions: Permissions,
) -> Result<bool> {
    let Permissions {
        prefix,
        needed: more,
        optional,
        untested,
    } = permissions;
    let mut needed = of_connections(target);
    needed.extend(more);
    let mut call = redis::cmd("EVAL");
    // No key is declared, or a user without them could not even run the script.
    call.arg(RIGHTS).arg(0);
    for question in needed.iter().chain(&optional) {
        call.arg(question.words.len()).arg(&question.words);
    }
    let (lacks, has_optional) = match link.send(&call).await {
        Ok(Value::BulkString(replies)) if replies.len() == needed.len() + optional.len() => {
            let (needs, uses) = replies.split_at(needed.len());
            let has_optional = uses.iter().all(|reply| *reply == b'1');
            (MissingPermissions::read(&needed, needs), has_optional)
        }
        Ok(_) => {
            return Err(Error::corrupt(format!(
                "{target} did not report the permissions of its user"
            )));
        }
        Err(error) if is_denied(&error) => (MissingPermissions::even_the_question(), false),
        Err(error) => return Err(error),
    };
    if !lacks.unknown.is_empty() {
        return Err(Error::invalid(format!(
            "{target} does not know the commands {}: they were renamed or disabled \
             (`rename-command` in its configuration), or it is not Redis 7.0 or later; duly needs \
             them under their own names",
            list(&lacks.unknown)
        )));
    }
    let has_channels = needed
        .iter()
        .any(|it| it.about == PermissionObject::Channel);
    let lacks = lacks.in_words(&prefix);
    if lacks.is_empty() {
        return Ok(has_optional);
    }
    let user = target.login.user.as_deref().unwrap_or("default");
    let mut granted: Vec<_> = granted(target, &needed, untested).into_iter().collect();
    if has_channels {
        granted.insert(0, format!("&{prefix}:*"));
    }
    Err(Error::invalid(format!(
        "{target}: the user {user} lacks {lacks}; all that is needed is granted by: ACL SETUSER \
         {user} ~{prefix}:* {}",
        granted.join(" ")
    )))
}

/// Returns the permissions of connections and of these checks.
fn of_connections(target: &Target) -> Vec<Permission> {
    let of_a_cluster = match target.place {
        Place::Cluster(_) => OF_A_CLUSTER,
        _ => &[],
    };
    let all = PLAIN.iter().chain(of_a_cluster);
    all.map(|words| Permission::plain(words)).collect()
}

/// Returns the rules that grant all that is needed.
fn granted(target: &Target, needed: &[Permission], untested: &[&str]) -> BTreeSet<String> {
    let mut granted: BTreeSet<_> = needed.iter().map(Permission::grant).collect();
    let more = untested.iter().chain(OF_CONNECTIONS);
    granted.extend(more.map(|command| format!("+{}", command.to_lowercase())));
    if target.database != 0 {
        granted.insert("+select".to_owned());
    }
    if matches!(target.place, Place::Sentinel { .. }) {
        granted.insert("+role".to_owned());
    }
    granted
}

fn list(names: &BTreeSet<String>) -> String {
    names.iter().cloned().collect::<Vec<_>>().join(", ")
}

/// The object of a question, besides its command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PermissionObject {
    Nothing,
    Key(String),
    Channel,
}

/// A permission to test.
#[derive(Clone, Debug)]
pub(in crate::store::redis) struct Permission {
    words: Vec<String>,
    about: PermissionObject,
}

impl Permission {
    pub(in crate::store::redis) fn plain(words: &[&str]) -> Self {
        Self {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            about: PermissionObject::Nothing,
        }
    }

    /// A command on a key, which comes first; the server checks only that word, and the script
    /// leaves out the words that are too many. So no script may call a command on several keys,
    /// such as `EXISTS`: the further words would be keys.
    pub(in crate::store::redis) fn on_key(command: &str, key: &str) -> Self {
        Self {
            about: PermissionObject::Key(key.to_owned()),
            ..Self::plain(&[command, key, "1", "1", "1", "1"])
        }
    }

    pub(in crate::store::redis) fn on_channel(command: &str, channel: &str) -> Self {
        let words = match command {
            "SPUBLISH" => Self::plain(&[command, channel, ""]),
            _ => Self::plain(&[command, channel]),
        };
        Self {
            about: PermissionObject::Channel,
            ..words
        }
    }

    /// Returns the name in a report: `HSET`, `CLUSTER INFO`.
    fn name(&self) -> String {
        match self.words[0].as_str() {
            "CLUSTER" => self.words.join(" "),
            command => command.to_owned(),
        }
    }

    /// Returns the ACL rule that grants it: `+hset`, `+cluster|info`.
    fn grant(&self) -> String {
        let name = self.name().replace(' ', "|");
        format!("+{}", name.to_lowercase())
    }
}

/// The missing permissions.
#[derive(Debug, Default)]
struct MissingPermissions {
    /// Commands that the server does not know.
    unknown: BTreeSet<String>,
    commands: BTreeSet<String>,
    keys: BTreeSet<String>,
    channels: bool,
    is_incomplete: bool,
}

impl MissingPermissions {
    fn even_the_question() -> Self {
        Self {
            commands: BTreeSet::from(["EVAL".to_owned()]),
            is_incomplete: true,
            ..Self::default()
        }
    }

    /// A server does not say whether it refuses a command or its key. If every command on a key is
    /// refused, it is the key.
    fn read(questions: &[Permission], replies: &[u8]) -> Self {
        let answered = || questions.iter().zip(replies);
        let mut lacks = Self::default();
        let unknown = answered().filter(|(_, reply)| **reply == b'2');
        lacks.unknown = unknown.map(|(question, _)| question.name()).collect();
        for (question, _) in answered().filter(|(_, reply)| **reply == b'0') {
            let mut alike = answered().filter(|(other, _)| other.about == question.about);
            let is_all = alike.all(|(_, reply)| *reply == b'0');
            match &question.about {
                PermissionObject::Key(key) if is_all => {
                    lacks.keys.insert(key.clone());
                }
                PermissionObject::Channel if is_all => lacks.channels = true,
                _ => {
                    lacks.commands.insert(question.name());
                }
            }
        }
        lacks
    }

    fn in_words(self, prefix: &str) -> String {
        let mut words = Vec::new();
        if !self.commands.is_empty() {
            words.push(format!("the commands {}", list(&self.commands)));
        }
        if !self.keys.is_empty() {
            words.push(format!("keys like {}", list(&self.keys)));
        }
        if self.channels {
            words.push(format!("the channels {prefix}:*"));
        }
        if self.is_incomplete {
            words.push("perhaps more".to_owned());
        }
        words.join(", ")
    }
}
