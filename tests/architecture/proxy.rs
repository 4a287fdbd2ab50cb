//! The store around another one: it passes everything on, and counts what may take its time.

use std::collections::BTreeMap;

use super::expect_none;
use super::files::root;
use crate::plant::Tree;
use crate::plant::tree::File;

/// The methods of a trait, or of an implementation, in a room, with their code.
fn methods<'a>(tree: &'a Tree, room: &str, of: &str) -> BTreeMap<&'a str, &'a str> {
    let mut methods = BTreeMap::new();
    for file in tree.files.iter().filter(|file| file.path.starts_with(room)) {
        for item in &file.parsed().expect("it is parsed").items {
            if let [.., within, name] = item.path.as_slice()
                && within == of
            {
                methods.insert(name.as_str(), &file.text[item.bytes.clone()]);
            }
        }
    }
    methods
}

/// What a store may be asked, and what stands around it.
const AROUND: [(&str, &str); 2] = [
    ("Store", "<StoreProxy as Store>"),
    ("RecordTable", "<TableProxy as RecordTable>"),
];

/// The methods around a store that return a future without the timer of a call.
fn uncounted(tree: &Tree) -> Vec<String> {
    let around = AROUND.iter();
    let methods = around.flat_map(|(_, around)| methods(tree, "src/store", around));
    methods
        .filter(|(_, code)| code.contains("StoreFuture<") && !code.contains(".timed("))
        .map(|(name, _)| format!("{name} returns a future that is not counted"))
        .collect()
}

/// A method with a default would silently do something else if it were not passed on.
#[test]
fn the_store_around_a_store_passes_on_whatever_it_may_be_asked() {
    let tree = Tree::read(root()).expect("the sources can be read");
    let names = |of| {
        methods(&tree, "src/store", of)
            .into_keys()
            .collect::<Vec<_>>()
    };
    let asked = names("Store");
    assert!(asked.contains(&"apply") && asked.contains(&"fallback_poll_every"));
    for (asked, around) in AROUND {
        assert_eq!(names(around), names(asked));
    }
}

#[test]
fn the_store_around_a_store_counts_every_call_that_may_wait() {
    expect_none(&uncounted(
        &Tree::read(root()).expect("the sources can be read"),
    ));
    let made_up = "impl Store for StoreProxy {
    fn buckets(&self) -> StoreFuture<Vec<BucketKey>> {
        self.timed(Call::Buckets.place(), |near| near.buckets())
    }
    fn buckets_of(&self, queue: &QueueName) -> StoreFuture<KnownBuckets> {
        self.near.buckets_of(queue)
    }
    fn is_shared(&self) -> bool {
        self.is_shared
    }
}";
    let file = File::of("src/store/proxy.rs".into(), made_up.to_owned());
    let found = uncounted(&Tree::of(vec![file]));
    assert_eq!(found, ["buckets_of returns a future that is not counted"]);
}
