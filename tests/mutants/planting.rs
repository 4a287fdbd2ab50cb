//! Bugs that are planted together: each is there when its name is on, and at no other time.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::list::{always, drop, put, put_in_text};
use crate::plant::tree::File;
use crate::plant::variants::{Bug, SWITCH, Variants, variants};
use crate::plant::{Edit, Tree};

/// A program with functions of each kind, which prints what each of them returns.
const PROGRAM: &str = r##"
use std::fmt::Display;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const LIMIT: usize = 3;

const fn constant() -> usize {
    LIMIT
}

async fn later(owned: String) -> Result<usize, std::num::ParseIntError> {
    let more = async { 1 }.await;
    let read: usize = owned.parse()?;
    Ok(read + more)
}

fn both<T: Display, const N: usize>(values: [T; N]) -> String
where
    T: Clone,
{
    fn inner(text: &str) -> String {
        text.to_uppercase()
    }
    let all: Vec<String> = values.iter().map(|one| one.to_string()).collect();
    inner(&all.join("+"))
}

fn numbers(limit: usize) -> impl Iterator<Item = usize> {
    (0..limit).chain(7..8)
}

fn closures(limit: usize) -> impl Iterator<Item = usize> {
    (0..limit).map(|it| it * 2)
}

trait Speaks {
    fn name(&self) -> String;
    fn says(&mut self) -> String {
        format!("I am {}", self.name())
    }
}

struct Dog<'a>(&'a str, u8);

impl Speaks for Dog<'_> {
    fn name(&self) -> String {
        self.0.to_owned()
    }
}

impl<'a> Dog<'a> {
    fn called(&mut self) -> &'a str {
        if self.1 > 5 {
            return "old";
        }
        self.1 += 1;
        self.0
    }
}

fn first(count: usize) -> bool {
    count > 1
}

fn second(count: usize) -> bool {
    count > 1
}

fn assemble(name: &str, libraries: &[&str], source: &str) -> String {
    [name, &libraries.concat(), source].concat()
}

fn main() {
    let mut waiting = pin!(later("41".to_owned()));
    let Poll::Ready(read) = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("it waits");
    };
    let mut dog = Dog("rex", 5);
    println!("later {read:?}");
    println!("both {} {}", both([1, 2]), both(["a"]));
    println!("numbers {:?}", numbers(2).collect::<Vec<_>>());
    println!("closures {:?}", closures(2).collect::<Vec<_>>());
    println!("says {}", dog.says());
    println!("called {} {}", dog.called(), dog.called());
    println!("pair {} {}", first(1), second(1));
    println!("script {}", assemble("s:\n", &[LIBRARY], SCRIPT));
    println!("constant {}", constant());
}
"##;

const LIBRARY: &str = "local function seen(id)\n  return id\nend\n";
const SCRIPT: &str = "note(\"a\")\nreturn seen(1)\n";

fn tree() -> Tree {
    let file = |(path, text): (&str, &str)| File::of(PathBuf::from(path), text.to_owned());
    let files = [
        ("src/source.rs", PROGRAM),
        ("src/library.lua", LIBRARY),
        ("src/script.lua", SCRIPT),
    ];
    Tree::of(files.map(file).into())
}

fn together(bugs: &[(&str, &[Edit])]) -> Variants {
    let bugs = bugs.iter().map(|(name, edits)| Bug {
        name: (*name).to_owned(),
        edits: edits.to_vec(),
    });
    variants(&bugs.collect::<Vec<_>>(), &tree())
}

/// What the program with these changes prints with each of the bugs on, and with none.
fn printed(all: &Variants, names: &[&str]) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("main.rs"), folder.path().join("main"));
    let [changed] = all.changed.as_slice() else {
        panic!("one file is changed");
    };
    let texts = format!("const LIBRARY: &str = {LIBRARY:?};\nconst SCRIPT: &str = {SCRIPT:?};\n");
    fs::write(&source, changed.text.clone() + &texts).expect("it can be written");
    let rustc = Command::new("rustc")
        .args(["--edition", "2024", "--cap-lints", "allow", "-o"])
        .args([&program, &source])
        .output();
    let rustc = rustc.expect("rustc can be started");
    assert!(
        rustc.status.success(),
        "{}",
        String::from_utf8_lossy(&rustc.stderr)
    );
    let run = |on: &&str| {
        let ran = Command::new(&program).env(SWITCH, on).output();
        let ran = ran.expect("it can be run");
        assert!(ran.status.success(), "{on}: {ran:?}");
        let text = String::from_utf8(ran.stdout).expect("it prints text");
        text.lines().map(str::to_owned).collect()
    };
    names.iter().map(run).collect()
}

#[test]
fn a_bug_is_there_when_it_is_on_and_at_no_other_time() {
    const FIRST: Edit = put("first", "$count > «1»", "0");
    let bugs: [(&str, &[Edit], &str, &str); 12] = [
        (
            "async",
            &[put("later", "$read + $more", "$read")],
            "later Ok(42)",
            "later Ok(41)",
        ),
        (
            "generics",
            &[put("both", "\"+\"", "\"-\"")],
            "both 1+2 A",
            "both 1-2 A",
        ),
        (
            "within",
            &[put("inner", "to_uppercase", "to_lowercase")],
            "both 1+2 A",
            "both 1+2 a",
        ),
        (
            "impl",
            &[put("numbers", "7..8", "9..10")],
            "numbers [0, 1, 7]",
            "numbers [0, 1, 9]",
        ),
        (
            "trait",
            &[put_in_text("Speaks::says", "am", "was")],
            "says I am rex",
            "says I was rex",
        ),
        (
            "one of a body",
            &[always("Dog::called", "self.1 > 5")],
            "called rex old",
            "called old old",
        ),
        (
            "another of it",
            &[drop("Dog::called", "self.1 += 1")],
            "called rex old",
            "called rex rex",
        ),
        ("masked", &[FIRST], "pair false false", "pair true false"),
        (
            "masked without its mask",
            &[FIRST, put("second", "$count > «1»", "0")],
            "pair false false",
            "pair true true",
        ),
        (
            "two places of a body",
            &[
                drop("Dog::called", "self.1 += 1"),
                put("Dog::called", "«self.0» }", "\"?\""),
            ],
            "called rex old",
            "called ? ?",
        ),
        (
            "script",
            &[drop("script.lua", "note")],
            "  note(\"a\")",
            "  ",
        ),
        (
            "library",
            &[put("lua::seen", "return «$id»", "nil")],
            "  return id",
            "  return nil",
        ),
    ];
    let all = together(&bugs.map(|(name, edits, ..)| (name, edits)));
    assert!(all.apart.is_empty(), "{:?}", all.apart);
    let names = bugs.map(|(name, ..)| name);
    let with = printed(&all, &[&["", "another"], &names[..]].concat());
    let [without, another, with @ ..] = with.as_slice() else {
        panic!("each is run");
    };
    assert_eq!(without, another);
    for ((name, _, old, new), with) in bugs.iter().zip(with) {
        let changed = without.iter().zip(with).filter(|(is, with)| is != with);
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let changed: Vec<_> = changed.map(|(is, with)| (words(is), words(with))).collect();
        assert_eq!(changed, [(words(old), words(new))], "{name}");
    }
}

#[test]
fn a_variant_is_where_it_is_said_to_be() {
    let all = together(&[
        ("one", &[put("closures", "it * 2", "it * 3")]),
        ("two", &[drop("Dog::called", "self.1 += 1")]),
        ("three", &[always("Dog::called", "self.1 > 5")]),
    ]);
    let text = &all.changed[0].text;
    let at = |place: usize| &text[all.places[place].bytes.clone()];
    assert!(
        at(0).contains("it * 3") && !at(0).contains("it * 2"),
        "{}",
        at(0)
    );
    assert!(
        !at(1).contains("+= 1") && at(2).contains("true || self.1 > 5"),
        "{text}"
    );
    let of_both = &text[all.places[1].body.clone()];
    assert_eq!(all.places[1].body, all.places[2].body);
    assert!(
        of_both.contains(at(1)) && of_both.contains(at(2)),
        "{of_both}"
    );
}

#[test]
fn what_is_no_part_of_a_body_is_planted_by_itself() {
    let all = together(&[
        ("constant", &[put("LIMIT", "3", "4")]),
        ("constant function", &[put("constant", "LIMIT", "4")]),
        ("in part", &[put("first", "1", "0"), put("LIMIT", "3", "4")]),
        ("nowhere", &[drop("nothing", "first")]),
    ]);
    assert_eq!(all.apart.len(), 4, "{:?}", all.apart);
    assert!(all.changed.is_empty() && all.places.is_empty());
}
