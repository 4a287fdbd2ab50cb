//! Tokens: made of random bytes, and stored as a hash.

use duly::records::BY_BYTES_MAX;
use duly::time::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::scope::{QueuePattern, Scope};
use crate::shared::Trail;

/// The random bytes of a token.
const RANDOM_BYTES: usize = 20;
/// How a list shows a token whose text nobody knows: this and the begin of its hash.
const HANDLE: &str = "sha256~";
/// How many characters of the hash a handle has.
const HANDLE_LEN: usize = 16;
/// Crockford's base 32, as in the ids of jobs.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Where a token is stored: its pool, its namespace, and its hash.
#[derive(Clone, Debug)]
pub(crate) struct TokenAddress {
    key: String,
}

impl TokenAddress {
    pub(crate) fn new(pool: &str, namespace: &str, token: &str) -> Self {
        let key = Self::prefix(pool, namespace) + &hex(&hash(token));
        Self { key }
    }

    pub(crate) fn key(&self) -> String {
        self.key.clone()
    }

    /// The begin of the key of each token of a namespace. No name has a `/`.
    pub(super) fn prefix(pool: &str, namespace: &str) -> String {
        format!("{pool}/{namespace}/")
    }
}

/// A token as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenRow {
    /// The SHA-256 of its text, in hex.
    hash: String,
    pub(crate) description: String,
    scopes: Vec<Scope>,
    queues: Vec<QueuePattern>,
    expires_ms: Option<u64>,
    created_ms: u64,
}

/// A token that is about to be stored, with its text.
pub(crate) struct NewToken {
    pub(super) text: String,
    pub(super) row: TokenRow,
}

impl NewToken {
    /// A token with all rights for ever; of this text, or of random bytes.
    pub(crate) fn new(
        text: Option<String>,
        description: String,
        now: Timestamp,
    ) -> Result<Self, getrandom::Error> {
        let text = match text {
            Some(text) => text,
            None => random()?,
        };
        let row = TokenRow {
            hash: hex(&hash(&text)),
            description,
            scopes: Scope::ALL.to_vec(),
            queues: vec![QueuePattern("*".to_owned())],
            expires_ms: None,
            created_ms: now.as_millis(),
        };
        Ok(Self { text, row })
    }

    pub(crate) fn scopes(mut self, scopes: Vec<Scope>) -> Self {
        self.row.scopes = scopes;
        self
    }

    pub(crate) fn queues(mut self, queues: Vec<QueuePattern>) -> Self {
        self.row.queues = queues;
        self
    }

    pub(crate) fn expires(mut self, expires: Timestamp) -> Self {
        self.row.expires_ms = Some(expires.as_millis());
        self
    }
}

impl TokenRow {
    pub(super) fn encode(&self) -> String {
        // A struct of texts and numbers is always JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn decode(text: &str) -> Option<Self> {
        let row = serde_json::from_str(text);
        row.inspect_err(|error| tracing::error!(%error, "stored token is malformed"))
            .ok()
    }

    /// Compares the whole hash, in constant time.
    pub(super) fn matches(&self, token: &str) -> bool {
        self.hash
            .as_bytes()
            .ct_eq(hex(&hash(token)).as_bytes())
            .into()
    }

    pub(super) fn has_expired(&self, now_ms: u64) -> bool {
        self.expires_ms.is_some_and(|expires| expires <= now_ms)
    }

    pub(super) fn has(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    pub(super) fn is_for(&self, queue: &str) -> bool {
        self.queues.iter().any(|pattern| pattern.matches(queue))
    }

    /// Checks a scope; the error is what is missing.
    pub(super) fn has_scope(&self, scope: Scope) -> Result<(), String> {
        if self.has(scope) {
            Ok(())
        } else {
            Err(format!("the token has no scope {}", scope.name()))
        }
    }

    /// Checks a right; the error is what is missing.
    pub(super) fn allows(&self, scope: Scope, queue: &str) -> Result<(), String> {
        self.has_scope(scope)?;
        if self.is_for(queue) {
            Ok(())
        } else {
            Err(format!("the token is not for queue {queue}"))
        }
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn random() -> Result<String, getrandom::Error> {
    let mut bytes = [0; RANDOM_BYTES];
    getrandom::fill(&mut bytes)?;
    let bits = bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
    let bits: Vec<u8> = bits.collect();
    let letters = bits.chunks(5).map(|bits| {
        let number = bits.iter().fold(0, |number, bit| number << 1 | bit);
        char::from(ALPHABET[usize::from(number)])
    });
    Ok(letters.collect())
}

/// Returns the handle of a stored token.
pub(super) fn handle(key: &str) -> String {
    let hash = key.rsplit('/').next().unwrap_or_default();
    format!("{HANDLE}{}", hash.get(..HANDLE_LEN).unwrap_or(hash))
}

/// Returns the begin of the hash that a handle names.
pub(super) fn handle_of(text: &str) -> Option<&str> {
    let hash = text.strip_prefix(HANDLE)?;
    let is_hash = hash.len() == HANDLE_LEN && hash.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then_some(hash)
}

/// Returns the name of a token in the dashboard: its handle, behind as much of its namespace as a
/// name has room for.
pub(crate) fn user_name(namespace: &str, handle: &str) -> String {
    let room = BY_BYTES_MAX.saturating_sub("/".len() + handle.len());
    let mut name = namespace.to_owned();
    name.truncate(name.floor_char_boundary(room));
    format!("{name}/{handle}")
}

/// Returns the part of the audit for an actor, of a place if it is a token: that has its handle there, or
/// its [name in the dashboard](user_name).
pub(super) fn trail_of<'a>(actor: &str, place: &'a str) -> Trail<'a> {
    let name = actor.rsplit_once('/').map_or(actor, |(_, name)| name);
    match handle_of(name) {
        Some(_) => Trail::Tokens(place),
        None => Trail::Operators,
    }
}

/// Returns the pool and the namespace of a token that does something to a target, which begins with the
/// pool; the namespace is before the handle of a token in the dashboard, and else in the target.
pub(super) fn place_of(actor: &str, target: &str) -> String {
    let (pool, rest) = target.split_once('/').unwrap_or((target, ""));
    let namespace = actor.rsplit_once('/').map(|(namespace, _)| namespace);
    let namespace = namespace.or_else(|| rest.split('/').next());
    let place = format!("{pool}/{}", namespace.unwrap_or_default());
    place.replace(char::is_whitespace, "")
}

#[cfg(test)]
mod tests {
    use duly_dashboard::Role;

    use super::*;

    #[test]
    fn a_token_is_32_characters_and_never_the_same() {
        let [a, b] = [random().unwrap(), random().unwrap()];
        assert_eq!(a.len(), 32);
        assert!(a.bytes().all(|b| ALPHABET.contains(&b)));
        assert_ne!(a, b);
    }

    #[test]
    fn what_is_stored_does_not_have_the_text() {
        let new = NewToken::new(
            Some("a-secret-of-mine-0001".to_owned()),
            "d".to_owned(),
            Timestamp::EPOCH,
        );
        let new = new.unwrap();
        assert!(!new.row.encode().contains("secret"));
        assert!(new.row.matches("a-secret-of-mine-0001"));
        assert!(!new.row.matches("a-secret-of-mine-0002"));
    }

    #[test]
    fn what_a_token_does_is_told_apart_from_what_an_operator_does() {
        let handle = handle(&TokenAddress::new("default", "ns", "x").key());
        assert_eq!(trail_of(&handle, "d/ns"), Trail::Tokens("d/ns"));
        assert_eq!(place_of(&handle, "default/ns/q"), "default/ns");
        for namespace in ["ns", &"n".repeat(104), &"n".repeat(255), &"ü".repeat(127)] {
            let user = duly_dashboard::User::new(user_name(namespace, &handle), Role::View);
            assert_eq!(trail_of(user.name(), "d"), Trail::Tokens("d"), "{user:?}");
            // Its target may be in words.
            let place = place_of(user.name(), "default/7 dead letters");
            let short = place.strip_prefix("default/").unwrap();
            assert!(namespace.starts_with(short), "{place}");
        }
        for actor in ["anonymous", "ann", "sha256~ann", "a/b"] {
            assert_eq!(trail_of(actor, "d"), Trail::Operators, "{actor}");
        }
    }

    #[test]
    fn the_hash_is_sha_256() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&hash("abc")), abc);
    }
}
