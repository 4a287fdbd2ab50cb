//! What each operation does, on made-up sources.

use std::path::PathBuf;

use super::list::{always, drop, drop_element, earlier, later, negate, never, put, put_in_text};
use crate::plant::tokens::{Language, tokens};
use crate::plant::tree::{File, Tree};
use crate::plant::{Edit, planted};

const RUST: &str = r#"
//! A file.

impl Queue {
    /// Says "take" where it does not.
    fn take(&mut self, wanted: usize) -> Option<Job> {
        if self.is_closed || wanted == 0 {
            return None; // take nothing
        }
        self.count(wanted, Kind::Taken);
        self.note();
        match self.next() {
            Some(job) if job.is_due() => Some(job),
            _ => None,
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.note();
    }
}

const READ: &str = "SELECT id \
    FROM jobs WHERE due <= ?1";
"#;

const LUA: &str = r#"
local seen = 0 -- if it is
local function take(id, limit)
  if seen >= limit or not id then
    return false
  end
  seen = seen + 1
  call("HDEL", BODY, id)
  note(id)
  return true
end
for _, id in ipairs(ids) do
  take(id, tonumber(ARGV[1]))
end
call("HSET", META, "seen", seen)
"#;

fn tree() -> Tree {
    let file = |(path, text): (&str, &str)| File::of(PathBuf::from(path), text.to_owned());
    let files = [("src/room/queue.rs", RUST), ("src/room/take.lua", LUA)];
    Tree::of(files.map(file).into())
}

/// Whether an edit puts one text in the place of another, and changes nothing else.
fn replaces(edit: Edit, old: &str, new: &str) {
    let tree = tree();
    let mut changed = planted(&[edit], &tree).expect("it can be planted");
    let changed = changed.remove(0);
    let (before, language) = if changed.path.ends_with("take.lua") {
        (LUA, Language::Lua)
    } else {
        (RUST, Language::Rust)
    };
    assert_eq!(before.matches(old).count(), 1, "{old}");
    let words = |text: &str| {
        let words = tokens(text, language).into_iter();
        words.map(|word| word.text.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        words(&changed.text),
        words(&before.replace(old, new)),
        "{edit:?}"
    );
}

/// Whether an edit is not made, for this reason.
fn is_refused(edit: Edit, why: &str) {
    let refused = planted(&[edit], &tree()).err().unwrap_or_default();
    assert!(refused.contains(why), "{edit:?}: {refused:?}");
}

#[test]
fn statements_and_elements_are_left_out() {
    let count = "self.count(wanted, Kind::Taken);";
    replaces(drop("Queue::take", "count"), count, "");
    replaces(drop("Queue::take", "Kind::Taken"), count, "");
    let call = r#"call("HDEL", BODY, id)"#;
    replaces(drop("lua::take", r#""HDEL""#), call, "");
    replaces(
        drop("take.lua", "META"),
        r#"call("HSET", META, "seen", seen)"#,
        "",
    );
    replaces(drop_element("Queue::take", "Kind"), ", Kind::Taken)", ")");
    replaces(
        drop_element("take.lua", "tonumber"),
        ", tonumber(ARGV[1])",
        "",
    );
}

#[test]
fn conditions_are_changed() {
    let is_due = "if job.is_due()";
    replaces(
        never("Queue::take", "is_due"),
        is_due,
        "if false && job.is_due()",
    );
    let closed = "self.is_closed || wanted == 0";
    replaces(
        never("Queue::take", "is_closed"),
        closed,
        &format!("false && ({closed})"),
    );
    replaces(
        always("Queue::take", "is_closed"),
        closed,
        &format!("true || ({closed})"),
    );
    replaces(
        negate("Queue::take", "is_closed"),
        closed,
        &format!("!({closed})"),
    );
    let seen = "seen >= limit or not id";
    replaces(
        never("lua::take", "$ >= $"),
        seen,
        &format!("false and ({seen})"),
    );
    replaces(
        negate("lua::take", "$ >= $"),
        seen,
        &format!("not ({seen})"),
    );
}

#[test]
fn statements_change_places() {
    let (count, note) = ("self.count(wanted, Kind::Taken);", "self.note();");
    let (old, new) = (
        format!("{count}\n        {note}"),
        format!("{note} {count}"),
    );
    replaces(later("Queue::take", "count", "note"), &old, &new);
    replaces(earlier("Queue::take", "note", "count"), &old, &new);
    let (call, note) = (r#"call("HDEL", BODY, id)"#, "note(id)");
    let (old, new) = (format!("{call}\n  {note}"), format!("{note} {call}"));
    replaces(later("lua::take", "BODY", "note"), &old, &new);
}

#[test]
fn patterns_know_no_locals() {
    replaces(
        put("Queue::take", "count(«$wanted», $..)", "0"),
        "count(wanted",
        "count(0",
    );
    let last = "$limit: usize $... Some($job) if «$job.is_due()»";
    let put_last = put("Queue::take", last, "$limit > 1");
    replaces(put_last, "if job.is_due()", "if wanted > 1");
    let seen = put("lua::take", "«$seen =» $seen + 1", "$seen = 1 +");
    replaces(seen, "seen = seen + 1", "seen = 1 + seen + 1");
    replaces(
        put_in_text("READ", "due «<=» ?1", "<"),
        "due <= ?1",
        "due < ?1",
    );
}

#[test]
fn what_is_in_doubt_is_refused() {
    is_refused(drop("Queue::give", "note"), "nowhere");
    is_refused(drop("note", "note"), "nowhere"); // it is called, and is elsewhere
    is_refused(drop("Queue::take", "notes"), "no Statement has that");
    is_refused(drop("Queue::take", "None"), "several have that");
    is_refused(put("Queue::take", "None", "Some"), "2 times");
    is_refused(put("Queue::take", "count", "$other"), "no name $other");
    replaces(
        drop("<Queue as Drop>::drop", "note"),
        "fn drop(&mut self) {\n        self.note();",
        "fn drop(&mut self) {",
    );
}
