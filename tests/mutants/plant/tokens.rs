//! The tokens of a text, with their places: what a planted bug is compared by, so that spaces, line
//! breaks and comments do not count.

use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    Lua,
    /// What a string literal holds, such as SQL.
    Words,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) start: usize,
}

impl Token<'_> {
    pub(crate) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub(crate) fn is_name(&self) -> bool {
        self.text.starts_with(is_first_of_name)
    }

    pub(crate) fn is_string(&self) -> bool {
        self.text.ends_with('"') && self.text.len() > 1
    }

    pub(crate) fn opens(&self) -> bool {
        matches!(self.text, "(" | "[" | "{")
    }

    pub(crate) fn closes(&self) -> bool {
        matches!(self.text, ")" | "]" | "}")
    }
}

/// The tokens without comments, and without a comma before a closing bracket, which depends on how a
/// list is broken into lines. A sign is one character; in a pattern `$name`, `$..` and `$...` are one
/// token.
pub(crate) fn tokens(text: &str, language: Language) -> Vec<Token<'_>> {
    let mut found: Vec<Token<'_>> = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let blank = blank(rest, language);
        if blank > 0 {
            at += blank;
            continue;
        }
        let len = match language {
            Language::Words => None,
            Language::Rust => rust_literal(rest),
            Language::Lua => lua_literal(rest),
        };
        let len = len.unwrap_or_else(|| match first {
            '$' if rest.starts_with("$...") => 4,
            '$' if rest.starts_with("$..") => 3,
            '$' => 1 + name_len(&rest[1..]),
            first if is_first_of_name(first) => name_len(rest),
            first if first.is_ascii_digit() => number_len(rest),
            first => first.len_utf8(),
        });
        let token = Token {
            text: &rest[..len],
            start: at,
        };
        if token.closes() && found.last().is_some_and(|last| last.text == ",") {
            found.pop();
        }
        found.push(token);
        at += len;
    }
    found
}

/// The bytes from the first to the last of these tokens, or the place before them.
pub(crate) fn bytes(tokens: &[Token<'_>], range: Range<usize>) -> Range<usize> {
    if !range.is_empty() {
        return tokens[range.start].start..tokens[range.end - 1].end();
    }
    let at = match range.start.checked_sub(1) {
        Some(before) => tokens[before].end(),
        None => tokens.first().map_or(0, |first| first.start),
    };
    at..at
}

fn is_first_of_name(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn name_len(text: &str) -> usize {
    text.find(|c: char| c != '_' && !c.is_alphanumeric())
        .unwrap_or(text.len())
}

fn number_len(text: &str) -> usize {
    let whole = name_len(text);
    let is_fraction = |rest: &str| {
        rest.strip_prefix('.')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    if is_fraction(&text[whole..]) {
        whole + 1 + name_len(&text[whole + 1..])
    } else {
        whole
    }
}

/// How many bytes of space and comments come first.
fn blank(text: &str, language: Language) -> usize {
    let space = text.len() - text.trim_start().len();
    if space > 0 {
        return space;
    }
    let line = || text.find('\n').unwrap_or(text.len());
    match language {
        Language::Rust if text.starts_with("//") => line(),
        Language::Rust if text.starts_with("/*") => text.find("*/").map_or(text.len(), |at| at + 2),
        Language::Lua if text.starts_with("--[[") => {
            text.find("]]").map_or(text.len(), |at| at + 2)
        }
        Language::Lua if text.starts_with("--") => line(),
        Language::Words if text.starts_with("\\n") => 2,
        Language::Words if text.starts_with('\\') => 1,
        _ => 0,
    }
}

/// How long the literal is that begins here, if one does: a string, a character, a lifetime.
fn rust_literal(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r", ""]
        .into_iter()
        .find(|prefix| text.starts_with(prefix))?;
    let rest = &text[prefix.len()..];
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    if prefix.ends_with('r') && rest[hashes..].starts_with('"') {
        let end = format!("\"{}", &rest[..hashes]);
        let close = rest[hashes + 1..].find(&end)?;
        return Some(prefix.len() + hashes + 1 + close + end.len());
    }
    match rest.chars().next()? {
        '"' => Some(prefix.len() + quoted(rest, '"')),
        '\'' if prefix == "b" => Some(1 + quoted(rest, '\'')),
        '\'' => {
            let mut after = rest[1..].chars();
            let is_char = after.next() == Some('\\') || after.next() == Some('\'');
            Some(if is_char {
                quoted(rest, '\'')
            } else {
                1 + name_len(&rest[1..])
            })
        }
        _ => None,
    }
}

fn lua_literal(text: &str) -> Option<usize> {
    match text.chars().next()? {
        quote @ ('"' | '\'') => Some(quoted(text, quote)),
        _ if text.starts_with("[[") => Some(text.find("]]")? + 2),
        _ => None,
    }
}

/// How long a literal in quotes is.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = true; // the first is the opening quote
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}
