//! Names of types and of variants: nouns, in the words of the project's field.

use proc_macro2::{TokenStream, TokenTree};

use crate::architecture::files::{File, is_name};

/// Participles and pronouns, which say nothing of what a thing is, and names that were replaced, each
/// with what to say instead.
const REPLACED: &[(&str, &str)] = &[
    ("Allowed", "what is allowed: `PruneAllowance`"),
    ("Asked", "`Query`, `Arguments`, `Conditions`"),
    ("Attendance", "`BucketOwnership`"),
    ("Bereft", "`MemberLost`"),
    ("Board", "`DeadlineTable`"),
    ("Crowd", "`Waiters`"),
    ("Doubted", "`Unknown`, or what has failed"),
    ("Failing", "`FailureReason`"),
    ("Fate", "the outcome or the result of what"),
    ("Feed", "`JobQueue`"),
    ("Gate", "`LeaseFence`, `CommitTicket`"),
    ("Given", "who gives it: `FromCaller`"),
    ("Heard", "`Subscription`"),
    ("Kept", "what is kept: `Contents`, a record"),
    ("Lane", "`Consumer`"),
    ("Ledger", "`ChangeSink`"),
    ("Lent", "`Borrowed`"),
    ("Found", "`Lookup`, or what was found"),
    ("Opened", "what is open"),
    ("Presence", "`MemberInfo`"),
    ("Replayed", "the result of the replay"),
    ("RollCall", "`MembershipPoll`"),
    ("Said", "`MemberInfo`, `Report`"),
    ("Scribe", "`ChangeRecorder`"),
    ("Seen", "what saw it, or what it is"),
    ("Shown", "the page, or the report"),
    ("Standing", "`MemberStatus`"),
    ("Stripes", "`ShardedArc`"),
    ("Surroundings", "`HandlerEnv`"),
    ("Taken", "the reply, or what was taken"),
    ("Ticking", "`OnDemandTask`"),
    ("Told", "`Notification`"),
    ("Turnout", "`MembershipChange`"),
    ("Unsettled", "`InterruptedAttempts`"),
    ("Used", "`Usage`"),
    ("Verdict", "`Outcome`, or the result of what"),
    ("What", "what it is"),
    ("When", "`DueTime`"),
    ("Wrong", "what is wrong with it"),
];

/// Names of types alone: a variant says by them which state it is.
const REPLACED_TYPES: &[(&str, &str)] = &[
    ("Ended", "`Outcome`, or the end of what"),
    ("Ending", "`Outcome`, or the end of what"),
    ("Settled", "`Settlement`"),
    ("Unfinished", "what is unfinished"),
    ("Written", "the writes of what"),
];

/// Words that no field, local, function or module is called, and no file of it, each with what to say
/// instead.
const REPLACED_WORDS: &[(&str, &str)] = &[
    ("answer", "`reply`, `response`, `result`"),
    ("answers", "`replies`, or what is true of it"),
    ("asked", "what was asked: `query`, `wanted`; when: `sent`"),
    ("board", "`deadlines`"),
    ("doubt", "what has failed, or since when"),
    ("fate", "`outcome`"),
    ("fates", "`outcomes`"),
    ("gate", "`fence`, `ticket`"),
    ("gates", "`fences`"),
    ("heard", "`replied`, or what was heard"),
    ("lane", "`consumer`, `connection`"),
    ("lanes", "`consumers`, or how many at once"),
    ("ledger", "`changes`"),
    ("scribe", "`recorder`"),
    (
        "told",
        "what it was told: `applied`, `message`; a `receiver`",
    ),
];

/// Public names that stay, each with its reason beside it.
const STAY: &[&str] = &[
    "When", // every push says it, and it is read there with the method: `push(order, When::Now)`
];

/// Types and variants whose names are replaced by others.
pub(crate) fn replaced(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (number, name, is_type) in declared(&file.text) {
            let types = REPLACED_TYPES.iter().filter(|_| is_type);
            let found = REPLACED.iter().chain(types).find(|(it, _)| *it == name);
            if let Some((_, instead)) = found.filter(|_| !STAY.contains(&name)) {
                wrong.push(format!("{}:{number}: {name}: {instead}", file.path));
            }
        }
    }
    wrong
}

/// Words of fields, locals, functions, modules and files that are replaced by others: of Rust and of Lua.
pub(crate) fn replaced_words(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files {
        let mut names = if file.is_rust() {
            identifiers(file.text.parse().expect(&file.path))
        } else if file.path.ends_with(".lua") {
            names_of_lua(&file.text)
        } else {
            continue;
        };
        names.extend(file.path.split(['/', '.']).map(|name| (0, name.to_owned())));
        for (number, name) in names {
            let found = REPLACED_WORDS.iter().find(|(it, _)| *it == name);
            if let Some((_, instead)) = found {
                wrong.push(format!("{}:{number}: {name}: {instead}", file.path));
            }
        }
    }
    wrong
}

/// The identifiers of code, with their lines; comments and literals have none.
fn identifiers(code: TokenStream) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for token in code {
        match token {
            TokenTree::Ident(it) => found.push((it.span().start().line, it.to_string())),
            TokenTree::Group(it) => found.extend(identifiers(it.stream())),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
    found
}

/// The same of a script.
fn names_of_lua(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let code = line.split("--").next().unwrap_or_default();
        for outside in code.split('"').step_by(2) {
            let names = outside.split(|c| !is_name(c));
            found.extend(names.map(|name| (number, name.to_owned())));
        }
    }
    found
}

/// Structs named `*Options` of which each field may be missing: partial settings are `*Choices`, and
/// what they are resolved to are `*Options`.
pub(crate) fn partial_options(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let mut lines = file.text.lines().zip(1..);
        while let Some((line, number)) = lines.next() {
            let Some(name) = declaration(line).filter(|name| name.ends_with("Options")) else {
                continue;
            };
            if !line.ends_with('{') || !line.contains("struct ") {
                continue;
            }
            let body = lines.by_ref().map(|(line, _)| line.trim());
            let fields = body.take_while(|line| *line != "}").filter(|line| {
                let is_code = !line.starts_with("//") && !line.starts_with('#');
                is_code && line.contains(": ") && line.ends_with(',')
            });
            let fields: Vec<_> = fields.collect();
            let is_partial = |field: &&str| field.contains(": Option<");
            if fields.len() > 1 && fields.iter().all(is_partial) {
                wrong.push(format!("{}:{number}: {name} is partial", file.path));
            }
        }
    }
    wrong
}

/// The types and variants that a text declares, as `rustfmt` lays it out: the line, the name, and
/// whether it is a type.
fn declared(text: &str) -> Vec<(usize, &str, bool)> {
    let mut found = Vec::new();
    let mut within: Option<usize> = None;
    for (line, number) in text.lines().zip(1..) {
        let depth = line.len() - line.trim_start().len();
        if let Some(name) = declaration(line) {
            found.push((number, name, true));
            if line.contains("enum ") && line.ends_with('{') {
                within = Some(depth);
            }
        } else if within.is_some_and(|outer| depth == outer && line.trim() == "}") {
            within = None;
        } else if within.is_some_and(|outer| depth == outer + 4) {
            let name = line.trim().split(|c| !is_name(c)).next().unwrap_or("");
            if name.starts_with(|first: char| first.is_ascii_uppercase()) {
                found.push((number, name, false));
            }
        }
    }
    found
}

/// The name of the type that a line begins to declare.
pub(crate) fn declaration(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some(public) = rest.strip_prefix("pub") {
        let within = public.strip_prefix('(').and_then(|it| it.split_once(')'));
        rest = within.map_or(public, |(_, rest)| rest).trim_start();
    }
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    let named = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    named.split(|c| !is_name(c)).next()
}

#[test]
fn a_replaced_name_is_found_whatever_declares_it() {
    let text = "/// Kept.\npub(in crate::bus) struct Kept<T>(T);\n    type Asked<'a> = &'a str;\n\
                pub enum Reply {\n    /// Seen.\n    Seen(u64),\n    Ended {\n        Told: u8,\n    },\n}\n\
                enum Ended {\n    Keep,\n}\nlet it = Found { a };\npub trait When {}\n";
    let wrong = replaced(&[File::new("src/a.rs", text)]);
    let lines: Vec<_> = wrong.iter().map(|it| it.split(':').nth(1)).collect();
    let expected = ["2", "3", "6", "11"].map(Some);
    assert_eq!(lines, expected, "{wrong:#?}");
}

#[test]
fn a_replaced_word_is_found_whatever_it_names() {
    let text = "/// An answer is told.\nmod gate;\nstruct A {\n    told: u8, // asked\n}\n\
                fn fate(asked: u8) -> &'static str {\n    let f = |lane| format!(\"board {lane}\");\n    \
                \"the answer\"\n}\n";
    let script = "-- the answer\nlocal answer = call(\"told\") -- asked\nanswers = { fate = 1 }\n";
    let files = [
        File::new("src/a.rs", text),
        File::new("src/lua/a.lua", script),
        File::new("src/board/mod.rs", "fn answered() {}\n"),
    ];
    let wrong = replaced_words(&files);
    let found: Vec<_> = wrong
        .iter()
        .map(|it| it.split(": ").take(2).collect::<Vec<_>>())
        .collect();
    let expected = [
        "src/a.rs:2 gate",
        "src/a.rs:4 told",
        "src/a.rs:6 fate",
        "src/a.rs:6 asked",
        "src/a.rs:7 lane",
        "src/lua/a.lua:2 answer",
        "src/lua/a.lua:3 answers",
        "src/lua/a.lua:3 fate",
        "src/board/mod.rs:0 board",
    ];
    let expected = expected.map(|it| it.split(' ').collect::<Vec<_>>());
    assert_eq!(found, expected, "{wrong:#?}");
}

#[test]
fn partial_options_are_found() {
    let text = "pub struct AOptions {\n    /// One: of them,\n    pub a: Option<u8>,\n    b: Option<u8>,\n}\n\
                struct BOptions {\n    a: Option<u8>,\n    b: u8,\n}\npub struct CChoices {\n    \
                a: Option<u8>,\n    b: Option<u8>,\n}\nstruct DOptions(Option<u8>);\n";
    let wrong = partial_options(&[File::new("src/a.rs", text)]);
    assert_eq!(wrong, ["src/a.rs:1: AOptions is partial"]);
}
