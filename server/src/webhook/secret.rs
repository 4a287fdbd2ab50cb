//! Signing secrets and signatures, as Standard Webhooks has them.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// How the text of a secret begins.
const PREFIX: &str = "whsec_";
/// The bytes of a new secret.
const NEW_BYTES: usize = 32;
/// The bytes that a secret may have.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// The most characters of its text: the prefix, and 64 bytes in base64.
pub(crate) const SECRET_LEN_MAX: usize = 94;

/// A secret that signs requests.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(Vec<u8>);

/// Prints nothing of it.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Makes a secret of random bytes.
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = vec![0; NEW_BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Reads a secret; the error says what is wrong, without the secret.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            Err(format!(
                "a secret {why}; it must be `{PREFIX}` and {} to {} bytes in base64",
                BYTES.start(),
                BYTES.end()
            ))
        };
        let Some(encoded) = text.strip_prefix(PREFIX) else {
            return wrong("does not begin with its prefix");
        };
        if text.len() > SECRET_LEN_MAX {
            return wrong("is too long");
        }
        match STANDARD.decode(encoded) {
            Ok(bytes) if BYTES.contains(&bytes.len()) => Ok(Self(bytes)),
            Ok(bytes) => wrong(&format!("has {} bytes", bytes.len())),
            Err(_) => wrong("is no base64"),
        }
    }

    /// Returns its text, which only its maker and the shared state see.
    pub(crate) fn text(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    /// Signs a message: `v1,` and the HMAC-SHA256 of id, timestamp and body in base64.
    fn signature(&self, id: &str, timestamp_s: u64, body: &[u8]) -> Option<String> {
        // A key of any length is fine for HMAC.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(format!("{id}.{timestamp_s}.").as_bytes());
        mac.update(body);
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        Some(format!("v1,{signature}"))
    }
}

/// Returns the signatures of a message, one of each secret, with a space between them.
pub(super) fn signatures(secrets: &[Secret], id: &str, timestamp_s: u64, body: &[u8]) -> String {
    let signatures = secrets
        .iter()
        .filter_map(|secret| secret.signature(id, timestamp_s, body));
    signatures.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_signature_is_that_of_the_standard() {
        // The example of the specification's libraries.
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = br#"{"test": 2432232314}"#;
        let signed = signatures(
            &[secret],
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            body,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_new_webhook_secret_can_be_read_again() {
        let secret = Secret::random().unwrap();
        assert_eq!(Secret::parse(&secret.text()), Ok(secret.clone()));
        assert!(secret.text().len() <= SECRET_LEN_MAX);
        assert_eq!(format!("{secret:?}"), "Secret");
        assert_eq!(Secret(vec![0; 64]).text().len(), SECRET_LEN_MAX);
    }

    #[test]
    fn a_wrong_webhook_secret_is_refused_and_not_repeated() {
        for text in [
            "c2VjcmV0",
            "whsec_c2VjcmV0",
            "whsec_!!",
            &format!("whsec_{:A>999}", ""),
        ] {
            let error = Secret::parse(text).unwrap_err();
            assert!(error.contains("24 to 64 bytes"), "{error}");
            assert!(!error.contains("c2VjcmV0"), "{error}");
        }
    }
}
