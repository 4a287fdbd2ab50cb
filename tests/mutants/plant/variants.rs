//! All bugs in one copy: each is in a variant of the function that it is in, and which variant runs is
//! said when the copy is run.
//!
//! `fn f() { .. }` becomes `fn f() { if <the bug is on> { <with the bug> } else { .. } }`, and a bug
//! in several functions has a variant of each. The text of a Lua script is chosen where scripts are
//! assembled. What has no body, such as a constant or a type, must be planted by itself.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::tokens::Language;
use super::tree::{File, Tree};
use super::{Changed, Edit, Replaced, applied, replacements};

/// The environment variable that names the bug that is on.
pub(crate) const SWITCH: &str = "DULY_PLANTED";

/// The function that gets the texts of all Lua scripts, and has these arguments.
const ASSEMBLES: &str = "source::assemble";
const SOURCE: &str = "source";
const LIBRARIES: &str = "libraries";

/// Edits that are made together, and the name that switches them on.
#[derive(Clone, Debug)]
pub(crate) struct Bug {
    pub(crate) name: String,
    pub(crate) edits: Vec<Edit>,
}

#[derive(Default)]
pub(crate) struct Variants {
    pub(crate) changed: Vec<Changed>,
    pub(crate) places: Vec<Variant>,
    /// The bugs that are no variants, and why.
    pub(crate) apart: BTreeMap<String, String>,
}

/// Where a variant is in a changed file.
#[derive(Debug)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) bytes: Range<usize>,
    /// The function's whole body, with its other variants.
    pub(crate) body: Range<usize>,
}

/// A body and what is to be chosen there: names of bugs and texts.
struct Choice<'a> {
    file: &'a File,
    bytes: Range<usize>,
    before: String,
    variants: Vec<(&'a str, String)>,
}

/// What a bug changes.
enum Part<'a> {
    Body(&'a File, Range<usize>, String),
    /// A script, and what it is with the bug.
    Script(&'a File, String),
}

pub(crate) fn variants(bugs: &[Bug], tree: &Tree) -> Variants {
    let mut apart = BTreeMap::new();
    let mut choices = BTreeMap::<(&Path, usize), Choice<'_>>::new();
    let mut scripts = Vec::new();
    for bug in bugs {
        match parts(bug, tree) {
            Err(why) => drop(apart.insert(bug.name.clone(), why)),
            Ok(parts) => {
                for part in parts {
                    match part {
                        Part::Script(file, with) => scripts.push((&*bug.name, &*file.text, with)),
                        Part::Body(file, bytes, text) => {
                            let choice = choice(&mut choices, file, bytes);
                            choice.variants.push((&bug.name, text));
                        }
                    }
                }
            }
        }
    }
    match body_of(ASSEMBLES, tree) {
        _ if scripts.is_empty() => {}
        Ok((file, bytes)) => choice(&mut choices, file, bytes).before = scripts_chosen(&scripts),
        Err(why) => {
            let names = scripts.iter().map(|(name, ..)| (*name).to_owned());
            apart.extend(names.map(|name| (name, why.clone())));
        }
    }
    let mut all = Variants {
        apart,
        ..Variants::default()
    };
    for choice in choices.into_values() {
        all.write(&choice);
    }
    all
}

fn choice<'a, 'b>(
    choices: &'b mut BTreeMap<(&'a Path, usize), Choice<'a>>,
    file: &'a File,
    bytes: Range<usize>,
) -> &'b mut Choice<'a> {
    let at = (file.path.as_path(), bytes.start);
    choices.entry(at).or_insert_with(|| Choice {
        file,
        bytes,
        before: String::new(),
        variants: Vec::new(),
    })
}

impl Variants {
    /// Writes a choice into its file; those of one file come in their order.
    fn write(&mut self, choice: &Choice<'_>) {
        let (file, old) = (choice.file, &choice.bytes);
        if self.changed.last().is_none_or(|it| it.path != file.path) {
            self.changed.push(Changed {
                path: file.path.clone(),
                text: file.text.clone(),
            });
        }
        let Some(changed) = self.changed.last_mut() else {
            return;
        };
        let start = changed.text.len() - (file.text.len() - old.start);
        let rest = changed.text.split_off(start + old.len());
        let original = changed.text.split_off(start);
        let text = &mut changed.text;
        text.push_str("{ ");
        text.push_str(&choice.before);
        let mut found = Vec::new();
        for (name, variant) in &choice.variants {
            *text += &format!("if {} ", is_on(name));
            let from = text.len();
            text.push_str(variant);
            found.push(((*name).to_owned(), from..text.len()));
            text.push_str(" else ");
        }
        text.push_str(&original);
        text.push_str(" }");
        let body = start..text.len();
        text.push_str(&rest);
        self.places
            .extend(found.into_iter().map(|(name, bytes)| Variant {
                name,
                path: file.path.clone(),
                bytes,
                body: body.clone(),
            }));
    }
}

/// What is true in a process in which a bug is on; it needs nothing of its surroundings.
fn is_on(name: &str) -> String {
    format!(
        "{{ static PLANTED: ::std::sync::OnceLock<bool> = ::std::sync::OnceLock::new(); \
         *PLANTED.get_or_init(|| ::std::env::var({SWITCH:?}).is_ok_and(|is| is == {name:?})) }}"
    )
}

fn parts<'a>(bug: &Bug, tree: &'a Tree) -> Result<Vec<Part<'a>>, String> {
    let mut parts = Vec::new();
    for (file, replaced) in replacements(&bug.edits, tree)? {
        if file.language() == Language::Lua {
            parts.push(Part::Script(file, applied(&file.text, 0, replaced)));
            continue;
        }
        if file.path.starts_with("macros") {
            return Err("the compiler runs it".to_owned());
        }
        let mut of_bodies = BTreeMap::<usize, (Range<usize>, Vec<Replaced>)>::new();
        for one in replaced {
            let body = body_around(file, &one.0)?;
            let of_body = of_bodies.entry(body.start);
            of_body.or_insert_with(|| (body, Vec::new())).1.push(one);
        }
        parts.extend(of_bodies.into_values().map(|(bytes, replaced)| {
            let text = applied(&file.text[bytes.clone()], bytes.start, replaced);
            Part::Body(file, bytes, text)
        }));
    }
    Ok(parts)
}

/// The body of the outermost function around.
fn body_around(file: &File, within: &Range<usize>) -> Result<Range<usize>, String> {
    let bodies = file.parsed()?.bodies.iter();
    let around = bodies.filter(|body| {
        let of = &body.bytes;
        of.start < within.start && within.end < of.end
    });
    match around.max_by_key(|body| body.bytes.len()) {
        Some(body) if body.is_const => Err("a constant function".to_owned()),
        Some(body) => Ok(body.bytes.clone()),
        None => Err("not in the body of a function".to_owned()),
    }
}

fn body_of<'a>(at: &str, tree: &'a Tree) -> Result<(&'a File, Range<usize>), String> {
    let (file, item) = tree.find(at)?;
    let end = item.bytes.end - 1; // in front of the last brace
    Ok((file, body_around(file, &(end..end))?))
}

/// Statements that choose the texts of scripts, before a script is assembled of them.
fn scripts_chosen(scripts: &[(&str, &str, String)]) -> String {
    let raw = |text: &str| format!("r########\"{text}\"########");
    let chosen = scripts.iter().map(|(name, original, with)| {
        let (original, with) = (raw(original), raw(with));
        format!(
            "if {} {{ text = text.replace({original}, {with}); }}\n",
            is_on(name)
        )
    });
    let chosen: String = chosen.collect();
    format!(
        "let chosen = |text: &str| {{ let mut text = text.to_owned(); {chosen} text }};\n\
         let {SOURCE} = &*chosen({SOURCE});\n\
         let {LIBRARIES}: Vec<String> = {LIBRARIES}.iter().map(|text| chosen(text)).collect();\n\
         let {LIBRARIES}: Vec<&str> = {LIBRARIES}.iter().map(|text| &**text).collect();\n\
         let {LIBRARIES} = {LIBRARIES}.as_slice();\n"
    )
}
