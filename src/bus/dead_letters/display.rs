//! Formatting of payloads for display.

use std::fmt::Write;

use serde::de::IgnoredAny;

use crate::codec::{Codec, Frame};

/// About how many bytes of a payload are displayed.
const SHOWN_MAX: usize = 16 << 10;
/// The most bytes that are displayed in hexadecimal.
const HEX_MAX: usize = 256;
/// The bytes of a hexadecimal line.
const HEX_LINE: usize = 16;

/// Formats a stored payload: its value, or the id of its key if it is encrypted.
pub(in crate::bus) fn payload(stored: &[u8]) -> String {
    let Ok(frame) = Frame::read(stored) else {
        return hex(stored);
    };
    match (frame.codec, frame.key_id) {
        (_, Some(key)) => format!(
            "encrypted under key {}, {} bytes in all",
            crate::error::shown(key),
            stored.len()
        ),
        (Codec::MsgPack, None) => match frame.to_json() {
            Some(text) => value(text.as_bytes()),
            None => hex(frame.rest),
        },
        (_, None) => value(frame.rest),
    }
}

/// Returns whether a stored payload, as it is displayed, contains a text; an encrypted one does not.
/// White space does not count, as JSON has it anywhere.
pub(in crate::bus) fn contains(stored: &[u8], text: &str) -> bool {
    if Frame::read(stored).is_ok_and(|frame| frame.key_id.is_some()) {
        return false;
    }
    let shown = payload(stored);
    let solid = |text: &str| -> String { text.split_whitespace().collect() };
    shown.contains(text) || solid(&shown).contains(&solid(text))
}

/// Formats JSON on several lines, a text as it is, or the first bytes as hexadecimal digits.
fn value(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return hex(bytes);
    };
    let is_binary = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    if serde_json::from_str::<IgnoredAny>(text).is_ok() {
        json(text)
    } else if text.contains(is_binary) {
        hex(bytes)
    } else {
        let end = text.floor_char_boundary(SHOWN_MAX);
        cut(text[..end].to_owned(), end, text.len())
    }
}

/// Reformats JSON with a line for each member and element. Only white space changes, so that no
/// digit of a number and no duplicate key is lost.
fn json(text: &str) -> String {
    let mut out = String::new();
    let mut depth = 0_usize;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if out.len() > SHOWN_MAX {
            return cut(out, at, text.len());
        }
        match c {
            '"' => {
                out.push('"');
                let mut is_escaped = false;
                for (at, c) in chars.by_ref() {
                    if out.len() > SHOWN_MAX {
                        return cut(out, at, text.len());
                    }
                    // A string may contain raw control characters, which a terminal may interpret.
                    if c.is_control() {
                        let _ = write!(out, "\\u{:04x}", c as u32); // writing to a string never fails
                    } else {
                        out.push(c);
                    }
                    if c == '"' && !is_escaped {
                        break;
                    }
                    is_escaped = c == '\\' && !is_escaped;
                }
            }
            '{' | '[' => {
                out.push(c);
                while chars.next_if(|(_, c)| c.is_ascii_whitespace()).is_some() {}
                match chars.next_if(|(_, c)| matches!(c, '}' | ']')) {
                    Some((_, end)) => out.push(end),
                    None => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

fn hex(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(HEX_MAX)];
    let mut out = String::new();
    for (at, byte) in head.iter().enumerate() {
        let before = match at {
            0 => "",
            _ if at % HEX_LINE == 0 => "\n",
            _ => " ",
        };
        let _ = write!(out, "{before}{byte:02x}"); // writing to a string never fails
    }
    cut(out, head.len(), bytes.len())
}

/// Appends the full length, if something was cut off.
fn cut(mut out: String, shown: usize, len: usize) -> String {
    if shown < len {
        let _ = write!(out, "\n... {len} bytes in all"); // writing to a string never fails
    }
    out
}
