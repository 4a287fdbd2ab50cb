//! Texts of pages: times, durations, numbers, and the fields of forms and queries.

use std::collections::BTreeMap;
use std::time::Duration;

use duly::records::NodeId;
use duly::time::Timestamp;

use crate::error::PageError;

/// The field of the boxes that are ticked in a list.
pub(crate) const CHOSEN: &str = "chosen";

/// The fields of a form or a query; of several of one name the last, but for those that are chosen, which
/// are one text with spaces between.
#[derive(Debug, Default)]
pub(crate) struct Fields(BTreeMap<String, String>);

/// The fields with texts of events, in which spaces at the ends count: `ann` and `ann ` are two keys.
const EXACT: [&str; 4] = ["error", "key", "q", "secret"];

impl Fields {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let mut fields: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(bytes) {
            match fields.get_mut(&*name) {
                Some(chosen) if name == CHOSEN => *chosen += &format!(" {value}"),
                _ => {
                    fields.insert(name.into_owned(), value.into_owned());
                }
            }
        }
        Self(fields)
    }

    /// Returns a field, unless it is empty; without spaces around it, but for a text of events
    /// and a password.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut value = self.0.get(name)?.as_str();
        if !EXACT.contains(&name) {
            value = value.trim();
        }
        (!value.is_empty()).then_some(value)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_owned()
    }

    /// Returns these fields and one more.
    pub(crate) fn and(&self, name: &str, value: &str) -> Self {
        let mut fields = self.0.clone();
        fields.insert(name.to_owned(), value.to_owned());
        Self(fields)
    }

    /// Returns a query of these fields with some replaced; an empty value removes a field.
    pub(crate) fn with(&self, changes: &[(&str, &str)]) -> String {
        let mut fields = self.0.clone();
        fields.retain(|name, _| !matches!(name.as_str(), "done" | "of"));
        for (name, value) in changes {
            fields.insert((*name).to_owned(), (*value).to_owned());
        }
        fields.retain(|_, value| !value.is_empty());
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(fields);
        query.finish()
    }
}

/// Encodes a text for a query.
pub(crate) fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Whether a path stays in this dashboard.
pub(crate) fn is_local(path: &str) -> bool {
    path.starts_with('/') && !path.starts_with("//") && !path.contains(['\\', '\r', '\n', '\t'])
}

/// The time of this machine. What a page says of the store is as of the store's time.
pub(crate) fn now() -> Timestamp {
    #[allow(clippy::disallowed_methods)] // the operator's own time
    std::time::SystemTime::now().into()
}

/// A number with a space between thousands.
pub(crate) fn number(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A duration in at most two units.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let two = |big: u64, unit: &str, small: u64, of: &str| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit} {small}{of}"),
    };
    match seconds {
        0 if span.subsec_millis() > 0 => format!("{}ms", span.subsec_millis()),
        0 if span.subsec_micros() > 0 => format!("{}µs", span.subsec_micros()),
        0 => "0s".to_owned(),
        1..10 => format!("{seconds}.{}s", span.subsec_millis() / 100),
        10..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// Reads the node of a form.
pub(crate) fn node(fields: &Fields) -> Result<Option<NodeId>, PageError> {
    let node = |digits: &str| {
        let node = u64::from_str_radix(digits, 16).map(NodeId);
        node.map_err(|_| PageError::invalid("a node has 16 hexadecimal digits"))
    };
    fields.get("node").map(node).transpose()
}

/// Reads an instant in UTC, `2026-11-24T08:30` with or without seconds and parts of one, or
/// milliseconds since the epoch.
pub(crate) fn instant(fields: &Fields, name: &str) -> Result<Option<Timestamp>, PageError> {
    let Some(text) = fields.get(name) else {
        return Ok(None);
    };
    let read = || {
        if let Ok(ms) = text.parse() {
            return Some(Timestamp::from_millis(ms));
        }
        let (date, time) = text.trim_end_matches('Z').split_once('T')?;
        let mut date = date.splitn(3, '-').map(|part| part.parse::<u64>().ok());
        let (year, month, day) = (date.next()??, date.next()??, date.next()??);
        let (time, part) = time.split_once('.').unwrap_or((time, "0"));
        let ms = format!("{part:0<3}");
        let ms: u64 = ms.parse().ok().filter(|_| ms.len() == 3)?;
        let mut time = time.split(':').map(|part| part.parse::<u64>().ok());
        let (hour, minute, second) = (
            time.next()??,
            time.next()??,
            time.next().unwrap_or(Some(0))?,
        );
        let is_leap =
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let days = match month {
            2 => 28 + u64::from(is_leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let is_real = (1970..10_000).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        if !is_real {
            return None;
        }
        // The days since the epoch, by a year that begins in March.
        let (y, m) = if month > 2 {
            (year, month - 3)
        } else {
            (year - 1, month + 9)
        };
        let days = y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1;
        let days = days.checked_sub(719_468)?;
        let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
        Some(Timestamp::from_millis(seconds * 1_000 + ms))
    };
    let wrong = || {
        PageError::invalid(format!(
            "{name} is no time; write it as 2026-11-24T08:30, in UTC"
        ))
    };
    read().map(Some).ok_or_else(wrong)
}

/// Returns a field of time as a field of a form has it, as short as it can be: of what is written
/// otherwise a browser would show nothing, and send nothing.
pub(crate) fn local(fields: &Fields, name: &str) -> Result<String, PageError> {
    let Some(at) = instant(fields, name)? else {
        return Ok(String::new());
    };
    let text = at.to_string();
    let text = text.trim_end_matches('Z');
    let (text, part) = text.split_once('.').unwrap_or((text, ""));
    Ok(match part.trim_end_matches('0') {
        "" => text.strip_suffix(":00").unwrap_or(text).to_owned(),
        part => format!("{text}.{part}"),
    })
}

/// An instant, with how far away it is.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    /// As in RFC 3339, in UTC.
    pub(crate) exact: String,
    /// The time of the day of it, to the millisecond.
    pub(crate) clock: String,
    /// Such as `3m 2s ago`.
    pub(crate) far: String,
}

impl Moment {
    pub(crate) fn new(at: Timestamp, now: Timestamp) -> Self {
        let far = match at > now {
            true => format!("in {}", span(whole(at.since(now)))),
            false if now.since(at) < Duration::from_secs(1) => "now".to_owned(),
            false => format!("{} ago", span(whole(now.since(at)))),
        };
        let exact = at.to_string();
        let clock = exact.split_once('T').map_or("", |(_, clock)| clock);
        let clock = clock.trim_end_matches('Z').to_owned();
        Self { exact, clock, far }
    }
}

/// Whole seconds, of what is longer than one.
fn whole(span: Duration) -> Duration {
    match span.as_secs() {
        0 => span,
        seconds => Duration::from_secs(seconds),
    }
}

/// Cuts a text off after so many characters.
pub(crate) fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Returns a text for display, cut off after so many characters: what would move a cursor, or turn the
/// direction of what follows, is seen as its number.
pub(crate) fn shown(text: &str, max: usize) -> String {
    visible(&cut(text, max))
}

/// Returns a text in which control characters and marks of direction are seen as their numbers; lines
/// and tabs stay.
pub(crate) fn visible(text: &str) -> String {
    let is_seen = |c: char| matches!(c, '\n' | '\t') || !is_unseen(c);
    if text.chars().all(is_seen) {
        return text.to_owned();
    }
    let mut visible = String::with_capacity(text.len());
    for c in text.chars() {
        if is_seen(c) {
            visible.push(c);
        } else {
            visible.extend(c.escape_unicode());
        }
    }
    visible
}

/// Returns whether a character is none that is seen: it controls a terminal, or turns the direction of
/// the text around it.
fn is_unseen(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns
}

/// A number with its noun.
pub(crate) fn count(many: usize, one: &str, more: &str) -> String {
    match many {
        1 => format!("1 {one}"),
        _ => format!("{} {more}", number(many as u64)),
    }
}

/// Returns a text as a cell of a table: on one line, and no formula.
pub(crate) fn cell(text: &str) -> String {
    let plain = text.chars().map(|c| if is_unseen(c) { ' ' } else { c });
    let plain: String = plain.collect();
    let begins_one = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
    if plain.trim_start().starts_with(begins_one) {
        format!("'{plain}")
    } else {
        plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_shown_as_its_number() {
        assert_eq!(visible("a\u{1b}[31m\u{85}b"), "a\\u{1b}[31m\\u{85}b");
        assert_eq!(shown("ann\u{202e}moc.x\u{2066}", 9), "ann\\u{202e}moc.x…");
        assert_eq!(visible("two\n\tlines, שלום, Å"), "two\n\tlines, שלום, Å");
        assert_eq!(cell("\u{202e}=1+1"), "' =1+1");
    }

    #[test]
    fn durations_have_at_most_two_units() {
        for (ms, expected) in [
            (0, "0s"),
            (7, "7ms"),
            (1_500, "1.5s"),
            (9_960, "9.9s"),
            (61_000, "1m 1s"),
            (7_200_000, "2h"),
            (90_000_000, "1d 1h"),
        ] {
            assert_eq!(span(Duration::from_millis(ms)), expected);
        }
    }

    #[test]
    fn an_instant_is_read_as_it_is_written() {
        let read = |text: &str| instant(&Fields::parse(format!("t={text}").as_bytes()), "t");
        for text in ["2026-11-24T08:30", "2024-02-29T23:59", "1970-01-01T00:00"] {
            let at = read(text).unwrap().unwrap();
            assert!(at.to_string().starts_with(text), "{text}: {at}");
        }
        assert_eq!(read("1500").unwrap(), Some(Timestamp::from_millis(1_500)));
        for wrong in ["0000-01-01T00:00", "18446744073709551615-01-01T00:00"] {
            assert_eq!(read(wrong).unwrap_err().status(), 400, "{wrong}");
        }
        // As a field of a form has it, which is read as the same.
        for (text, expected) in [
            ("1764324000000", "2025-11-28T10:00"),
            ("1764324007000", "2025-11-28T10:00:07"),
            ("1764324007030", "2025-11-28T10:00:07.03"),
            ("2026-11-24T08:30:00Z", "2026-11-24T08:30"),
            ("2026-11-24T08:30:01.5", "2026-11-24T08:30:01.5"),
            ("2026-11-24T08:30:10.007", "2026-11-24T08:30:10.007"),
            ("2026-11-24T08:30:10", "2026-11-24T08:30:10"),
        ] {
            let shown = local(&Fields::parse(format!("t={text}").as_bytes()), "t").unwrap();
            assert_eq!(shown, expected);
            assert_eq!(read(&shown).unwrap(), read(text).unwrap(), "{text}");
        }
        for text in [
            "yesterday",
            "2026-13-01T00:00",
            "2026-11-24",
            "2026-11-24T24:00",
            "2026-11-24T08:30:00.0001",
            "2026-02-31T00:00",
            "2025-02-29T00:00",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn thousands_are_apart() {
        assert_eq!(number(999_u64), "999");
        assert_eq!(number(1_234_567_u64), "1\u{202f}234\u{202f}567");
    }

    #[test]
    fn a_path_elsewhere_is_not_local() {
        assert!(is_local("/queues?sort=name"));
        for path in ["//example.org", "https://example.org", "/\\example.org", ""] {
            assert!(!is_local(path), "{path}");
        }
    }
}
