//! Which tokens are names of locals: those that a planted bug must not know.

use std::collections::BTreeSet;

use crate::plant::Place;
use crate::plant::tokens::{Language, Token};

/// The tokens of a place that name its locals and parameters, and whether each is a field as well, as
/// in `Self { id }`.
pub(crate) fn locals(place: &Place<'_>) -> Result<Vec<(usize, bool)>, String> {
    let file = place.file;
    let is_lua = file.language() == Language::Lua;
    let parsed = file.parsed()?;
    let functions = parsed.items.iter().filter_map(|item| item.path.last());
    let functions: BTreeSet<&str> = functions.map(String::as_str).collect();
    let is_table_of_functions = |name: &str| {
        let mut functions = functions
            .iter()
            .filter_map(|function| function.split_once('.'));
        functions.any(|(table, _)| table == name)
    };
    let names = parsed.locals.iter().filter(|(at, _)| {
        // What a script declares at its top is known in its functions.
        is_lua || place.item.bytes.contains(at)
    });
    let names: BTreeSet<&str> = names.map(|(_, name)| name.as_str()).collect();
    let tokens = &place.tokens;
    let text = |at: Option<usize>| at.and_then(|at| tokens.get(at)).map_or("", |it| it.text);
    let mut around: Vec<usize> = Vec::new(); // open brackets
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if token.opens() {
            around.push(at);
        } else if token.closes() {
            around.pop();
        }
        if !names.contains(token.text) {
            continue;
        }
        let (before, after) = (text(at.checked_sub(1)), text(Some(at + 1)));
        let before_that = text(at.checked_sub(2));
        let is_range = before == "." && before_that == ".";
        let is_member = before == "." && !is_range;
        let is_path =
            before == ":" && before_that == ":" || after == ":" && text(Some(at + 2)) == ":";
        let bracket = around.last().copied();
        let is_first_or_next = matches!(before, "{" | ",");
        let is_key = text(bracket) == "{"
            && is_first_or_next
            && (after == ":" && !is_lua || after == "=" && is_lua && text(Some(at + 2)) != "=");
        let is_function = functions.contains(token.text)
            && (is_lua || before == "fn" || after == "(")
            || is_lua && is_table_of_functions(token.text);
        let is_macro = after == "!" && text(Some(at + 2)) != "=";
        if is_member || is_path || is_key || is_function || is_macro || is_lua && before == ":" {
            continue;
        }
        let is_of_struct = bracket
            .and_then(|at| at.checked_sub(1))
            .is_some_and(|at| tokens[at].text.starts_with(char::is_uppercase));
        let is_field =
            text(bracket) == "{" && is_of_struct && is_first_or_next && matches!(after, "}" | ",");
        found.push((at, is_field));
    }
    Ok(found)
}

/// Whether a text of a macro may name a local: `"{id}"`.
pub(crate) fn is_in_a_text(tokens: &[Token<'_>], name: &str) -> bool {
    let texts = tokens.iter().filter(|token| token.is_string());
    texts.into_iter().any(|token| {
        [format!("{{{name}}}"), format!("{{{name}:")]
            .iter()
            .any(|one| token.text.contains(one))
    })
}
