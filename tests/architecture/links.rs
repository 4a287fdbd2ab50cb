//! Links of the guides: each leads somewhere, in the repository and in the documentation of Rust.
//!
//! A guide writes `[text][label]`, and defines its labels at its end, for the repository. In the
//! documentation of Rust `links.md` comes first, and its definitions win.

use std::collections::BTreeMap;

use super::files::File;

/// Where items are documented once a version is released.
const ITEMS: &str = "https://docs.rs/duly/latest/duly/";

/// What is wrong with the links of these documents; `text` reads a file of the project.
pub(crate) fn dead_links(documents: &[File], text: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut dead = Vec::new();
    for document in documents {
        let folder = document
            .path
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        for (number, target) in targets(&document.text) {
            if target.contains("://") || target.starts_with("data:") {
                continue;
            }
            let here = format!("{}:{number}", document.path);
            if target.starts_with("crate::") {
                dead.push(format!(
                    "{here}: {target} is no link outside of Rust's documentation"
                ));
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let page = if path.is_empty() {
                Some(document.text.clone())
            } else {
                text(&joined(folder, path))
            };
            let Some(page) = page else {
                dead.push(format!("{here}: leads to {path}, which is not there"));
                continue;
            };
            if !anchor.is_empty() && !anchors(&page).any(|known| known == anchor) {
                dead.push(format!("{here}: {path} has no heading #{anchor}"));
            }
        }
    }
    dead
}

/// What is wrong with a guide in the documentation of Rust: labels that `links.md` lacks, or that
/// lead elsewhere there; and lines of examples that only that documentation hides.
pub(crate) fn broken_in_rust(guides: &[File], links: &str) -> Vec<String> {
    let known: BTreeMap<_, _> = definitions(links)
        .map(|(_, label, to)| (label, to))
        .collect();
    let mut broken = Vec::new();
    for guide in guides {
        for (number, label, target) in definitions(&guide.text) {
            let here = format!("{}:{number}", guide.path);
            let there = known.get(label).copied();
            let is_right = if target.starts_with(ITEMS) {
                there.is_some_and(|to| !to.starts_with("crate::_docs::"))
            } else {
                let page = format!("crate::_docs::{}", target.replacen(".md", "", 1));
                target.contains("://") || there == Some(&page)
            };
            if !is_right {
                broken.push(format!(
                    "{here}: links.md does not lead [{label}] there, too"
                ));
            }
        }
        let mut is_rust = false;
        for (line, number) in guide.text.lines().zip(1..) {
            if let Some(kind) = line.strip_prefix("```") {
                is_rust = kind.starts_with("rust");
            } else if is_rust && (line == "#" || line.starts_with("# ")) {
                broken.push(format!(
                    "{}:{number}: is hidden in one place only",
                    guide.path
                ));
            }
        }
    }
    broken
}

/// The lines of a document that are not of an example.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((at + 1, line))
    })
}

/// `[label]: target`, each with the number of its line.
fn definitions(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    prose(text).filter_map(|(number, line)| {
        let (label, target) = line.strip_prefix('[')?.split_once("]: ")?;
        Some((number, label, target.trim()))
    })
}

/// Where the links and pictures of a document lead, with the numbers of their lines.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut targets: Vec<_> = definitions(text)
        .map(|(number, _, to)| (number, to))
        .collect();
    for (number, line) in prose(text) {
        let mut is_code = false;
        let mut rest = line;
        while let Some(at) = rest.find(['`', ']']) {
            let (is_tick, after) = (rest.as_bytes()[at] == b'`', &rest[at + 1..]);
            is_code ^= is_tick;
            let inline = after.strip_prefix('(').filter(|_| !is_tick && !is_code);
            if let Some((target, _)) = inline.and_then(|after| after.split_once(')')) {
                targets.push((number, target));
            }
            rest = after;
        }
        for source in line.split("src=\"").skip(1) {
            targets.extend(source.split_once('"').map(|(target, _)| (number, target)));
        }
    }
    targets
}

/// The anchors of the headings, as GitHub, `mdbook` and rustdoc make them.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter_map(|(_, line)| {
        let title = line.trim_start_matches('#').strip_prefix(' ')?;
        let is_heading = line.starts_with('#');
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let anchor: String = title.to_lowercase().chars().filter(kept).collect();
        is_heading.then(|| anchor.replace(' ', "-"))
    })
}

/// A path that is relative to a folder, from the root of the project.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let text = "# A head, with `code`\n[one](b.md) ![p](../gone.svg) `[no](c.md)`\n\
                    [two][b], [three](#a-head-with-code), [four](b.md#not-there)\n\
                    <img src=\"p.png\"> [five](crate::Bus) [six](https://example.org)\n\
                    ```rust\n[seven](d.md)\n```\n\n[b]: ../docs/b.md#second\n";
        let files = |path: &str| (path == "src/docs/b.md").then(|| "## Second\n".to_owned());
        let document = File::new("src/docs/a.md", text);
        assert_eq!(
            dead_links(&[document], files),
            [
                "src/docs/a.md:2: leads to ../gone.svg, which is not there",
                "src/docs/a.md:3: b.md has no heading #not-there",
                "src/docs/a.md:4: crate::Bus is no link outside of Rust's documentation",
                "src/docs/a.md:4: leads to p.png, which is not there",
            ]
        );
    }

    #[test]
    fn a_label_that_rust_reads_otherwise_and_a_hidden_line_are_found() {
        let links = "[b]: crate::_docs::b#second\n[`Bus`]: crate::Bus\n[c]: crate::_docs::d\n";
        let text = format!(
            "```rust\n# hidden\n#[test]\n```\n```toml\n# a comment\n```\n[b]: b.md#second\n\
             [`Bus`]: {ITEMS}struct.Bus.html\n[c]: c.md\n[`Queue`]: {ITEMS}struct.Queue.html\n"
        );
        let found = broken_in_rust(&[File::new("a.md", &text)], links);
        assert_eq!(
            found,
            [
                "a.md:10: links.md does not lead [c] there, too",
                "a.md:11: links.md does not lead [`Queue`] there, too",
                "a.md:2: is hidden in one place only",
            ]
        );
    }
}
