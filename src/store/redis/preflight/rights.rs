//! Permission check: reports every command, key and channel that the user lacks.

use std::collections::BTreeSet;

use redis::Value;

use crate::error::{Error, Result};
use crate::store::redis::fault;
use crate::store::redis::keys;
use crate::store::redis::managed::ManagedConnection;
use crate::store::redis::scripts;
use crate::store::redis::url::{Place, Target};

/// The script writes nothing, so it also runs on a server whose memory is full, and on a replica:
/// without a key it may reach any node of a cluster.
const RIGHTS: &str = concat!("#!lua flags=no-writes\n", include_str!("rights.lua"));

/// The commands outside of scripts, complete with arguments.
const PLAIN: &[&[&str]] = &[
    &["EVAL", "return 1", "0"],
    &["EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"],
    &["INFO"],
    &["PING"],
    &["TIME"],
    &["WAIT", "0", "1"],
];

/// Further commands on a cluster.
const OF_A_CLUSTER: &[&[&str]] = &[&["CLUSTER", "INFO"], &["CLUSTER", "SLOTS"]];

/// A command on servers that have it.
const WAITAOF: &[&str] = &["WAITAOF", "0", "0", "1"];

/// The commands of functions, without which scripts do the same.
const FUNCTIONS: [&[&str]; 2] = [&["FCALL", "f", "0"], &["FUNCTION", "LOAD", "text"]];

/// Commands on keys outside of scripts.
const ON_KEYS: &[&str] = &["HSETNX"];

/// Commands without which a store works, and a check of it does not.
const OF_CHECKS: &[&str] = &["SCAN"];

/// Commands of every new connection.
const OF_CONNECTIONS: &[&str] = &["HELLO", "CLIENT|SETNAME"];

/// Commands on channels.
const OF_CHANNELS: &[&str] = &["SPUBLISH", "SSUBSCRIBE"];

/// Returns whether the servers refused a call for want of a permission.
pub(super) fn is_denied(error: &Error) -> bool {
    fault::cause_of(error).is_some_and(|cause| cause.code() == Some("NOPERM"))
}

/// Queries the user's permissions on keys such as those of a bucket and of all nodes. Returns whether
/// it may also load functions and call them.
///
/// # Errors
///
/// [`Invalid`](crate::ErrorKind::Invalid), with everything that is missing and the command that
/// grants it.
pub(super) async fn check(
    link: &ManagedConnection,
    target: &Target,
    prefix: &str,
    has_waitaof: bool,
) -> Result<bool> {
    let mut needed = questions(target, prefix);
    if has_waitaof {
        needed.push(PermissionCheck::plain(WAITAOF));
    }
    let useful = FUNCTIONS.map(PermissionCheck::plain);
    let mut call = redis::cmd("EVAL");
    // No key is declared, or a user without them could not even run the script.
    call.arg(RIGHTS).arg(0);
    for question in needed.iter().chain(&useful) {
        call.arg(question.words.len()).arg(&question.words);
    }
    let (lacks, allows_functions) = match link.send(&call).await {
        Ok(Value::BulkString(answers)) if answers.len() == needed.len() + useful.len() => {
            let (needs, uses) = answers.split_at(needed.len());
            let allows_functions = uses.iter().all(|answer| *answer == b'1');
            (MissingPermissions::read(&needed, needs), allows_functions)
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
    let lacks = lacks.in_words(prefix);
    if lacks.is_empty() {
        return Ok(allows_functions);
    }
    let user = target.login.user.as_deref().unwrap_or("default");
    let granted: Vec<_> = granted(target, &needed).into_iter().collect();
    Err(Error::invalid(format!(
        "{target}: the user {user} lacks {lacks}; all that is needed is granted by: ACL SETUSER \
         {user} ~{prefix}:* &{prefix}:* {}",
        granted.join(" ")
    )))
}

/// Returns the rules that grant all that connections, the store and its check need.
fn granted(target: &Target, needed: &[PermissionCheck]) -> BTreeSet<String> {
    let mut granted: BTreeSet<_> = needed.iter().map(PermissionCheck::grant).collect();
    let more = OF_CHECKS.iter().chain(OF_CONNECTIONS);
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
struct PermissionCheck {
    words: Vec<String>,
    about: PermissionObject,
}

impl PermissionCheck {
    fn plain(words: &[&str]) -> Self {
        Self {
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            about: PermissionObject::Nothing,
        }
    }

    /// A command on a key, which comes first; the server checks only that word, and the script
    /// leaves out the words that are too many. So no script may call a command on several keys,
    /// such as `EXISTS`: the further words would be keys.
    fn on_key(command: &str, key: &str) -> Self {
        Self {
            about: PermissionObject::Key(key.to_owned()),
            ..Self::plain(&[command, key, "1", "1", "1", "1"])
        }
    }

    fn on_channel(command: &str, channel: &str) -> Self {
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

/// Returns all commands of the store and its scripts.
fn questions(target: &Target, prefix: &str) -> Vec<PermissionCheck> {
    let mut questions: Vec<_> = PLAIN
        .iter()
        .map(|words| PermissionCheck::plain(words))
        .collect();
    if matches!(target.place, Place::Cluster(_)) {
        questions.extend(
            OF_A_CLUSTER
                .iter()
                .map(|words| PermissionCheck::plain(words)),
        );
    }
    let bucket = |part: &str| format!("{prefix}:{{check:0}}:{part}");
    let channel = bucket("wake");
    let on_channel = |command: &&str| PermissionCheck::on_channel(command, &channel);
    questions.extend(OF_CHANNELS.iter().map(on_channel));
    let texts = scripts::all().map(|script| called(script.text()));
    let mut commands: BTreeSet<String> = texts.flatten().collect();
    commands.extend(ON_KEYS.iter().map(|command| (*command).to_owned()));
    for key in [bucket("meta"), keys::hub(prefix, "members")] {
        let on_keys = commands.iter().filter(|command| takes_key(command));
        questions.extend(on_keys.map(|command| PermissionCheck::on_key(command, &key)));
    }
    questions
}

fn takes_key(command: &str) -> bool {
    let is_plain = PLAIN.iter().any(|words| words[0] == command);
    !is_plain && !OF_CHANNELS.contains(&command)
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
    fn read(questions: &[PermissionCheck], answers: &[u8]) -> Self {
        let answered = || questions.iter().zip(answers);
        let mut lacks = Self::default();
        let unknown = answered().filter(|(_, answer)| **answer == b'2');
        lacks.unknown = unknown.map(|(question, _)| question.name()).collect();
        for (question, _) in answered().filter(|(_, answer)| **answer == b'0') {
            let mut alike = answered().filter(|(other, _)| other.about == question.about);
            let is_all = alike.all(|(_, answer)| *answer == b'0');
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

#[cfg(test)]
mod tests {
    use super::called;
    use crate::store::redis::scripts;

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
        for script in scripts::all() {
            let text = script.text();
            let call = caller(text).expect("scripts give `redis.call` a name");
            let call = format!("{call}(");
            let calls = text.match_indices(&call).filter(|(at, _)| {
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
