//! The settings file: where it is found, and how its text becomes settings.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use ::config::{FileFormat, Format as _, Map, Value, ValueKind};

use crate::config::keys::Section;
use crate::config::raw_value::RawValue;
use crate::config::settings::Settings;
use crate::error::{Error, Result, shown};
use crate::event::QueueName;

/// The default name of a settings file.
const NAME: &str = "duly.toml";

/// The most bytes of a settings file, so that a mistaken path does not fill the memory.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The most mistakes in one error.
const MISTAKES_MAX: usize = 10;

/// Returns the settings file in `directory`, if there is one.
pub(super) fn find(directory: &Path) -> Result<Option<PathBuf>> {
    let path = directory.join(NAME);
    let there = path.try_exists();
    let there = there.map_err(|error| unreadable(&path, error))?;
    Ok(there.then_some(path))
}

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<String> {
    let extension = path.extension().unwrap_or_default();
    if !extension.eq_ignore_ascii_case("toml") {
        return Err(Error::invalid(format!(
            "settings file {} has an unknown format; use TOML and a name that ends in .toml",
            path.display()
        )));
    }
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
        .map_err(|error| unreadable(path, error))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(Error::invalid(format!(
            "settings file {} is larger than {FILE_BYTES_MAX} bytes; is it the right one?",
            path.display()
        )));
    }
    Ok(text)
}

fn unreadable(path: &Path, error: std::io::Error) -> Error {
    let what = match error.kind() {
        ErrorKind::NotFound => "does not exist",
        ErrorKind::InvalidData => "is not UTF-8",
        _ => "cannot be read",
    };
    Error::invalid(format!("settings file {} {what}", path.display())).because(error)
}

/// Parses settings; `source` is the file's name in messages.
pub(super) fn parse(text: &str, source: &str) -> Result<Settings> {
    let tree = tree(text, source)?;
    let mut reader = SettingsParser::default();
    for (name, value) in sorted(tree) {
        match name.as_str() {
            "store" => reader.section(&Section::Store, &name, value),
            "records" => reader.section(&Section::Records, &name, value),
            "encryption" => reader.section(&Section::Encryption, &name, value),
            "metrics" => reader.section(&Section::Metrics, &name, value),
            "queue_defaults" => reader.section(&Section::Defaults, &name, value),
            "queues" => reader.queues(value),
            "schedules" => reader.schedules(value),
            "calendars" => reader.section(&Section::Calendars, &name, value),
            _ => reader.put(&Section::Top, &name, value),
        }
    }
    reader.finish(source)
}

/// A parser that collects the settings of a file and every mistake in it.
#[derive(Default)]
struct SettingsParser {
    settings: Settings,
    /// The first mistakes, up to the limit.
    mistakes: Vec<String>,
    /// The number of further mistakes.
    more: usize,
}

impl SettingsParser {
    fn queues(&mut self, value: Value) {
        for (name, value) in self.table("queues", value) {
            match QueueName::new(&name) {
                Ok(queue) => {
                    // Keep an empty section: it makes the queue's name known.
                    self.settings.queues.entry(queue.clone()).or_default();
                    self.section(&Section::Queue(queue), &format!("queues.{name}"), value);
                }
                Err(error) => self.mistaken(format!("queues: {error}")),
            }
        }
    }

    fn schedules(&mut self, value: Value) {
        for (name, value) in self.table("schedules", value) {
            match QueueName::new(&name) {
                Ok(schedule) => {
                    // An empty section lacks what a schedule needs, or has it from variables.
                    self.settings.schedules.entry(schedule.clone()).or_default();
                    let section = Section::Schedule(schedule);
                    self.section(&section, &format!("schedules.{name}"), value);
                }
                Err(_) => self.mistaken(format!(
                    "schedules: `{}` cannot be the name of a schedule; it is letters, digits, `.`, `_` \
                     or `-`",
                    shown(&name)
                )),
            }
        }
    }

    fn section(&mut self, section: &Section, path: &str, value: Value) {
        for (name, value) in self.table(path, value) {
            if let (Section::Queue(queue), ValueKind::Table(_)) = (section, &value.kind) {
                let name = shown(&name);
                self.mistaken(format!(
                    "unknown section {path}.{name}; a queue's name that holds a dot is quoted: \
                     queues.\"{queue}.{name}\""
                ));
                continue;
            }
            self.put(section, &name, value);
        }
    }

    fn put(&mut self, section: &Section, name: &str, value: Value) {
        let put = section.put(&mut self.settings, name, &found(value.kind));
        if let Err(mistake) = put {
            self.mistaken(mistake);
        }
    }

    fn mistaken(&mut self, mistake: String) {
        if self.mistakes.len() < MISTAKES_MAX {
            self.mistakes.push(mistake);
        } else {
            self.more += 1;
        }
    }

    /// Returns the entries of a section, in the order of their names.
    fn table(&mut self, path: &str, value: Value) -> Vec<(String, Value)> {
        match value.kind {
            ValueKind::Table(table) => sorted(table),
            other => {
                let found = found(other);
                self.mistaken(format!("{path} is {found}; it must be a section"));
                Vec::new()
            }
        }
    }

    fn finish(self, source: &str) -> Result<Settings> {
        if self.mistakes.is_empty() {
            return Ok(self.settings);
        }
        let more = match self.more {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let named = self.mistakes.join("; ");
        Err(Error::invalid(format!("{source}: {named}{more}")))
    }
}

/// Parses the text as a tree of values.
///
/// The tree comes from the format itself and not from a `config::Config`, which would split quoted
/// keys at their dots and turn `1.6` workers into two.
fn tree(text: &str, source: &str) -> Result<Map<String, Value>> {
    FileFormat::Toml.parse(None, text).map_err(|error| {
        // Not kept as the cause: it quotes the line, and a line may hold a password.
        let why = in_one_line(&error.to_string());
        Error::invalid(format!("{source} is not valid TOML: {}", shown(&why)))
    })
}

/// Returns the place and the reason, without the lines in between, which quote the text.
fn in_one_line(error: &str) -> String {
    let mut lines = error.lines().filter(|line| !line.trim().is_empty());
    match (lines.next(), lines.next_back()) {
        (Some(place), Some(reason)) => format!("{place}: {reason}"),
        (Some(only), None) => only.to_owned(),
        (None, _) => String::new(),
    }
}

/// Converts a value of the file.
fn found(kind: ValueKind) -> RawValue {
    match kind {
        ValueKind::Boolean(boolean) => RawValue::Boolean(boolean),
        ValueKind::I64(number) => RawValue::Number(number),
        ValueKind::String(text) => RawValue::Text(text),
        ValueKind::Table(table) => match texts(table) {
            Some(table) => RawValue::Table(table),
            None => RawValue::Other("a section".to_owned()),
        },
        ValueKind::Array(_) => RawValue::Other("a list".to_owned()),
        number => RawValue::Other(number.to_string()),
    }
}

/// Returns a section that holds nothing but texts.
fn texts(table: Map<String, Value>) -> Option<BTreeMap<String, String>> {
    let text = |(name, value): (String, Value)| match value.kind {
        ValueKind::String(text) => Some((name, text)),
        _ => None,
    };
    table.into_iter().map(text).collect()
}

fn sorted(table: Map<String, Value>) -> Vec<(String, Value)> {
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    entries
}
