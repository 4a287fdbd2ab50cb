//! Commands as documents have them are commands of the program.

use std::path::Path;

use clap::Parser;
use clap::error::ErrorKind;

use crate::cli::Arguments;

/// Folders whose documents are read, from the root of the repository.
const FOLDERS: [&str; 10] = [
    "",
    ".github/ISSUE_TEMPLATE",
    "server",
    "outbox",
    "src/docs",
    "dashboards/web",
    "benches/peers",
    "clients/python",
    "clients/typescript",
    "clients/go",
];

/// Returns the path and the text of each document.
fn documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for folder in FOLDERS {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|kind| kind == "md") {
                let name = path.strip_prefix(&root).unwrap().display().to_string();
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

/// The words of a line of a shell: quotes hold some together, and a `#` begins a comment.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// The lines of a document's shell blocks that begin with the program, and what of it sentences name.
fn commands(text: &str) -> (Vec<String>, Vec<String>) {
    let (mut lines, mut spans, mut block) = (Vec::new(), Vec::new(), None);
    let joined = text.replace("\\\n", " ");
    for line in joined.lines() {
        if let Some(language) = line.strip_prefix("```") {
            block = block.is_none().then_some(language);
        } else if block == Some("sh") && line.starts_with("duly ") {
            lines.push(line.to_owned());
        } else if block.is_none() {
            let code = line.split('`').skip(1).step_by(2);
            spans.extend(code.filter(|it| it.starts_with("duly ")).map(str::to_owned));
        }
    }
    (lines, spans)
}

#[test]
fn every_command_of_a_document_is_one() {
    let mut counted = 0;
    for (name, text) in documents() {
        let (lines, spans) = commands(&text);
        for line in &lines {
            if let Err(error) = Arguments::try_parse_from(words(line)) {
                panic!("{name}: {line}\n{error}");
            }
        }
        for span in &spans {
            // A sentence may name a command without what it takes; to users of clients it says all.
            let kind = Arguments::try_parse_from(words(span)).map_err(|error| error.kind());
            let is_one = matches!(
                kind,
                Ok(_)
                    | Err(ErrorKind::MissingRequiredArgument
                        | ErrorKind::InvalidValue
                        | ErrorKind::ValueValidation // such as `<id>`
                        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                        | ErrorKind::DisplayHelp)
            );
            let is_whole = kind.is_ok() || !name.starts_with("clients/");
            assert!(is_one && is_whole, "{name}: {span}: {kind:?}");
        }
        counted += lines.len() + spans.len();
    }
    assert!(counted > 100, "{counted}");
}
