//! The store contract, run over each store.

mod memory {
    use duly_conformance::store_contract::MemoryHarness;

    duly_conformance::store_contract_tests!(MemoryHarness);
}

mod memory_shared {
    use duly_conformance::store_contract::SharedMemoryHarness;

    duly_conformance::store_contract_tests!(SharedMemoryHarness);
}

pub(crate) mod embedded;
pub(crate) mod redis;

mod embedded_inline {
    use crate::store_contract::embedded::EmbeddedHarness;
    use duly::store::EmbeddedOptions;

    duly_conformance::store_contract_tests!(EmbeddedHarness(EmbeddedOptions::inline));
}

mod embedded_threaded {
    use crate::store_contract::embedded::EmbeddedHarness;
    use duly::store::EmbeddedOptions;

    duly_conformance::store_contract_tests!(EmbeddedHarness(EmbeddedOptions::new));
}

mod embedded_without_cache {
    use crate::store_contract::embedded::EmbeddedHarness;
    use duly::store::EmbeddedOptions;

    duly_conformance::store_contract_tests!(EmbeddedHarness(
        || EmbeddedOptions::new().cache_bytes(0)
    ));
}

mod redis_single {
    use crate::servers;
    use crate::store_contract::redis::RedisHarness;

    duly_conformance::store_contract_tests!(RedisHarness(|| servers::shared().url()));
}

mod redis_newest {
    use crate::servers;
    use crate::store_contract::redis::RedisHarness;

    duly_conformance::store_contract_tests!(RedisHarness(|| servers::shared_newest().url()));
}

mod redis_8 {
    use crate::servers;
    use crate::store_contract::redis::RedisHarness;

    duly_conformance::store_contract_tests!(RedisHarness(|| servers::shared_redis_8().url()));
}

mod redis_cluster {
    use crate::servers;
    use crate::store_contract::redis::RedisHarness;

    duly_conformance::store_contract_tests!(RedisHarness(servers::shared_cluster));
}

/// A promise that the macro does not list would never be played.
#[test]
fn every_promise_is_listed() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/conformance/src/store_contract"
    );
    let mut written = Vec::new();
    for file in std::fs::read_dir(folder).expect("the suite's folder") {
        let text = std::fs::read_to_string(file.expect("a file").path()).expect("a text");
        let names = text
            .lines()
            .filter_map(|line| line.strip_prefix("pub async fn "));
        let names = names.filter_map(|line| line.split('(').next());
        written.extend(names.map(str::to_owned));
    }
    let mut listed: Vec<_> = memory::LISTED.iter().copied().map(str::to_owned).collect();
    written.sort();
    listed.sort();
    assert_eq!(listed, written);
}
