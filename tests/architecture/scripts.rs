//! Scripts of Redis: a server does nothing else while one runs, so what a loop does and what a command
//! reads or takes has a bound, which stands beside it.
//!
//! A loop over a list has that of the list, which was read or is of the arguments; so has one that
//! counts up to its length. Any other loop says its bound by a constant, or in a comment beside it.

use crate::architecture::files::File;
use crate::plant::tokens::{Language, Token, tokens};

/// Commands that return all of a key.
const OF_ALL: [&str; 5] = [
    "\"HGETALL\"",
    "\"HKEYS\"",
    "\"HVALS\"",
    "\"SMEMBERS\"",
    "\"KEYS\"",
];

/// Words of commands that return as much of a key as they find, unless they have a limit.
const OF_A_RANGE: [&str; 8] = [
    "\"BYSCORE\"",
    "\"BYLEX\"",
    "\"XRANGE\"",
    "\"XREVRANGE\"",
    "\"HSCAN\"",
    "\"SSCAN\"",
    "\"ZSCAN\"",
    "\"SCAN\"",
];

/// Words of commands that remove as much of a key as they find.
const OF_A_TRIM: [&str; 6] = [
    "\"MINID\"",
    "\"MAXLEN\"",
    "\"LTRIM\"",
    "\"ZREMRANGEBYRANK\"",
    "\"ZREMRANGEBYSCORE\"",
    "\"ZREMRANGEBYLEX\"",
];

/// What is without its bound: of `while`, `repeat`, a `for` that is over no list, and of what reads all
/// of a key or a range of one, or removes it, it is a comment beside it; of `unpack`, whose results must fit on the stack of Lua, a constant.
pub(crate) fn without_bound(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".lua")) {
        let words = tokens(&file.text, Language::Lua);
        for (at, word) in words.iter().enumerate() {
            let number = file.text[..word.start].lines().count().max(1);
            let last = match word.text {
                "while" => until(&words, at, |word| word.text == "do"),
                "repeat" => at,
                "for" => {
                    let last = until(&words, at, |word| word.text == "do");
                    if is_bounded(&words[at..last]) {
                        continue;
                    }
                    last
                }
                text if OF_A_RANGE.contains(&text) => {
                    let last = until(&words, at, |it| it.closes());
                    let limits = ["\"LIMIT\"", "\"COUNT\""];
                    if words[at..last].iter().any(|it| limits.contains(&it.text)) {
                        continue;
                    }
                    last
                }
                text if OF_ALL.contains(&text) || OF_A_TRIM.contains(&text) => {
                    until(&words, at, |it| it.closes())
                }
                "0" if is(&words[at + 1..], &[",", "-", "1", ")"]) => at + 4,
                "unpack" if is(&words[at + 1..], &["("]) => {
                    let end = until(&words, at + 2, |it| it.closes());
                    let mut arguments = words[at..end].iter();
                    if !arguments.any(|word| matches!(word.text, "CHUNK" | "AT_ONCE")) {
                        wrong.push(format!("{}:{number}: unpacks any number", file.path));
                    }
                    continue;
                }
                _ => continue,
            };
            if !is_commented(&file.text, &words, at, last) {
                wrong.push(format!("{}:{number}: has no bound beside it", file.path));
            }
        }
    }
    wrong
}

/// Where a script counts: an argument or a key by its place, which a table has by its name. A script
/// in a text of Rust names them by its locals.
pub(crate) fn counted(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".lua")) {
        let words = tokens(&file.text, Language::Lua);
        for (at, word) in words.iter().enumerate() {
            let next = words.get(at + 1);
            if matches!(word.text, "ARGV" | "KEYS") && next.is_some_and(|it| it.text == "[") {
                let number = file.text[..word.start].lines().count().max(1);
                wrong.push(format!("{}:{number}: counts; name it", file.path));
            }
        }
    }
    for file in files
        .iter()
        .filter(|file| file.is_rust() && !is_of_tests(&file.path))
    {
        for (number, line) in file.code() {
            if counts_in(line) {
                wrong.push(format!("{}:{number}: counts; name it", file.path));
            }
        }
    }
    wrong
}

fn is_of_tests(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

fn counts_in(text: &str) -> bool {
    ["ARGV[", "KEYS["].iter().any(|table| {
        let mut behind = text
            .match_indices(table)
            .map(|(at, it)| &text[at + it.len()..]);
        behind.any(|it| it.trim_start().starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// Where texts are compared by their order, which follows the locale of the server: beside a literal,
/// and in a sort without an order of its own.
pub(crate) fn ordered_texts(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".lua")) {
        let words = tokens(&file.text, Language::Lua);
        for (at, word) in words.iter().enumerate() {
            let is_wrong = match word.text {
                "<" | ">" => {
                    let next = at + 1 + usize::from(is(&words[at + 1..], &["="]));
                    let beside = [words.get(at.wrapping_sub(1)), words.get(next)];
                    beside.into_iter().flatten().any(is_text)
                }
                "sort" if is(&words[at + 1..], &["("]) => {
                    let end = until(&words, at + 2, |it| it.closes() || it.text == ",");
                    words[end].closes()
                }
                _ => false,
            };
            if is_wrong {
                let number = file.text[..word.start].lines().count().max(1);
                wrong.push(format!("{}:{number}: orders texts by a locale", file.path));
            }
        }
    }
    wrong
}

fn is_text(word: &Token<'_>) -> bool {
    word.text.starts_with(['"', '\'']) || word.text.starts_with("[[")
}

/// Whether the words of a `for`, without its `do`, say its bound: a list, its length, or a constant.
fn is_bounded(words: &[Token<'_>]) -> bool {
    let texts: Vec<_> = words.iter().map(|word| word.text).collect();
    let is_constant = |text: &&str| {
        text.bytes().all(|it| it.is_ascii_digit())
            || (text.len() > 1 && text.bytes().all(|it| it == b'_' || it.is_ascii_uppercase()))
    };
    match texts.iter().position(|text| matches!(*text, "in" | "=")) {
        Some(at) if texts[at] == "in" => matches!(texts.get(at + 1), Some(&("ipairs" | "pairs"))),
        Some(at) => {
            let first = until(words, at, |word| word.text == ",") + 1;
            let rest = &words[first..];
            let comma = until(rest, 0, |word| word.text == ",");
            let has_step = rest.get(comma).is_some_and(|word| word.text == ",");
            let most = &texts[first..if has_step { first + comma } else { texts.len() }];
            let is_number = most.len() == 1 && most.iter().all(is_constant);
            let mut named = most.iter().filter(|text| text.len() > 1);
            most.contains(&"#") || is_number || named.any(is_constant)
        }
        None => false,
    }
}

fn is(words: &[Token<'_>], expected: &[&str]) -> bool {
    let words = words.iter().map(|word| word.text);
    words.take(expected.len()).eq(expected.iter().copied())
}

/// The first such word from there on that is in no brackets.
fn until(words: &[Token<'_>], from: usize, is_it: impl Fn(&Token<'_>) -> bool) -> usize {
    let mut depth = 0_usize;
    let mut found = words
        .iter()
        .enumerate()
        .skip(from)
        .filter_map(|(at, word)| {
            let is_end = depth == 0 && is_it(word);
            depth += usize::from(word.opens());
            depth = depth.saturating_sub(usize::from(word.closes()));
            is_end.then_some(at)
        });
    found.next().unwrap_or(words.len() - 1)
}

/// Whether a comment is between two words, or on the line of the second one behind it.
fn is_commented(text: &str, words: &[Token<'_>], from: usize, last: usize) -> bool {
    let line = text[words[last].end()..].lines().next().unwrap_or_default();
    let line_end = words[last].end() + line.len();
    let mut gaps = (from..words.len()).take_while(|at| words[*at].end() <= line_end);
    gaps.any(|at| {
        let next = words.get(at + 1).map_or(text.len(), |next| next.start);
        let end = if at >= last { next.min(line_end) } else { next };
        let said = text[words[at].end()..end].split_once("--");
        said.is_some_and(|(_, said)| !said.trim().is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> usize {
        without_bound(&[File::new("a.lua", text)]).len()
    }

    #[test]
    fn a_loop_without_a_bound_is_found() {
        assert_eq!(complaints("while true do\nend\n  repeat\n until it\n"), 2);
        let bounded = "while true do -- a thousand at most\nend\nrepeat -- twice\nuntil it\n";
        assert_eq!(complaints(bounded), 0);
        let broken = "while it -- a thousand at most\n  and true\ndo\nend\n";
        assert_eq!(complaints(broken), 0);
    }

    #[test]
    fn a_loop_that_counts_to_anything_is_found() {
        assert_eq!(complaints("for i = 1, count do\nend\n"), 1);
        assert_eq!(complaints("for i = 1, count, CHUNK do\nend\n"), 1);
        assert_eq!(complaints("for batch in batches_of(me) do\nend\n"), 1);
        assert_eq!(complaints("for i = 1, count do -- of the call\nend\n"), 0);
        let bounded = [
            "1, #list",
            "1, 7",
            "from, CLASSES - 1",
            "1, math.min(count, EACH_MAX)",
        ];
        for bound in bounded {
            assert_eq!(
                complaints(&format!("for i = {bound} do\nend\n")),
                0,
                "{bound}"
            );
        }
        assert_eq!(complaints("for i, it in ipairs(list) do\nend\n"), 0);
    }

    #[test]
    fn a_read_of_any_part_is_found() {
        let read = "call(\"ZRANGE\", DELAY, 0, now, \"BYSCORE\"";
        assert_eq!(complaints(&format!("{read})\n")), 1);
        assert_eq!(complaints(&format!("{read}, \"LIMIT\", 0, 9)\n")), 0);
        assert_eq!(complaints("call(\"XRANGE\", OUTBOX, \"-\", \"+\")\n"), 1);
        assert_eq!(complaints("call(\"HSCAN\", STATE, cursor)\n"), 1);
    }

    #[test]
    fn a_read_of_everything_is_found() {
        assert_eq!(complaints("call(\"HGETALL\", NODES)\n"), 1);
        assert_eq!(complaints("call(\"LRANGE\", PAST, 0, -1)\n"), 1);
        assert_eq!(complaints("call(\n\"LRANGE\", PAST, 0,\n-1)\n"), 1);
        assert_eq!(complaints("call(\"LRANGE\", PAST, 0, 9)\n"), 0);
        assert_eq!(complaints("call(\"HGETALL\",\n NODES) -- few\n"), 0);
    }

    #[test]
    fn a_removal_of_any_number_is_found() {
        assert_eq!(
            complaints("call(\"XTRIM\", OUTBOX, \"MINID\", \"=\", 9)\n"),
            1
        );
        assert_eq!(complaints("call(\"LTRIM\", READY, gone, -1)\n"), 1);
        let bounded = "call(\"XADD\", OUTBOX, \"MINID\", \"=\", 9, -- few\n id, \"r\", 1)\n";
        assert_eq!(complaints(bounded), 0);
    }

    #[test]
    fn what_is_counted_is_found() {
        let counts = |text: &str| counted(&[File::new("a.lua", text)]).len();
        assert_eq!(counts("local id, key = ARGV[4], KEYS[1]\n"), 2);
        assert_eq!(
            counts("local id = ARGV.id[at] -- not ARGV[4]\nlook(#ARGV, META)\n"),
            0
        );
        let counts = |text: &str| counted(&[File::new("server/src/a.rs", text)]).len();
        assert_eq!(
            counts("run(\"return {KEYS[1],\n  ARGV[ 2]}\", r#\"ARGV[1]\"#)\n"),
            2
        );
        assert_eq!(
            counts("/// `ARGV[1]`\nrun(\"for at = 1, #ARGV do f(ARGV[at]) end\")\n"),
            0
        );
    }

    #[test]
    fn an_order_of_texts_is_found() {
        let orders = |text: &str| ordered_texts(&[File::new("a.lua", text)]).len();
        assert_eq!(
            orders("local is_over = it.kind >= \"a\" or 'b' > kind\n"),
            2
        );
        assert_eq!(
            orders("return it.kind == \"a\" or #kind < 4 or f(\"a\") < 3\n"),
            0
        );
        assert_eq!(orders("table.sort(names)\ntable.sort(read(\"a\", 2))\n"), 2);
        let own = "table.sort(nodes, function(a, b)\n  return a.high < b.high\nend)\n";
        assert_eq!(orders(own), 0);
    }

    #[test]
    fn an_unpack_of_any_number_is_found() {
        assert_eq!(complaints("call(\"HSET\", STATE, unpack(all))\n"), 1);
        let bounded = "call(\"HSET\", STATE, unpack(all, 1, CHUNK))\n";
        assert_eq!(complaints(bounded), 0);
    }
}
