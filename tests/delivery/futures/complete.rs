//! The table against the sources: no public future is missing.

use std::collections::BTreeMap;
use std::path::Path;

use super::table::CALLS;
use crate::plant::Tree;

/// Where the futures of users are not: these are what stores, journals and the tests of users implement
/// or drive themselves, and what is not public.
const OTHERS: [&str; 5] = [
    "src/bus/pace.rs",
    "src/flow",
    "src/journal",
    "src/store",
    "src/testing",
];
/// Those that begin or end a bus, each with tests of its own in `stops.rs`.
const OF_THE_BUS: [(&str, &str); 2] = [("BusBuilder", "start"), ("Bus", "shutdown")];

#[test]
fn every_public_future_is_in_the_table() {
    let tree = Tree::read(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("the sources");
    let mut missing: BTreeMap<(&str, &str), isize> = BTreeMap::new();
    for file in &tree.files {
        let is_in = |place: &&str| file.path.starts_with(place);
        if !is_in(&"src") || OTHERS.iter().any(is_in) {
            continue;
        }
        for item in &file.parsed().expect("it is parsed").items {
            let words = file.tokens(&item.bytes);
            let mut declared = words
                .windows(3)
                .map(|words| [0, 1, 2].map(|at| words[at].text));
            let first = declared.find(|words| words[2] == "fn");
            let [.., of, name] = item.path.as_slice() else {
                continue;
            };
            let place = (of.as_str(), name.as_str());
            if first == Some(["pub", "async", "fn"]) && !OF_THE_BUS.contains(&place) {
                *missing.entry(place).or_default() += 1;
            }
        }
    }
    assert!(missing.len() > 50, "the sources were not found");
    for call in CALLS {
        let many = missing.get_mut(&call.place);
        *many.unwrap_or_else(|| panic!("there is no {:?}", call.place)) -= 1;
    }
    missing.retain(|_, many| *many > 0);
    assert!(
        missing.is_empty(),
        "public futures that no test drops or calls beside a stop; add them to `table.rs`: {missing:?}"
    );
}
