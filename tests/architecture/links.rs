//! Links of documents: each leads somewhere in the repository.

use super::files::File;

/// What is wrong with the links of these documents; `text` reads a file of the project.
pub(crate) fn dead_links(documents: &[File], text: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut dead = Vec::new();
    for document in documents {
        let folder = document.folder();
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
pub(crate) fn definitions(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    prose(text).filter_map(|(number, line)| {
        let (label, target) = line.strip_prefix('[')?.split_once("]: ")?;
        Some((number, label, target.trim()))
    })
}

/// Where the links and pictures of a document lead, with the numbers of their lines.
pub(crate) fn targets(text: &str) -> Vec<(usize, &str)> {
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
pub(crate) fn joined(folder: &str, path: &str) -> String {
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
}
