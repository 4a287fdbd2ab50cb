//! Names of types and of variants: nouns, in the words of the project's field.

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
fn partial_options_are_found() {
    let text = "pub struct AOptions {\n    /// One: of them,\n    pub a: Option<u8>,\n    b: Option<u8>,\n}\n\
                struct BOptions {\n    a: Option<u8>,\n    b: u8,\n}\npub struct CChoices {\n    \
                a: Option<u8>,\n    b: Option<u8>,\n}\nstruct DOptions(Option<u8>);\n";
    let wrong = partial_options(&[File::new("src/a.rs", text)]);
    assert_eq!(wrong, ["src/a.rs:1: AOptions is partial"]);
}
