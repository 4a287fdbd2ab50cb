//! What the documents say once, and what they say of the code.

use std::collections::BTreeMap;

use super::files::File;
use crate::plant::Tree;

/// So many words in a row stand in one place only: another one points there.
const WORDS_TWICE: usize = 20;

/// Lines of prose that share so many words in a row with an earlier one.
pub(crate) fn said_twice(documents: &[File]) -> Vec<String> {
    let mut first: BTreeMap<Vec<String>, String> = BTreeMap::new();
    let mut twice = Vec::new();
    for document in documents {
        let mut is_code = false;
        for (line, number) in document.text.lines().zip(1..) {
            is_code ^= line.starts_with("```");
            if is_code || line.starts_with('|') {
                continue; // examples and tables repeat words
            }
            let here = format!("{}:{number}", document.path);
            let words = line.split(|c: char| !c.is_alphanumeric());
            let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
            let runs = words.windows(WORDS_TWICE);
            let mut there = None;
            for run in runs {
                let run = run.iter().map(|word| word.to_lowercase()).collect();
                let place = first.entry(run).or_insert_with(|| here.clone());
                there = there.or((*place != here).then(|| place.clone()));
            }
            if let Some(there) = there {
                twice.push(format!("{here}: says what {there} says"));
            }
        }
    }
    twice
}

/// The number of a constant of the sources, as a text.
pub(crate) fn constant<'a>(sources: &'a Tree, at: &str) -> Result<&'a str, String> {
    let (file, item) = sources.find(at)?;
    let declared = &file.text[item.bytes.clone()];
    let (_, value) = declared.rsplit_once('=').ok_or("it has no value")?;
    Ok(value.trim_matches([' ', '\n', '"', ';']))
}

/// The first cell of each row of the table that follows a heading and has this first column.
pub(crate) fn rows<'a>(document: &'a File, heading: &str, column: &str) -> Vec<&'a str> {
    let lines = document.text.lines();
    let lines = lines.skip_while(|line| *line != heading);
    let head = format!("| {column} |");
    let lines = lines.skip_while(move |line| !line.starts_with(&head));
    let rows = lines.skip(2).map_while(|line| line.strip_prefix("| "));
    rows.filter_map(|row| row.split(" |").next()).collect()
}

/// Queues that examples in SQL push to and that no request over HTTP reaches, as they are in no
/// namespace.
fn queues_without_namespace(document: &File) -> Vec<&str> {
    let calls = ["duly_push('", "duly_push_at('", "due) values ('"];
    let after = |call| document.text.split(call).skip(1);
    let queues = calls.into_iter().flat_map(after);
    let queues = queues.filter_map(|rest| rest.split('\'').next());
    queues.filter(|queue| !queue.contains('.')).collect()
}

/// How many words a document has for its reader: without examples, and where its links lead.
fn words(document: &File) -> usize {
    let mut is_code = false;
    let mut words = 0;
    for line in document.text.lines() {
        is_code ^= line.starts_with("```");
        let leads = line.starts_with('[') && line.contains("]: ");
        if !is_code && !leads && !line.starts_with("```") {
            words += line.split_whitespace().count();
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::files::project;
    use crate::plant;

    #[test]
    fn a_long_sentence_that_stands_twice_is_found() {
        let said = "one two three four five six seven eight nine ten one two three four five six \
                    seven eight nine twenty and more";
        let other = File::new("b.md", &format!("# Head\n\nHere {said}.\n"));
        let files = [File::new("a.md", &format!("{said}\n| {said} |\n")), other];
        assert_eq!(said_twice(&files), ["b.md:3: says what a.md:1 says"]);
        assert!(said_twice(&files[..1]).is_empty(), "tables may repeat it");
    }

    #[test]
    fn a_constant_and_the_rows_of_a_table_are_read() {
        let source = "//! A.\nconst FORMAT: &str = \"5\";\n".to_owned();
        let tree = Tree::of(vec![plant::tree::File::of("src/a.rs".into(), source)]);
        assert_eq!(constant(&tree, "a::FORMAT"), Ok("5"));
        let text =
            "## A\n\n| x | y |\n\n## B\n\n| version | y |\n|---|---|\n| 1 | a |\n| 2 | b |\n";
        let document = File::new("a.md", text);
        assert_eq!(rows(&document, "## B", "version"), ["1", "2"]);
    }

    #[test]
    fn what_examples_in_sql_push_is_reached_over_http() {
        let wrong = "select duly_push('a', 1);\ncall duly_push('b.c', 1, null, null);\n";
        assert_eq!(queues_without_namespace(&File::new("a.md", wrong)), ["a"]);
        let mut documents = project(&["src/docs"]);
        let clients = ["go", "python", "typescript"];
        documents.extend(clients.map(|name| File::read(&format!("clients/{name}/README.md"))));
        for document in &documents {
            let queues = queues_without_namespace(document);
            assert!(queues.is_empty(), "{}: {queues:?}", document.path);
        }
    }

    #[test]
    fn each_outage_that_the_log_names_is_in_the_page_of_operators() {
        let page = File::read("src/docs/operations.md");
        let mut known = 0;
        for file in project(&["src", "outbox/src", "server/src"]) {
            for (_, line) in file.code() {
                let named = ["Outage::of(\"", "OutageLog::of(\""];
                let named = named.iter().find_map(|of| line.split_once(of));
                let Some((name, _)) = named.and_then(|(_, rest)| rest.split_once('"')) else {
                    continue;
                };
                known += 1;
                let name = format!("`{name}`");
                assert!(page.text.contains(&name), "{}: {name}", file.path);
            }
        }
        assert!(known >= 16, "{known} are found");
    }

    #[test]
    fn the_page_of_the_promises_is_read_in_five_minutes() {
        let words = words(&File::read("src/docs/delivery.md"));
        assert!(words <= 1_000, "{words} words; its mechanisms have a page");
    }
}
