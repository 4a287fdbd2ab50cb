//! Environment variables: from a variable's name to a setting.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use crate::config::keys::{Section, known_keys, unknown_section};
use crate::config::raw_value::RawValue;
use crate::config::settings::Settings;
use crate::config::similar_names::spells;
use crate::error::{Error, Result, shown};
use crate::event::QueueName;

/// The prefix of every variable that is a setting.
const PREFIX: &str = "DULY__";

/// The variable that names the settings file.
pub(super) const FILE: &str = "DULY_CONFIG";

/// The names that a spelling may mean.
pub(super) struct KnownNames {
    pub(super) queues: BTreeSet<String>,
    pub(super) calendars: BTreeSet<String>,
    /// Only these: a variable makes no schedule.
    pub(super) schedules: BTreeSet<QueueName>,
}

/// Applies `variables` over `settings`.
pub(super) fn apply(
    settings: &mut Settings,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    known: &KnownNames,
) -> Result<()> {
    let mut variables: Vec<(String, OsString)> = variables
        .into_iter()
        // A setting's name is valid UTF-8.
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .collect();
    // The process returns them in any order; a message should not depend on it.
    variables.sort();

    let mut taken: BTreeMap<(Section, String), String> = BTreeMap::new();
    for (name, value) in variables {
        if !is_setting(&name)? {
            continue;
        }
        let wrong = |what: String| Error::invalid(format!("{}: {what}", shown(&name)));
        let (section, key) = meaning(&name, known).map_err(wrong)?;
        let value = value
            .into_string()
            .map_err(|_| wrong("its value is not UTF-8".to_owned()))?;
        section
            .put(settings, &key, &RawValue::Spelled(value))
            .map_err(wrong)?;
        if let Some(other) = taken.insert((section, key), name.clone()) {
            return Err(Error::invalid(format!(
                "{} and {} mean the same setting; unset one of them",
                shown(&other),
                shown(&name)
            )));
        }
    }
    Ok(())
}

/// Returns whether a variable of this name is a setting.
///
/// Fails for a name that is not, but was surely meant to be.
fn is_setting(name: &str) -> Result<bool> {
    if starts_with(name, PREFIX) {
        return Ok(true);
    }
    if !starts_with(name, "DULY_") {
        return Ok(false);
    }
    let folded = |text: &str| {
        text.to_ascii_uppercase()
            .replace("__", "_")
            .replace('.', "_")
    };
    let said = folded(&name["DULY_".len()..]);
    let meant = known_keys().find(|key| match folded(key).split_once("<NAME>") {
        Some((start, end)) => said.starts_with(start) && said.ends_with(end),
        None => folded(key) == said,
    });
    match meant {
        None => Ok(false),
        Some(key) => Err(Error::invalid(format!(
            "{} is not a setting; did you mean {PREFIX}{}?",
            shown(name),
            key.to_ascii_uppercase().replace('.', "__")
        ))),
    }
}

fn starts_with(name: &str, start: &str) -> bool {
    name.get(..start.len())
        .is_some_and(|it| it.eq_ignore_ascii_case(start))
}

/// Returns the section and the key of a variable's name.
fn meaning(name: &str, known: &KnownNames) -> Result<(Section, String), String> {
    let path = &name[PREFIX.len()..];
    let Some((section, rest)) = path.split_once("__") else {
        return Ok((Section::Top, path.to_ascii_lowercase()));
    };
    let key = rest.to_ascii_lowercase();
    match section.to_ascii_lowercase().as_str() {
        "store" => Ok((Section::Store, key)),
        "records" => Ok((Section::Records, key)),
        "encryption" => Ok((Section::Encryption, key)),
        "metrics" => Ok((Section::Metrics, key)),
        "queue_defaults" => Ok((Section::Defaults, key)),
        // The key follows the last `__`: a queue's name may contain one itself.
        "queues" => match rest.rsplit_once("__") {
            Some((queue, key)) => Ok((
                Section::Queue(queue_meant(queue, &known.queues)?),
                key.to_ascii_lowercase(),
            )),
            None => Err(format!(
                "it names a queue and no key; write one such as {PREFIX}QUEUES__{}__WORKERS",
                shown(rest)
            )),
        },
        // The names of schedules are as those of queues.
        "schedules" => match rest.rsplit_once("__") {
            Some((schedule, key)) => Ok((
                Section::Schedule(schedule_meant(schedule, &known.schedules)?),
                key.to_ascii_lowercase(),
            )),
            None => Err(format!(
                "it names a schedule and no key; write one such as {PREFIX}SCHEDULES__{}__WHEN",
                shown(rest)
            )),
        },
        "calendars" => Ok((
            Section::Calendars,
            name_meant(&CALENDARS, rest, &known.calendars)?,
        )),
        other => Err(unknown_section(other)),
    }
}

/// Returns the schedule of the file that `spelled` means.
fn schedule_meant(spelled: &str, known: &BTreeSet<QueueName>) -> Result<QueueName, String> {
    let mut meant = known.iter().filter(|name| spells(spelled, name));
    match (meant.next(), meant.next()) {
        (Some(name), None) => Ok(name.clone()),
        _ => Err(format!(
            "no schedule of the settings file, or more than one, is spelled {}; a variable changes a \
             schedule that has a section in the file",
            shown(spelled)
        )),
    }
}

/// What names of one kind are called in messages.
struct Kind {
    name: &'static str,
    /// How a name is made known.
    made_known: &'static str,
}

const QUEUES: Kind = Kind {
    name: "queue",
    made_known: "add a section for the queue to the settings file, even an empty one",
};
const CALENDARS: Kind = Kind {
    name: "calendar",
    made_known: "add the calendar to the section `calendars` of the settings file, even an empty one",
};

fn queue_meant(spelled: &str, known: &BTreeSet<String>) -> Result<QueueName, String> {
    let name = name_meant(&QUEUES, spelled, known)?;
    QueueName::new(&name).map_err(|error| error.to_string())
}

/// Returns the one name that `spelled` can mean.
///
/// A shell allows only letters, digits and `_` in a variable's name, usually capitals, so names are
/// compared without case and with `_` for `-` and `.`.
fn name_meant(kind: &Kind, spelled: &str, known: &BTreeSet<String>) -> Result<String, String> {
    if known.contains(spelled) {
        return Ok(spelled.to_owned());
    }
    let meant: Vec<&str> = known
        .iter()
        .filter(|name| spells(spelled, name))
        .map(String::as_str)
        .collect();
    let said = shown(spelled); // displayed without quotes
    match meant.as_slice() {
        [name] => return Ok((*name).to_owned()),
        [] => {}
        several => {
            return Err(format!(
                "{said} may mean any of the {}s {}; set it in the settings file, or write the \
                 name letter for letter",
                kind.name,
                several.join(", ")
            ));
        }
    }
    if spelled.contains('_') {
        let small = said.to_ascii_lowercase();
        return Err(format!(
            "no {} known here is spelled {said}, and it may mean {small}, {} or {}; {}",
            kind.name,
            small.replace('_', "-"),
            small.replace('_', "."),
            kind.made_known,
        ));
    }
    let is_mixed = spelled.chars().any(|c| c.is_ascii_lowercase());
    Ok(if is_mixed {
        spelled.to_owned()
    } else {
        spelled.to_ascii_lowercase()
    })
}
