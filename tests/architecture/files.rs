//! The files of the project, and what of a file is code.

use std::fs;
use std::path::Path;

/// A file, by its path from the root of the project.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    pub(crate) fn read(path: &str) -> Self {
        Self::new(path, &fs::read_to_string(root().join(path)).expect(path))
    }

    /// The folder that it is in, without a slash at the end.
    pub(crate) fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether it is `place`, or lies in it.
    pub(crate) fn is_in(&self, place: &str) -> bool {
        let rest = self.path.strip_prefix(place);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Its numbered lines, without comments and without what is compiled for tests only.
    pub(crate) fn code(&self) -> Vec<(usize, &str)> {
        let mut code = Vec::new();
        if !self.is_rust() || self.path.ends_with("/tests.rs") {
            return code;
        }
        let mut lines = self.text.lines().zip(1..);
        while let Some((line, number)) = lines.next() {
            let text = line.trim_start();
            if text.starts_with("#[cfg(test)]") || text.starts_with("#[cfg(all(test") {
                let indent = &line[..line.len() - text.len()];
                let item = lines.find(|(line, _)| !line.trim_start().starts_with("#["));
                if item.is_some_and(|(line, _)| !line.ends_with([';', '}'])) {
                    // The brace that ends the item stands, by rustfmt, right under its beginning.
                    lines.find(|(line, _)| line.strip_prefix(indent).is_some_and(ends_item));
                }
            } else {
                code.push((number, without_comment(line)));
            }
        }
        code
    }
}

fn ends_item(line: &str) -> bool {
    line.starts_with('}')
}

/// `line` up to its comment; the slashes of an address in a text are none.
fn without_comment(line: &str) -> &str {
    let mut slashes = line.match_indices("//").map(|(at, _)| at);
    let comment = slashes.find(|at| !line[..*at].ends_with(':'));
    &line[..comment.unwrap_or(line.len())]
}

/// Where `word` stands in `line` by itself, not as a part of a longer name.
pub(crate) fn words<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let found = line.match_indices(word).map(|(at, _)| at);
    found.filter(move |at| {
        let goes_on = word.ends_with(is_name) && line[at + word.len()..].starts_with(is_name);
        !line[..*at].ends_with(is_name) && !goes_on
    })
}

pub(crate) fn is_name(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust and Markdown file in some folders; a folder that is not there yet holds none.
pub(crate) fn project(folders: &[&str]) -> Vec<File> {
    let mut files = Vec::new();
    for folder in folders {
        let Ok(entries) = fs::read_dir(root().join(folder)) else {
            continue;
        };
        for entry in entries {
            let entry = entry.expect("a folder can be read");
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() && !path.ends_with("/target") {
                files.append(&mut project(&[&path]));
            } else if [".rs", ".md", ".lua"].iter().any(|end| path.ends_with(end)) {
                files.push(File::read(&path));
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path)); // a folder is read in any order
    files
}

#[test]
fn the_project_is_found() {
    let files = project(&["src"]);
    assert!(files.iter().any(|file| file.path == "src/error.rs"));
    assert!(files.iter().any(|file| file.path == "src/core/mod.rs"));
}

#[test]
fn comments_and_test_modules_are_no_code() {
    let file = File::new(
        "src/flow/mover.rs",
        "\
//! about `crate::bus`
use crate::architecture::store::Store; // not crate::architecture::bus
const AT: &str = \"http://here\";
#[cfg(test)]
use crate::architecture::testing::Clock;
#[cfg(test)]
#[allow(dead_code)]
mod tests {
    use crate::architecture::bus::Bus;
    fn a() {
    }
}
fn last() {}
",
    );
    let code = file.code().into_iter().filter(|(_, line)| !line.is_empty());
    let code: Vec<_> = code.collect();
    assert_eq!(
        code,
        [
            (2, "use crate::architecture::store::Store; "),
            (3, "const AT: &str = \"http://here\";"),
            (13, "fn last() {}"),
        ]
    );
}
