//! Stored targets: encrypted under the server's key of payloads, if it has one.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use duly::codec::KeyRing;
use duly::event::Payload;
use duly::{EventId, QueueName};

use super::target::TargetKey;

/// How the text of an encrypted target begins; one that is not is JSON, and begins with `{`.
const SEALED: &str = "sealed:";

/// Encrypts and decrypts targets.
#[derive(Debug)]
pub(super) struct TargetVault {
    keys: KeyRing,
    /// The log has said that targets are stored in clear text.
    has_warned: AtomicBool,
}

impl TargetVault {
    pub(super) fn new(keys: KeyRing) -> Self {
        Self {
            keys,
            has_warned: AtomicBool::new(false),
        }
    }

    /// Returns what is stored of a target; `revision` is another number with each change.
    pub(super) fn seal<'a>(
        &self,
        key: &TargetKey,
        revision: u64,
        row: &'a str,
    ) -> Result<Cow<'a, str>, String> {
        let name = queue_name(key)?;
        let id = EventId::for_name(&name, &format!("webhook {revision}"));
        let Some(sealed) = self.keys.seal_bytes(id, &name, row.as_bytes()) else {
            self.warn();
            return Ok(Cow::Borrowed(row));
        };
        let encoded = STANDARD.encode(sealed.as_bytes());
        Ok(Cow::Owned(format!("{SEALED}{id}:{encoded}")))
    }

    /// Returns the target of what is stored.
    pub(super) fn open<'a>(
        &self,
        key: &TargetKey,
        stored: &'a str,
    ) -> Result<Cow<'a, str>, String> {
        let Some(sealed) = stored.strip_prefix(SEALED) else {
            self.warn();
            return Ok(Cow::Borrowed(stored));
        };
        let (id, encoded) = sealed.split_once(':').ok_or("it has no id")?;
        let id: EventId = id.parse().map_err(|error| format!("its id: {error}"))?;
        let bytes = STANDARD.decode(encoded);
        let payload = Payload::from(bytes.map_err(|error| format!("its bytes: {error}"))?);
        let opened = self.keys.open(id, &queue_name(key)?, &payload);
        let opened = opened.map_err(|error| format!("it cannot be decrypted: {error}"))?;
        let text = String::from_utf8(opened.value.into_owned());
        text.map(Cow::Owned).map_err(|error| error.to_string())
    }

    /// Warns, once for each process.
    fn warn(&self) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "secrets of webhooks are stored in clear text; set encryption.keys and \
                 encryption.use, and set the webhooks again"
            );
        }
    }
}

fn queue_name(key: &TargetKey) -> Result<QueueName, String> {
    let name = format!("{}.{}", key.namespace, key.queue);
    QueueName::new(&name).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use duly::codec::Key;

    use super::*;

    fn key(queue: &str) -> TargetKey {
        TargetKey::new("default", "ns", queue)
    }

    #[test]
    fn a_stored_webhook_target_is_encrypted_and_bound_to_its_queue() {
        let keys = KeyRing::new();
        let vault = TargetVault::new(keys.clone());
        let clear = vault.seal(&key("q"), 1, "{\"secret\"}").unwrap();
        assert_eq!(clear, "{\"secret\"}", "there is no key");
        assert!(vault.has_warned.load(Ordering::Relaxed));

        keys.add("k", Key::new([7; 32])).unwrap();
        keys.choose("k").unwrap();
        let vault = TargetVault::new(keys);
        let sealed = vault.seal(&key("q"), 1, "{\"secret\"}").unwrap();
        assert!(sealed.starts_with(SEALED) && !sealed.contains("secret"));
        assert_eq!(vault.open(&key("q"), &sealed).unwrap(), "{\"secret\"}");
        let moved = vault.open(&key("other"), &sealed).unwrap_err();
        assert!(moved.contains("cannot be decrypted"), "{moved}");
        let other = vault.seal(&key("q"), 2, "{\"secret\"}").unwrap();
        assert_ne!(other, sealed, "a nonce of each revision");
        assert!(!vault.has_warned.load(Ordering::Relaxed));
        assert_eq!(vault.open(&key("q"), &clear).unwrap(), clear, "of before");
        assert!(vault.has_warned.load(Ordering::Relaxed));
        let without = TargetVault::new(KeyRing::new());
        let error = without.open(&key("q"), &sealed).unwrap_err();
        assert!(error.contains("cannot be decrypted"), "{error}");
    }
}
