//! The guides as documentation of Rust and as a site: their links lead somewhere in both.
//!
//! A guide writes `[text][label]`, and defines its labels at its end, for the repository. In the
//! documentation of Rust `links.md` comes first, and its definitions win; it is made of those of
//! the guides. `.ci/site` makes a site of the same files.

use std::collections::BTreeMap;

use super::files::File;
use super::links::{definitions, targets};

/// Where items are documented once a version is released.
const ITEMS: &str = "https://docs.rs/duly/latest/duly/";

/// The definitions of all guides as they are in the documentation of Rust, a line each, and what is
/// wrong with them.
pub(crate) fn rust_definitions(guides: &[File]) -> (String, Vec<String>) {
    let mut all: BTreeMap<&str, String> = BTreeMap::new();
    let mut wrong = Vec::new();
    for guide in guides {
        for (number, label, target) in definitions(&guide.text) {
            let here = format!("{}:{number}", guide.path);
            if target.starts_with("pictures/") {
                continue; // see `pictures`
            }
            let Some(there) = rust_target(target) else {
                wrong.push(format!("{here}: {target} is not in Rust's documentation"));
                continue;
            };
            let first = all.entry(label).or_insert_with(|| there.clone());
            if *first != there {
                wrong.push(format!("{here}: another guide leads [{label}] to {first}"));
            }
        }
    }
    let lines = all.iter().map(|(label, to)| format!("[{label}]: {to}\n"));
    (lines.collect(), wrong)
}

/// Where a definition of a guide leads in the documentation of Rust.
fn rust_target(target: &str) -> Option<String> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    if let Some(item) = path.strip_prefix(ITEMS) {
        let mut parts: Vec<&str> = item.strip_suffix(".html")?.split('/').collect();
        let last = parts.pop()?;
        parts.extend(last.split_once('.').map(|(_, name)| name));
        parts.extend(anchor.split_once('.').map(|(_, member)| member));
        return Some(format!("crate::{}", parts.join("::")));
    }
    if target.contains("://") {
        return Some(target.to_owned());
    }
    let page = path
        .strip_suffix(".md")
        .filter(|page| !page.contains('/'))?;
    let hash = if anchor.is_empty() { "" } else { "#" };
    Some(format!("crate::_docs::{page}{hash}{anchor}"))
}

/// The pictures of a guide as definitions that have the pictures in them, since the documentation
/// of Rust has no files beside its pages; `bytes` reads a picture.
pub(crate) fn pictures(guide: &File, bytes: impl Fn(&str) -> Vec<u8>) -> String {
    let pictures = definitions(&guide.text).filter(|(_, _, to)| to.starts_with("pictures/"));
    let lines = pictures.map(|(_, label, to)| {
        let data = base64(&bytes(to));
        format!("[{label}]: data:image/svg+xml;base64,{data}\n")
    });
    lines.collect()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = char::from(DIGITS[(bits >> (18 - 6 * at)) as usize & 63]);
            text.push(if at <= three.len() { digit } else { '=' });
        }
    }
    text
}

/// What of a guide is right in the repository and not in the documentation of Rust: links to files
/// in the text itself, and lines of examples that only that documentation hides.
pub(crate) fn broken_in_rust(guides: &[File]) -> Vec<String> {
    let mut broken = Vec::new();
    for guide in guides {
        let defined: Vec<_> = definitions(&guide.text).map(|(at, ..)| at).collect();
        for (number, target) in targets(&guide.text) {
            if !target.starts_with('#') && !target.contains("://") && !defined.contains(&number) {
                broken.push(format!(
                    "{}:{number}: give {target} a label, and define that at the end",
                    guide.path
                ));
            }
        }
        let mut is_rust = false;
        for (line, number) in guide.text.lines().zip(1..) {
            if let Some(kind) = line.strip_prefix("```") {
                is_rust = kind.starts_with("rust");
            } else if is_rust && (line.trim() == "#" || line.trim_start().starts_with("# ")) {
                broken.push(format!(
                    "{}:{number}: is hidden in one place only",
                    guide.path
                ));
            }
        }
    }
    broken
}

/// Documents to which a page of the site leads and which are no pages themselves: mdbook would make
/// pages of their names. `summary` lists the pages, relative to its folder.
pub(crate) fn no_pages(summary: &File, read: impl Fn(&str) -> File) -> Vec<String> {
    let folder = summary.folder();
    let listed = targets(&summary.text).into_iter();
    let pages: Vec<_> = listed
        .map(|(_, to)| super::links::joined(folder, to))
        .collect();
    let mut missing = Vec::new();
    for page in &pages {
        let page = read(page);
        for (number, target) in targets(&page.text) {
            let path = target.split_once('#').map_or(target, |(path, _)| path);
            let path = super::links::joined(page.folder(), path);
            if target.ends_with(".md") && !target.contains("://") && !pages.contains(&path) {
                missing.push(format!(
                    "{}:{number}: {path} is no page of {}",
                    page.path, summary.path
                ));
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_lead_to_the_same_in_rust() {
        let text = format!(
            "[b]: b.md#second\n[c]: https://example.org\n[`Bus`]: {ITEMS}struct.Bus.html\n\
             [`Bus::queue`]: {ITEMS}struct.Bus.html#method.queue\n[p]: pictures/p.svg\n\
             [`config`]: {ITEMS}config/index.html\n[`outside`]: {ITEMS}testing/fn.outside.html\n"
        );
        let guide = File::new("src/docs/a.md", &text);
        let bytes = |path: &str| path.as_bytes()[9..].to_vec();
        assert_eq!(
            pictures(&guide, bytes),
            "[p]: data:image/svg+xml;base64,cC5zdmc=\n"
        );
        let (lines, wrong) = rust_definitions(&[guide]);
        assert_eq!(
            lines,
            "[`Bus::queue`]: crate::Bus::queue\n[`Bus`]: crate::Bus\n\
             [`config`]: crate::config\n[`outside`]: crate::testing::outside\n\
             [b]: crate::_docs::b#second\n[c]: https://example.org\n"
        );
        assert_eq!(wrong, [""; 0]);
    }

    #[test]
    fn a_label_with_two_meanings_and_one_that_leads_out_of_the_guides_are_found() {
        let one = File::new("a.md", "[b]: b.md\n[r]: ../../README.md\n");
        let other = File::new("b.md", "[b]: b.md#first\n");
        assert_eq!(
            rust_definitions(&[one, other]).1,
            [
                "a.md:2: ../../README.md is not in Rust's documentation",
                "b.md:1: another guide leads [b] to crate::_docs::b",
            ]
        );
    }

    #[test]
    fn a_link_without_a_label_and_a_hidden_line_are_found() {
        let text = "[here](#head) [there](b.md) [c]\n```rust\n    # hidden\n#[test]\n```\n\
                    ```toml\n# a comment\n```\n[c]: c.md\n";
        assert_eq!(
            broken_in_rust(&[File::new("a.md", text)]),
            [
                "a.md:1: give b.md a label, and define that at the end",
                "a.md:3: is hidden in one place only",
            ]
        );
    }

    #[test]
    fn a_document_that_is_no_page_is_found() {
        let summary = File::new("docs/SUMMARY.md", "[a](a.md) [r](../README.md)\n");
        let read = |path: &str| File::new(path, "[a](docs/a.md) [b](b.md) [c](c.rs)\n");
        assert_eq!(
            no_pages(&summary, read),
            [
                "docs/a.md:1: docs/docs/a.md is no page of docs/SUMMARY.md",
                "docs/a.md:1: docs/b.md is no page of docs/SUMMARY.md",
                "README.md:1: b.md is no page of docs/SUMMARY.md",
            ]
        );
    }

    #[test]
    fn base64_is_that_of_everybody() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
