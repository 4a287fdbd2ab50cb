//! Names in Lua, put in by their places: a script is as fast as one that counts.

/// An upper bound of record numbers. An outbox that keeps so many records drops none, and pushes are
/// refused where as many wait as are beyond it.
pub(in crate::store::redis) const RECORDS_END: u64 = 1 << 40;

/// The arguments with which the calls of many scripts begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::redis) enum Head {
    /// Of a script on the keys of all nodes: none.
    Hub,
    /// Of a script on a bucket: the time.
    Bucket,
    /// Of a script that can end events: also the dedup window, and how many records are kept; with a
    /// `-` where the caller has no limit of its own.
    Ending,
}

impl Head {
    /// Their names.
    pub(in crate::store::redis) fn names(self) -> &'static [&'static str] {
        match self {
            Self::Hub => &[],
            Self::Bucket => &["now"],
            Self::Ending => &["now", "window", "records_max"],
        }
    }
}

/// The names of a table.
#[derive(Clone, Copy, Debug)]
pub(in crate::store::redis) struct Names {
    pub(in crate::store::redis) head: Head,
    pub(in crate::store::redis) arguments: &'static [&'static str],
    /// Those of each kind of row.
    pub(in crate::store::redis) rows: &'static [&'static [&'static str]],
    pub(in crate::store::redis) reply: &'static [&'static str],
}

/// Returns `text` with the places of the arguments, of the values of rows, and of the reply's fields
/// in place of their names; `table` has them. A name that is in no table stays as it is.
pub(super) fn placed(text: &str, table: &Names) -> String {
    let arguments = |text: &str| {
        let (name, rest) = word(text);
        Some(
            match (place_of_argument(table, name)?, rest.split_once(']')) {
                (Place::Of(place), _) => (place, rest.to_owned()),
                (Place::Column(_, offset), Some((row, rest))) if row.starts_with('[') => {
                    let row = &row[1..];
                    let at = if offset == 0 {
                        format!("ARGV[{row}]")
                    } else {
                        format!("ARGV[{row} + {offset}]")
                    };
                    (at, rest.to_owned())
                }
                (Place::Column(first, offset), _) => {
                    (format!("ARGV[{}]", first + offset), rest.to_owned())
                }
            },
        )
    };
    reply_placed(&replaced(text, "ARGV.", arguments), table.reply)
}

/// The same of a reply alone.
pub(in crate::store::redis) fn reply_placed(text: &str, fields: &[&str]) -> String {
    let place = |name: &str| fields.iter().position(|field| *field == name);
    let text = replaced(text, "REPLY.", |text| {
        let (name, rest) = word(text);
        Some(((place(name)? + 1).to_string(), rest.to_owned()))
    });
    replaced(&text, "REPLY {", |text| {
        let (given, rest) = list(text)?;
        let mut values = vec![None; fields.len()];
        for value in given {
            let (name, value) = value.split_once('=')?;
            *values.get_mut(place(name.trim())?)? = Some(value.trim().to_owned());
        }
        let values: Option<Vec<String>> = values.into_iter().collect();
        Some((format!("{{ {} }}", values?.join(", ")), rest.to_owned()))
    })
}

enum Place {
    Of(String),
    /// The place of the first row, and that within a row.
    Column(usize, usize),
}

fn place_of_argument(table: &Names, name: &str) -> Option<Place> {
    let mut all = table.head.names().iter().chain(table.arguments);
    if let Some(at) = all.position(|known| *known == name) {
        return Some(Place::Of(format!("ARGV[{}]", at + 1)));
    }
    let first = table.head.names().len() + table.arguments.len() + 1;
    match name {
        "rest" => return Some(Place::Of(first.to_string())),
        "width" => return Some(Place::Of(table.rows.first()?.len().to_string())),
        _ => {}
    }
    let mut rows = table.rows.iter();
    let offset = rows.find_map(|row| row.iter().position(|known| *known == name))?;
    Some(Place::Column(first, offset))
}

/// Replaces what follows each `mark`, together with it, where `by` returns what to put and the rest.
fn replaced(text: &str, mark: &str, by: impl Fn(&str) -> Option<(String, String)>) -> String {
    let (mut done, mut rest) = (String::with_capacity(text.len()), text.to_owned());
    while let Some((before, after)) = rest.split_once(mark) {
        done.push_str(before);
        rest = match by(after) {
            Some((put, rest)) => {
                done.push_str(&put);
                rest
            }
            None => {
                done.push_str(mark);
                after.to_owned()
            }
        };
    }
    done + &rest
}

fn word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    text.split_at(end.unwrap_or(text.len()))
}

/// Splits a list at its commas, up to the brace that ends it; the text behind that, too.
fn list(text: &str) -> Option<(Vec<&str>, &str)> {
    let (mut depth, mut from, mut items, mut quote) = (0, 0, Vec::new(), None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if open != c => continue,
            (Some(_), _) => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '{' | '[') => depth += 1,
            (None, '}') if depth == 0 => {
                items.push(&text[from..at]);
                items.retain(|item| !item.trim().is_empty());
                return Some((items, &text[at + 1..]));
            }
            (None, ')' | '}' | ']') => depth -= 1,
            (None, ',') if depth == 0 => {
                items.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Names = Names {
        head: Head::Bucket,
        arguments: &["limit", "by"],
        rows: &[&["id", "body"], &["none", "its"]],
        reply: &["now", "done", "more"],
    };

    #[test]
    fn names_become_places() {
        for (named, at) in [
            ("ARGV.now", "ARGV[1]"),
            ("f(ARGV.limit, ARGV.by)", "f(ARGV[2], ARGV[3])"),
            (
                "for i = ARGV.rest, #ARGV, ARGV.width do",
                "for i = 4, #ARGV, 2 do",
            ),
            (
                "ARGV.id[i] .. ARGV.body[i + 2]",
                "ARGV[i] .. ARGV[i + 2 + 1]",
            ),
            ("ARGV.body .. ARGV.its[at]", "ARGV[5] .. ARGV[at + 1]"),
            ("answer[REPLY.more] = 1", "answer[3] = 1"),
            (
                "return REPLY { done = f(a, \"}\"), more = { 1, 2 }, now = now }",
                "return { now, f(a, \"}\"), { 1, 2 } }",
            ),
        ] {
            assert_eq!(placed(named, &TABLE), at);
        }
    }

    /// It is an error that the test of all scripts finds.
    #[test]
    fn a_name_that_is_in_no_table_stays() {
        for text in ["ARGV.limits", "REPLY.moer", "REPLY { now = now, more = 1 }"] {
            assert_eq!(placed(text, &TABLE), text);
        }
    }
}
