//! Environment variables: from a variable's name to a setting.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::config::Settings;
use crate::config::keys::{Section, known_keys, unknown_section};
use crate::config::raw_value::RawValue;
use crate::config::similar_names::spells;
use crate::error::{Error, Result, shown};
use crate::event::QueueName;

/// The prefix of every variable that is a setting.
const PREFIX: &str = "DULY__";

/// The variable that names the settings file.
pub(super) const FILE: &str = "DULY_CONFIG";

/// Applies `variables` over `settings`; `known` are the queues that a name may mean.
pub(super) fn apply(
    settings: &mut Settings,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    known: &[QueueName],
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
        let schedules: Vec<_> = settings.schedules.keys().cloned().collect();
        let (section, key) = meaning(&name, known, &schedules).map_err(wrong)?;
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
fn meaning(
    name: &str,
    known: &[QueueName],
    schedules: &[QueueName],
) -> Result<(Section, String), String> {
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
                Section::Queue(queue_meant(queue, known)?),
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
                Section::Schedule(schedule_meant(schedule, schedules)?),
                key.to_ascii_lowercase(),
            )),
            None => Err(format!(
                "it names a schedule and no key; write one such as {PREFIX}SCHEDULES__{}__WHEN",
                shown(rest)
            )),
        },
        "calendars" => Ok((Section::Calendars, key)),
        other => Err(unknown_section(other)),
    }
}

/// Returns the schedule of the file that `spelled` means.
fn schedule_meant(spelled: &str, known: &[QueueName]) -> Result<QueueName, String> {
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

/// Returns the one queue that `spelled` can mean.
///
/// A shell allows only letters, digits and `_` in a variable's name, usually capitals, so names are
/// compared without case and with `_` for `-` and `.`.
fn queue_meant(spelled: &str, known: &[QueueName]) -> Result<QueueName, String> {
    if let Some(queue) = known.iter().find(|queue| queue.as_str() == spelled) {
        return Ok(queue.clone());
    }
    let meant: Vec<&QueueName> = known
        .iter()
        .filter(|queue| spells(spelled, queue))
        .collect();
    match meant.as_slice() {
        [queue] => return Ok((*queue).clone()),
        [] => {}
        several => {
            let names: Vec<&str> = several.iter().map(|queue| queue.as_str()).collect();
            return Err(format!(
                "{spelled} may mean any of the queues {}; set it in the settings file, or write \
                 the name letter for letter",
                names.join(", ")
            ));
        }
    }
    let spelled = &*shown(spelled); // displayed without quotes
    if spelled.contains('_') {
        let small = spelled.to_ascii_lowercase();
        return Err(format!(
            "no queue known here is spelled {spelled}, and it may mean {small}, {} or {}; add \
             a section for the queue to the settings file, even an empty one",
            small.replace('_', "-"),
            small.replace('_', "."),
        ));
    }
    let name = if spelled.chars().any(|c| c.is_ascii_lowercase()) {
        spelled.to_owned()
    } else {
        spelled.to_ascii_lowercase()
    };
    QueueName::new(&name).map_err(|error| error.to_string())
}
