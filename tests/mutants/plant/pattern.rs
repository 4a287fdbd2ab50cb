//! Patterns of tokens.
//!
//! A pattern is code. `$name` stands for any one name, the same wherever it is repeated, and `$` for
//! any: for locals, whose names a pattern must not know. `$..` stands for any tokens with their
//! brackets in pairs, and `$...` for any at all. What is between `«` and `»` is replaced; all of it,
//! where they are missing.

use std::collections::BTreeMap;
use std::ops::Range;

use super::tokens::{Language, Token, tokens};

pub(crate) struct Pattern<'a> {
    parts: Vec<Part<'a>>,
    hole: Range<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Part<'a> {
    Exactly(&'a str),
    Name(&'a str),
    Any,
    AnyInPairs,
}

/// Where a pattern occurs, in tokens.
#[derive(Clone, Debug)]
pub(crate) struct Match<'a> {
    pub(crate) hole: Range<usize>,
    names: BTreeMap<&'a str, &'a str>,
}

impl<'a> Pattern<'a> {
    pub(crate) fn of(text: &'a str, language: Language) -> Self {
        let mut parts = Vec::new();
        let (mut from, mut to) = (0, None);
        for token in tokens(text, language) {
            match token.text {
                "«" => from = parts.len(),
                "»" => to = Some(parts.len()),
                "$.." => parts.push(Part::AnyInPairs),
                "$..." => parts.push(Part::Any),
                text => parts.push(match text.strip_prefix('$') {
                    Some(name) => Part::Name(name),
                    None => Part::Exactly(text),
                }),
            }
        }
        let hole = from..to.unwrap_or(parts.len());
        Self { parts, hole }
    }

    /// Where it occurs; of those that replace the same, the first.
    pub(crate) fn matches(&self, among: &[Token<'a>]) -> Vec<Match<'a>> {
        let mut found: Vec<Match<'a>> = Vec::new();
        for start in 0..among.len() {
            let mut places = vec![start];
            let mut names = BTreeMap::new();
            if self.goes_on(among, &mut places, &mut names) {
                let one = Match {
                    hole: places[self.hole.start]..places[self.hole.end],
                    names,
                };
                match found.iter_mut().find(|known| known.hole == one.hole) {
                    Some(known) => *known = one, // the nearest
                    None => found.push(one),
                }
            }
        }
        found
    }

    /// Extends `places`, where each part begins, to all parts.
    fn goes_on(
        &self,
        among: &[Token<'a>],
        places: &mut Vec<usize>,
        names: &mut BTreeMap<&'a str, &'a str>,
    ) -> bool {
        let Some(part) = self.parts.get(places.len() - 1) else {
            return true;
        };
        let at = *places.last().unwrap_or(&0);
        if let Part::Any | Part::AnyInPairs = part {
            let in_pairs = matches!(part, Part::AnyInPairs);
            return self.goes_on_later(among, places, names, in_pairs);
        }
        let Some(token) = among.get(at) else {
            return false;
        };
        let fits = match *part {
            Part::Exactly(text) => token.text == text,
            Part::Name("") => token.is_name(),
            Part::Name(name) => {
                token.is_name() && *names.entry(name).or_insert(token.text) == token.text
            }
            Part::Any | Part::AnyInPairs => false,
        };
        if !fits {
            return false;
        }
        places.push(at + 1);
        let goes_on = self.goes_on(among, places, names);
        if !goes_on {
            places.pop();
        }
        goes_on
    }

    /// The same after some tokens, as few as possible.
    fn goes_on_later(
        &self,
        among: &[Token<'a>],
        places: &mut Vec<usize>,
        names: &mut BTreeMap<&'a str, &'a str>,
        in_pairs: bool,
    ) -> bool {
        let at = *places.last().unwrap_or(&0);
        let mut depth = 0_usize;
        for end in at..=among.len() {
            if depth == 0 {
                places.push(end);
                let before = names.clone();
                if self.goes_on(among, places, names) {
                    return true;
                }
                *names = before;
                places.pop();
            }
            match among.get(end).filter(|_| in_pairs) {
                Some(token) if token.opens() => depth += 1,
                Some(token) if token.closes() => match depth.checked_sub(1) {
                    Some(less) => depth = less,
                    None => return false,
                },
                _ => {}
            }
        }
        false
    }
}

impl Match<'_> {
    /// A replacement, with the names that the pattern stands for.
    pub(crate) fn filled(&self, text: &str) -> Result<String, String> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            let len = after
                .find(|c: char| c != '_' && !c.is_alphanumeric())
                .unwrap_or(after.len());
            let name = &after[..len];
            let stands_for = self.names.get(name);
            let stands_for = stands_for.ok_or_else(|| format!("no name ${name} in the pattern"))?;
            filled.extend([before, stands_for]);
            rest = &after[len..];
        }
        filled.push_str(rest);
        Ok(filled)
    }
}
