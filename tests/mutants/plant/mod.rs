//! How a bug is planted: an operation on a function, a constant or a type, which is found by its name
//! wherever it is.
//!
//! The text changes where the operation says so, and nowhere else.

#![allow(dead_code)] // the tests of the list look at more than the program that plants

mod lua;
pub(crate) mod pattern;
mod rust;
pub(crate) mod tokens;
pub(crate) mod tree;
pub(crate) mod variants;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use pattern::{Match, Pattern};
use tokens::{Language, Token, bytes, tokens};
use tree::{File, Item, Kind};

pub(crate) use tree::Tree;

/// A change of the code at one place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edit {
    /// What is changed: the names of modules, a type and a function, as many as make it one thing,
    /// with the last one. A Lua script is called by its file's name, without what is in its functions.
    pub(crate) at: &'static str,
    pub(crate) change: Change,
}

/// What is done. The texts are patterns, but for those that are put somewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// A text is put in the place of what a pattern has between `«` and `»`.
    Put(&'static str, &'static str),
    /// The same within a string literal, such as SQL.
    PutInText(&'static str, &'static str),
    /// A statement is left out: the smallest that has this in it.
    Drop(&'static str),
    /// An element between commas is left out: an argument, a field.
    DropElement(&'static str),
    /// The condition that has this in it is never so.
    Never(&'static str),
    /// It is always so.
    Always(&'static str),
    /// It is the other way round.
    Negate(&'static str),
    /// The first statement comes right after the second.
    Later(&'static str, &'static str),
    /// The first statement comes right before the second.
    Earlier(&'static str, &'static str),
}

/// A file with a change made in it.
pub(crate) struct Changed {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// Bytes, and what takes their place.
type Replaced = (Range<usize>, String);

/// The files with all of these edits made.
pub(crate) fn planted(edits: &[Edit], tree: &Tree) -> Result<Vec<Changed>, String> {
    let changed = replacements(edits, tree)?.into_iter();
    let changed = changed.map(|(file, replaced)| Changed {
        path: file.path.clone(),
        text: applied(&file.text, 0, replaced),
    });
    Ok(changed.collect())
}

/// What these edits replace in which file, in the order of the bytes.
fn replacements<'a>(
    edits: &[Edit],
    tree: &'a Tree,
) -> Result<Vec<(&'a File, Vec<Replaced>)>, String> {
    let mut of_files = BTreeMap::<&Path, (&File, Vec<Replaced>)>::new();
    for edit in edits {
        let (file, item) = tree.find(edit.at)?;
        let place = Place::of(file, item)?;
        let done = place.replaced(edit.change);
        let done = done.map_err(|why| format!("{}: {why}: {:?}", edit.at, edit.change))?;
        let of_file = of_files.entry(&file.path);
        of_file.or_insert_with(|| (file, Vec::new())).1.extend(done);
    }
    for (file, replaced) in of_files.values_mut() {
        replaced.sort_by_key(|(bytes, _)| (bytes.start, bytes.end));
        let mut overlaps = replaced.iter().zip(replaced.iter().skip(1));
        if overlaps.any(|((one, _), (next, _))| one.end > next.start) {
            return Err(format!("{}: edits overlap", file.path.display()));
        }
    }
    Ok(of_files.into_values().collect())
}

/// A text that begins at byte `from` of its file, with its replacements made.
fn applied(text: &str, from: usize, replaced: Vec<Replaced>) -> String {
    let mut text = text.to_owned();
    for (bytes, put) in replaced.into_iter().rev() {
        text.replace_range(bytes.start - from..bytes.end - from, &put);
    }
    text
}

/// What is changed, in tokens.
pub(crate) struct Place<'a> {
    pub(crate) file: &'a File,
    pub(crate) item: &'a Item,
    pub(crate) tokens: Vec<Token<'a>>,
}

impl<'a> Place<'a> {
    pub(crate) fn of(file: &'a File, item: &'a Item) -> Result<Self, String> {
        let mut tokens = file.tokens(&item.bytes);
        tokens.retain(|token| {
            let mut without = item.without.iter();
            !without.any(|bytes| bytes.contains(&token.start))
        });
        Ok(Self { file, item, tokens })
    }

    pub(crate) fn replaced(&self, change: Change) -> Result<Vec<Replaced>, String> {
        Ok(match change {
            Change::Put(pattern, put) => {
                let found = self.only(pattern)?;
                let range = bytes(&self.tokens, found.hole.clone());
                vec![(range, format!(" {} ", found.filled(put)?))]
            }
            Change::PutInText(pattern, put) => vec![self.replaced_in_text(pattern, put)?],
            Change::Drop(of) => vec![(self.region(Kind::Statement, of)?, String::new())],
            Change::DropElement(of) => vec![(self.element(of)?, String::new())],
            Change::Never(of) => self.with_condition(of, ["false && ", "false and "], "")?,
            Change::Always(of) => self.with_condition(of, ["true || ", "true or "], "")?,
            Change::Negate(of) => self.with_condition(of, ["!(", "not ("], ")")?,
            Change::Later(first, second) => {
                let first = self.region(Kind::Statement, first)?;
                let second = self.region(Kind::Statement, second)?;
                self.moved(first, second.end)
            }
            Change::Earlier(first, second) => {
                let first = self.region(Kind::Statement, first)?;
                let second = self.region(Kind::Statement, second)?;
                self.moved(first, second.start)
            }
        })
    }

    /// Where a pattern occurs, if that is one place.
    fn only(&self, pattern: &'a str) -> Result<Match<'a>, String> {
        let mut found = Pattern::of(pattern, self.file.language()).matches(&self.tokens);
        match found.len() {
            1 => Ok(found.remove(0)),
            count => Err(format!("{count} times, not once")),
        }
    }

    /// The smallest region that has a pattern in it, which may be there several times.
    pub(crate) fn region(&self, kind: Kind, pattern: &'a str) -> Result<Range<usize>, String> {
        let found = Pattern::of(pattern, self.file.language()).matches(&self.tokens);
        let regions = &self.file.parsed()?.regions;
        let mut around = found.iter().filter_map(|found| {
            let bytes = bytes(&self.tokens, found.hole.clone());
            let is_around = |of: &Range<usize>| of.start <= bytes.start && bytes.end <= of.end;
            let kinds = regions.iter().filter(|region| region.kind == kind);
            let around = kinds.filter(|region| is_around(&region.bytes));
            let smallest = around.min_by_key(|region| region.bytes.len())?;
            Some(smallest.bytes.clone())
        });
        let first = around
            .next()
            .ok_or_else(|| format!("no {kind:?} has that"))?;
        if around.all(|another| another == first) {
            Ok(first)
        } else {
            Err(format!("several have that, each a {kind:?}"))
        }
    }

    fn with_condition(
        &self,
        of: &'a str,
        before: [&str; 2],
        after: &str,
    ) -> Result<Vec<Replaced>, String> {
        let condition = self.region(Kind::Condition, of)?;
        let is_lua = self.file.language() == Language::Lua;
        let inner = self.file.tokens(&condition);
        let is_or = |pair: &[Token<'_>]| {
            if is_lua {
                pair[0].text == "or"
            } else {
                pair[0].text == "|" && pair[1].text == "|" && pair[0].end() == pair[1].start
            }
        };
        let has_alternatives = after.is_empty() && inner.windows(2).any(is_or);
        let (open, close) = if has_alternatives {
            ("(", ")")
        } else {
            ("", after)
        };
        let before = before[usize::from(is_lua)].to_owned() + open;
        let (start, end) = (condition.start, condition.end);
        Ok(vec![(start..start, before), (end..end, close.to_owned())])
    }

    fn moved(&self, from: Range<usize>, to: usize) -> Vec<Replaced> {
        let text = format!("\n{}\n", &self.file.text[from.clone()]);
        vec![(from, String::new()), (to..to, text)]
    }

    /// An element between commas, with one of them.
    fn element(&self, pattern: &'a str) -> Result<Range<usize>, String> {
        let found = self.only(pattern)?.hole;
        let after = self.edge(found.end..self.tokens.len(), 1);
        let before = self.edge((0..found.start).rev(), -1);
        let (Some(before), Some(after)) = (before, after) else {
            return Err("not between commas or brackets".to_owned());
        };
        let is_last = self.tokens[after].text != ",";
        let is_first = self.tokens[before].text != ",";
        let range = match (is_first, is_last) {
            (_, false) => before + 1..after + 1,
            (false, true) => before..after,
            (true, true) => before + 1..after,
        };
        if self.tokens[range.clone()].iter().any(|it| it.text == ";") {
            Err("not an element of a list".to_owned())
        } else {
            Ok(bytes(&self.tokens, range))
        }
    }

    /// The first comma, or bracket around, on the way.
    fn edge(&self, mut way: impl Iterator<Item = usize>, step: isize) -> Option<usize> {
        let mut depth = 0;
        way.find(|at| {
            let token = &self.tokens[*at];
            let deeper = step * (isize::from(token.opens()) - isize::from(token.closes()));
            let is_edge = depth == 0 && (deeper < 0 || token.text == ",");
            depth += deeper;
            is_edge
        })
    }

    fn replaced_in_text(&self, pattern: &'a str, put: &'a str) -> Result<Replaced, String> {
        let pattern = Pattern::of(pattern, Language::Words);
        let mut found = Vec::new();
        for literal in self.tokens.iter().filter(|token| token.is_string()) {
            let words = tokens(literal.text, Language::Words);
            for one in pattern.matches(&words) {
                let within = bytes(&words, one.hole.clone());
                let range = literal.start + within.start..literal.start + within.end;
                found.push((range, one.filled(put)?));
            }
        }
        match found.len() {
            1 => Ok(found.remove(0)),
            count => Err(format!("{count} times in texts, not once")),
        }
    }
}
