//! The functions, constants and types of the project, wherever they are.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::tokens::{Language, Token, tokens};
use super::{lua, rust};

/// Where sources are, and by which name a path may begin that is only there.
const PLACES: [(&str, &str); 7] = [
    ("src", "duly"),
    ("outbox/src", "outbox"),
    ("server/src", "server"),
    ("dashboards/web/src", "dashboard"),
    ("macros/src", "macros"),
    ("options/src", "options"),
    ("conformance/src", "conformance"),
];

pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
    /// Which files may declare a name, so that the others need not be parsed.
    declaring: HashMap<String, BTreeSet<usize>>,
}

pub(crate) struct File {
    /// From the root of the project.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    modules: Vec<String>,
    parsed: OnceLock<Parsed>,
    tokens: OnceLock<Vec<Range<usize>>>,
}

#[derive(Debug, Default)]
pub(crate) struct Parsed {
    pub(crate) items: Vec<Item>,
    pub(crate) regions: Vec<Region>,
    pub(crate) bodies: Vec<Body>,
    /// Where locals and parameters get their names.
    pub(crate) locals: Vec<(usize, String)>,
}

#[derive(Debug)]
pub(crate) struct Item {
    /// Modules, and then what it is within, such as a type.
    pub(crate) path: Vec<String>,
    pub(crate) bytes: Range<usize>,
    /// What is within and no part of it: the functions in a script.
    pub(crate) without: Vec<Range<usize>>,
}

/// The body of a function, with its braces.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) bytes: Range<usize>,
    pub(crate) is_const: bool,
}

#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) kind: Kind,
    pub(crate) bytes: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Statement,
    /// Of an `if`, a `while` or an arm.
    Condition,
}

impl Tree {
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut files = Vec::new();
        for (place, _) in PLACES {
            let mut paths = Vec::new();
            list(&root.join(place), &mut paths).map_err(|error| format!("{place}: {error}"))?;
            paths.sort();
            for path in paths {
                let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
                let path = path.strip_prefix(root).unwrap_or(&path);
                files.push(File::of(path.to_owned(), text));
            }
        }
        Ok(Self::of(files))
    }

    pub(crate) fn of(files: Vec<File>) -> Self {
        let mut declaring = HashMap::<String, BTreeSet<usize>>::new();
        for (at, file) in files.iter().enumerate() {
            for name in file.declared() {
                declaring.entry(name).or_default().insert(at);
            }
        }
        Self { files, declaring }
    }

    /// What a path of names means, if it is one thing: of several, the one that has nothing between
    /// them.
    pub(crate) fn find(&self, at: &str) -> Result<(&File, &Item), String> {
        let names: Vec<&str> = at.split("::").collect();
        let last = names.last().copied().unwrap_or_default();
        let mut found = Vec::new();
        for file in self.declaring.get(last).into_iter().flatten() {
            let file = &self.files[*file];
            let items = file.parsed()?.items.iter();
            let items = items.filter(|item| is_path_of(&names, &item.path));
            found.extend(items.map(|item| (file, item)));
        }
        if found.len() > 1 {
            let directly = |(_, item): &&(&File, &Item)| {
                let within = item.path.len().checked_sub(names.len());
                within.is_some_and(|from| is_path_of_each(&names, &item.path[from..]))
            };
            let direct: Vec<_> = found.iter().filter(directly).copied().collect();
            if !direct.is_empty() {
                found = direct;
            }
        }
        match found.as_slice() {
            [one] => Ok(*one),
            [] => Err(format!("`{at}` is nowhere")),
            several => {
                let paths: Vec<_> = several.iter().map(|(_, it)| it.path.join("::")).collect();
                Err(format!("`{at}` is all of {}", paths.join(", ")))
            }
        }
    }
}

impl File {
    pub(crate) fn of(path: PathBuf, text: String) -> Self {
        let within = |(place, name)| Some((path.strip_prefix(place).ok()?, name));
        let (within, name) = PLACES.into_iter().find_map(within).unwrap_or((&path, ""));
        let mut modules = vec![name.to_owned()];
        let parts = within.iter().filter_map(|part| part.to_str());
        modules.extend(parts.map(|part| part.trim_end_matches(".rs").to_owned()));
        modules.retain(|module| module != "mod" && module != "lib");
        Self {
            path,
            text,
            modules,
            parsed: OnceLock::new(),
            tokens: OnceLock::new(),
        }
    }

    pub(crate) fn language(&self) -> Language {
        if self.path.extension().is_some_and(|is| is == "lua") {
            Language::Lua
        } else {
            Language::Rust
        }
    }

    /// Its tokens from one byte to another.
    pub(crate) fn tokens(&self, within: &Range<usize>) -> Vec<Token<'_>> {
        let all = self.tokens.get_or_init(|| {
            let tokens = tokens(&self.text, self.language());
            let ranges = tokens.iter().map(|token| token.start..token.end());
            ranges.collect()
        });
        let from = all.partition_point(|token| token.start < within.start);
        let to = all.partition_point(|token| token.start < within.end);
        let token = |bytes: &Range<usize>| Token {
            text: &self.text[bytes.clone()],
            start: bytes.start,
        };
        all[from..to].iter().map(token).collect()
    }

    pub(crate) fn parsed(&self) -> Result<&Parsed, String> {
        if let Some(parsed) = self.parsed.get() {
            return Ok(parsed);
        }
        let parsed = match self.language() {
            Language::Rust => rust::parsed(&self.text, &self.modules),
            _ => lua::parsed(&self.text, &self.modules),
        };
        let parsed = parsed.map_err(|error| format!("{}: {error}", self.path.display()))?;
        Ok(self.parsed.get_or_init(|| parsed))
    }

    /// The names that may be declared here.
    fn declared(&self) -> Vec<String> {
        if self.language() == Language::Lua {
            let items = self.parsed().map_or(&[][..], |parsed| &parsed.items);
            return items
                .iter()
                .filter_map(|item| item.path.last().cloned())
                .collect();
        }
        let words = self
            .text
            .split(|c: char| c != '_' && c != '!' && !c.is_alphanumeric());
        let mut before = "";
        let mut names = Vec::new();
        for word in words.filter(|word| !word.is_empty()) {
            if DECLARES.contains(&before) || word.ends_with('!') {
                names.push(word.to_owned());
            }
            before = word;
        }
        names
    }
}

const DECLARES: [&str; 7] = [
    "fn",
    "const",
    "static",
    "struct",
    "enum",
    "trait",
    "macro_rules",
];

/// Whether a part of a path has this name. A type may be `<Type as Trait>`, and is called so or by its
/// own name.
fn is_called(name: &str, part: &str) -> bool {
    let of_a_trait = part
        .strip_prefix('<')
        .and_then(|part| part.split_once(" as "));
    part == name || of_a_trait.is_some_and(|(of, _)| of == name)
}

/// Whether `names` are some of the path in their order, the last one included, and the type if it is
/// of one.
fn is_path_of(names: &[&str], path: &[String]) -> bool {
    let (Some((last, before)), Some((item, parts))) = (names.split_last(), path.split_last())
    else {
        return false;
    };
    let of = parts
        .last()
        .filter(|part| part.starts_with(|c: char| c == '<' || c.is_uppercase()));
    let is_of_another = of.is_some_and(|of| before.last().is_none_or(|name| !is_called(name, of)));
    let mut parts = parts.iter();
    is_called(last, item)
        && !is_of_another
        && before
            .iter()
            .all(|name| parts.any(|part| is_called(name, part)))
}

fn is_path_of_each(names: &[&str], path: &[String]) -> bool {
    names
        .iter()
        .zip(path)
        .all(|(name, part)| is_called(name, part))
}

fn list(folder: &Path, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() && name != "tests" {
            list(&path, paths)?;
        } else if path.extension().is_some_and(|is| is == "rs" || is == "lua") && name != "tests.rs"
        {
            paths.push(path);
        }
    }
    Ok(())
}
