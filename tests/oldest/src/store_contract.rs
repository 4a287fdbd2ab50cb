//! The store contract.

#[path = "../../store_contract/embedded.rs"]
pub(crate) mod embedded;

mod embedded_threaded {
    use crate::store_contract::embedded::EmbeddedHarness;
    use duly::store::EmbeddedOptions;

    duly_conformance::store_contract_tests!(EmbeddedHarness(EmbeddedOptions::new));
}
