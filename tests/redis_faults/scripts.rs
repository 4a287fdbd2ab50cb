//! How the calls of a script are known among what a node sends.

use duly::__internal::redis::scripts;

/// The calls of the scripts of one name.
pub(crate) struct Call {
    /// Of scripts, and the names of functions.
    hashes: Vec<&'static str>,
}

impl Call {
    /// By the name of the scripts.
    pub(crate) fn of(script: &str) -> Self {
        let named = scripts().filter(|it| it.name == script);
        let hashes: Vec<_> = named.flat_map(|it| [it.hash(), it.function()]).collect();
        assert!(!hashes.is_empty(), "no script has the name {script}");
        Self { hashes }
    }

    /// Whether such a call is among these bytes.
    pub(crate) fn is_in(&self, bytes: &[u8]) -> bool {
        let is_at = |hash: &str| bytes.windows(hash.len()).any(|it| it == hash.as_bytes());
        self.hashes.iter().any(|hash| is_at(hash))
    }
}
