//! A key of ours that somebody overwrites with a text, and puts right again.

use crate::redis_store::kit::{Bare, fresh};
use crate::servers::{Redis, shared};

/// A store on a prefix of its own: its server, the prefix, and the store.
pub(crate) async fn opened() -> (&'static Redis, String, Bare) {
    let server = shared();
    let (url, prefix) = fresh(&server.url());
    (server, prefix, Bare::open(&url).await)
}

pub(crate) struct Overwritten<'a> {
    server: &'a Redis,
    pub(crate) key: String,
    aside: String,
}

impl<'a> Overwritten<'a> {
    pub(crate) fn new(server: &'a Redis, prefix: &str, part: &str) -> Self {
        let key = format!("{prefix}:{{letters:0}}:{part}");
        let aside = format!("{key}:aside");
        server.cli(&["RENAME", &key, &aside]); // where it is there
        assert_eq!(server.cli(&["SET", &key, "somebody's"]), "OK");
        Self { server, key, aside }
    }

    /// As it was before.
    pub(crate) fn put_right(self) {
        self.server.cli(&["DEL", &self.key]);
        self.server.cli(&["RENAME", &self.aside, &self.key]);
        assert_ne!(self.server.cli(&["TYPE", &self.key]), "string");
    }
}

/// A test of `$of` for each part of a bucket's keys.
macro_rules! of_each {
    ($of:ident: $($part:ident),+ $(,)?) => {
        $(#[tokio::test]
        async fn $part() {
            super::$of(stringify!($part)).await;
        })+
    };
}

pub(crate) use of_each;
