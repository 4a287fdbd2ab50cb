//! The environment: which setting a variable's name means.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::config::Settings;
use crate::config::found::Found;
use crate::config::keys::{Section, known_keys, unknown_section};
use crate::config::near::spells;
use crate::error::{Error, Result, shown};
use crate::event::QueueName;

/// What the name of every variable that is a setting starts with.
const PREFIX: &str = "DULY__";

/// The variable that names the settings file.
pub(super) const FILE: &str = "DULY_CONFIG";

/// Puts what `variables` say over `settings`; `known` are the queues that a name may mean.
pub(super) fn apply(
    settings: &mut Settings,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    known: &[QueueName],
) -> Result<()> {
    let mut variables: Vec<(String, OsString)> = variables
        .into_iter()
        // A name that is not text is no setting's.
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .collect();
    // The process hands them over in any order; a message should not depend on it.
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
            .map_err(|_| wrong("its value is not text in UTF-8".to_owned()))?;
        section
            .put(settings, &key, &Found::Spelled(value))
            .map_err(wrong)?;
        if let Some(other) = taken.insert((section, key), name.clone()) {
            return Err(Error::invalid(format!(
                "{} and {} mean the same setting, unset one of them",
                shown(&other),
                shown(&name)
            )));
        }
    }
    Ok(())
}

/// Whether a variable of this name is a setting.
///
/// The error is for a name that is not, and was surely meant to be.
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
            "{} is not read, did you mean {PREFIX}{}?",
            shown(name),
            key.to_ascii_uppercase().replace('.', "__")
        ))),
    }
}

fn starts_with(name: &str, start: &str) -> bool {
    name.get(..start.len())
        .is_some_and(|it| it.eq_ignore_ascii_case(start))
}

/// The section and the key that a variable's name means.
fn meaning(name: &str, known: &[QueueName]) -> Result<(Section, String), String> {
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
        // The key is what follows the last pair: a queue's name may hold one itself.
        "queues" => match rest.rsplit_once("__") {
            Some((queue, key)) => Ok((
                Section::Queue(queue_meant(queue, known)?),
                key.to_ascii_lowercase(),
            )),
            None => Err(format!(
                "it names a queue and no key, write one such as {PREFIX}QUEUES__{}__WORKERS",
                shown(rest)
            )),
        },
        other => Err(unknown_section(other)),
    }
}

/// The one queue that `spelled` can mean.
///
/// A shell lets a variable's name hold letters, digits and `_` only, and people write it in
/// capitals, so a name is compared without regard to case and with `_` for `-` and `.`.
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
    let spelled = &*shown(spelled); // a name is shown as it is
    if spelled.contains('_') {
        let small = spelled.to_ascii_lowercase();
        return Err(format!(
            "no queue known here is spelled {spelled}, and it may mean {small}, {} or {}; name \
             the queue in the settings file, where an empty section is enough",
            small.replace('_', "-"),
            small.replace('_', "."),
        ));
    }
    let name = match spelled.chars().any(|c| c.is_ascii_lowercase()) {
        true => spelled.to_owned(),
        false => spelled.to_ascii_lowercase(),
    };
    QueueName::new(&name).map_err(|error| error.to_string())
}
