//! The table against the sources: no public future is missing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::table::CALLS;

/// Where the futures of users are. Below the others stand what stores, journals and the tests of
/// users implement or drive themselves, and what is not public.
const OTHERS: [&str; 4] = ["flow", "journal", "store", "testing"];
/// Those that begin or end a bus, each with tests of its own in `stops.rs`.
const OF_THE_BUS: [(&str, &str); 2] = [("builder.rs", "start"), ("mod.rs", "shutdown")];

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    let listed = std::fs::read_dir(folder).expect("a folder of the sources");
    for entry in listed.map(|entry| entry.expect("an entry").path()) {
        match entry.is_dir() {
            true => files(&entry, out),
            false if entry.extension().is_some_and(|it| it == "rs") => out.push(entry),
            false => {}
        }
    }
}

#[test]
fn every_public_future_is_in_the_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    files(&root, &mut found);
    let mut missing: BTreeMap<(String, String), isize> = BTreeMap::new();
    for path in found {
        let inside = path.strip_prefix(&root).expect("it was found there");
        let inside = inside.to_str().expect("a name in UTF-8").to_owned();
        if OTHERS
            .iter()
            .any(|other| inside.starts_with(&format!("{other}/")))
        {
            continue;
        }
        let file = inside.strip_prefix("bus/").unwrap_or(&inside).to_owned();
        let text = std::fs::read_to_string(&path).expect("a source file");
        for line in text.lines().map(str::trim_start) {
            let Some(rest) = line.strip_prefix("pub async fn ") else {
                continue;
            };
            let name = rest.split(['<', '(']).next().unwrap_or_default();
            if !OF_THE_BUS.contains(&(&file, name)) {
                *missing.entry((file.clone(), name.to_owned())).or_default() += 1;
            }
        }
    }
    assert!(missing.len() > 50, "the sources were not found");
    for call in CALLS {
        let (file, name) = call.place;
        let key = (file.to_owned(), name.to_owned());
        let many = missing.get_mut(&key);
        *many.unwrap_or_else(|| panic!("{file}: there is no `{name}`")) -= 1;
    }
    missing.retain(|_, many| *many > 0);
    assert!(
        missing.is_empty(),
        "public futures that no test drops or calls beside a stop; add them to `table.rs`: {missing:?}"
    );
}
