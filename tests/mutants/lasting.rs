//! What is done to code that stays as it is in meaning leaves every planted bug where it was: locals
//! get other names, lines are broken elsewhere, functions move to other files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::list;
use super::locals::{is_in_a_text, locals};
use super::{expect_none, root};
use crate::plant::tokens::{Language, tokens};
use crate::plant::tree::{File, Item, Tree};
use crate::plant::{self, Edit, Place};

/// What a local is called after it, for it to be seen that it has another name.
const ANOTHER: &str = "_by_another_name";

#[test]
fn locals_have_other_names() {
    every_edit_lasts(|tree| {
        let renamed = |file: &File| (file.path.clone(), with_other_locals(file));
        tree.files.iter().map(renamed).collect()
    });
}

#[test]
fn lines_are_broken_elsewhere() {
    every_edit_lasts(|tree| {
        let folder = tempfile::tempdir().expect("a folder");
        for place in ["src", "outbox/src", "server/src", "dashboards/web/src"] {
            copy(&root().join(place), &folder.path().join(place)).expect("it can be copied");
            let narrow = ["--edition", "2024", "--quiet", "--config", "max_width=60"];
            let roots = ["lib.rs", "main.rs"].map(|name| folder.path().join(place).join(name));
            let mut rustfmt = Command::new("rustfmt");
            let ended = rustfmt
                .args(narrow)
                .args(roots.iter().filter(|root| root.exists()))
                .status();
            // It fails where a line cannot be as short, and formats the rest.
            ended.expect("rustfmt can be started");
        }
        let again = |file: &File| {
            let is_lua = file.language() == Language::Lua;
            let text = match fs::read_to_string(folder.path().join(&file.path)) {
                Ok(text) if is_lua => a_word_a_line(&text),
                Ok(text) => text,
                Err(_) => file.text.clone(),
            };
            (file.path.clone(), text)
        };
        tree.files.iter().map(again).collect()
    });
}

#[test]
fn functions_are_in_other_files() {
    every_edit_lasts(|tree| {
        let mut moved = BTreeMap::<PathBuf, Vec<(Range<usize>, PathBuf, String)>>::new();
        for edit in edits() {
            let (file, item) = tree.find(edit.at).expect("it is there");
            let Some((to, text)) = elsewhere(edit, file, item) else {
                continue;
            };
            let of_file = moved.entry(file.path.clone()).or_default();
            if of_file.iter().all(|(_, path, _)| *path != to) {
                of_file.push((item.bytes.clone(), to, text));
            }
        }
        let mut files = Vec::new();
        for file in &tree.files {
            let mut text = file.text.clone();
            let mut of_file = moved.remove(&file.path).unwrap_or_default();
            of_file.sort_by_key(|(bytes, _, _)| std::cmp::Reverse(bytes.start));
            for (bytes, to, moved) in of_file {
                text.replace_range(bytes, "");
                files.push((to, moved));
            }
            files.push((at_another_place(file), text));
        }
        files
    });
}

/// Where a function goes, and how it stands there. One that is called by its module's name stays
/// within, in a file of its own; what is a script, or of a trait, does not move by itself.
fn elsewhere(edit: Edit, file: &File, item: &Item) -> Option<(PathBuf, String)> {
    let [.., within, name] = item.path.as_slice() else {
        return None;
    };
    let text = &file.text[item.bytes.clone()];
    let is_lua = file.language() == Language::Lua;
    let is_of_a_type = within.starts_with(char::is_uppercase);
    let named_modules = edit.at.matches("::").count() - usize::from(is_of_a_type);
    let is_function = if is_lua {
        !name.ends_with(".lua") && named_modules == usize::from(edit.at.starts_with("lua::"))
    } else {
        text.contains("fn ") && !within.starts_with('<')
    };
    let folder = match named_modules {
        0 => PathBuf::from("src/elsewhere"),
        _ => file.path.with_extension(""),
    };
    let text = if is_of_a_type {
        format!("impl {within} {{ {text} }}")
    } else {
        text.to_owned()
    };
    let name = format!("{within}_{name}").replace('.', "_");
    let extension = if is_lua { "lua" } else { "rs" };
    is_function.then(|| (folder.join(format!("{name}.{extension}")), text))
}

/// Where a file goes: a script to another folder.
fn at_another_place(file: &File) -> PathBuf {
    let name = file.path.file_name().unwrap_or_default();
    match file.language() {
        Language::Lua => Path::new("src/elsewhere").join(name),
        _ => file.path.clone(),
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let to = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &to)?;
        } else {
            fs::copy(&path, &to)?;
        }
    }
    Ok(())
}

fn edits() -> impl Iterator<Item = Edit> {
    list::all().flat_map(|mutant| {
        let more = mutant.masked_by.map_or(&[][..], |masked| masked.edits);
        mutant.edits.iter().chain(more).copied()
    })
}

/// Fails unless every edit does the same in the tree that is made of this one.
fn every_edit_lasts(change: impl FnOnce(&Tree) -> Vec<(PathBuf, String)>) {
    let tree = Tree::read(root()).expect("the sources can be read");
    let mut files = change(&tree);
    let is_as_it_was = |(path, text): &(PathBuf, String)| {
        let mut files = tree.files.iter();
        files.any(|file| file.path == *path && file.text == *text)
    };
    let others = files.iter().filter(|file| !is_as_it_was(file)).count();
    assert!(others >= 20, "{others} files are others than before");
    let files = files.drain(..).map(|(path, text)| File::of(path, text));
    let changed = Tree::of(files.collect());
    let wrong = edits().filter_map(|edit| match (effect(&tree, edit), effect(&changed, edit)) {
        (Ok(before), Ok(after)) if before == after => None,
        (Ok(before), Ok(after)) => Some(format!("{}: {before:?}, then {after:?}", edit.at)),
        (Err(why), _) | (_, Err(why)) => Some(why),
    });
    expect_none(&wrong.collect::<Vec<_>>());
}

/// What an edit takes away and brings, and what is around it.
fn effect(tree: &Tree, edit: Edit) -> Result<Vec<String>, String> {
    let (file, item) = tree.find(edit.at)?;
    let place = Place::of(file, item)?;
    let replaced = place.replaced(edit.change);
    let replaced = replaced.map_err(|why| format!("{}: {why}: {:?}", edit.at, edit.change))?;
    let mut effect = Vec::new();
    for (bytes, put) in replaced {
        let words = |text: &str| words(text, file.language());
        let tokens = &place.tokens;
        let end = tokens.partition_point(|token| token.end() <= bytes.start);
        let start = tokens.partition_point(|token| token.start < bytes.end);
        let text_of = |range: Range<usize>| words(&file.text[plant::tokens::bytes(tokens, range)]);
        let mut before = text_of(end.saturating_sub(15)..end);
        let before = before.split_off(before.len().saturating_sub(3));
        let mut after = text_of(start..(start + 15).min(tokens.len()));
        after.truncate(3);
        effect.push(format!(
            "{before:?} < {:?} as {:?} > {:?}",
            words(&file.text[bytes]),
            words(&put),
            after
        ));
    }
    Ok(effect)
}

/// Tokens with the names of locals as they were, without what a formatter adds: braces around what
/// is alone, and commas.
fn words(text: &str, language: Language) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for token in tokens(text, language) {
        let name = token.text.trim_end_matches(ANOTHER);
        // A field that has the name of its local may be written out.
        if words.ends_with(&[name.to_owned(), ":".to_owned()]) {
            words.truncate(words.len() - 2);
        }
        if !matches!(name, "{" | "}" | ",") {
            words.push(name.to_owned());
        }
    }
    words
}

fn with_other_locals(file: &File) -> String {
    let mut places = BTreeSet::new();
    for item in &file.parsed().expect("it is parsed").items {
        let place = Place::of(file, item).expect("it is parsed");
        let named = |(at, is_field)| (&place.tokens[at], is_field);
        let found = locals(&place).expect("it is parsed").into_iter().map(named);
        places.extend(
            found
                .filter(|(token, _)| !is_in_a_text(&place.tokens, token.text))
                .map(|(token, is_field)| (token.start, token.text, is_field)),
        );
    }
    let mut text = file.text.clone();
    for (start, name, is_field) in places.into_iter().rev() {
        let field = if is_field {
            format!("{name}: ")
        } else {
            String::new()
        };
        text.replace_range(
            start..start + name.len(),
            &format!("{field}{name}{ANOTHER}"),
        );
    }
    text
}

/// A script with each word on a line of its own.
fn a_word_a_line(text: &str) -> String {
    let mut written = String::new();
    let mut end = 0;
    for token in tokens(text, Language::Lua) {
        if token.start > end {
            written.push('\n');
        }
        written.push_str(token.text);
        end = token.end();
    }
    written
}
