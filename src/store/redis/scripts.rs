//! The scripts: one for each operation, and what each is called with.

use std::sync::LazyLock;

/// A script as the server gets it.
#[derive(Debug)]
pub(super) struct Script {
    /// What it is called in logs and errors.
    pub(super) name: &'static str,
    text: String,
    hash: String,
}

impl Script {
    fn new(name: &'static str, parts: &[&str]) -> Self {
        let text = parts.concat();
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { name, text, hash }
    }

    /// Its text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// A call of it on these keys; arguments follow.
    pub(super) fn call(&self, keys: &[Vec<u8>]) -> redis::Cmd {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.hash).arg(keys.len());
        for key in keys {
            call.arg(key);
        }
        call
    }
}

/// Counts events by state.
pub(super) static STATS: LazyLock<Script> =
    LazyLock::new(|| Script::new("stats", &[include_str!("lua/stats.lua")]));
