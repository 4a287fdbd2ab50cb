//! The section `encryption` of the settings: the keys of payloads.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use crate::codec::{KeyRing, is_key_id};
use crate::error::{Error, Result};

/// The most bytes of a file of keys, so that a mistaken path does not fill the memory.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// The section `encryption`: the keys of payloads. `Debug` shows ids and nothing of a key, and not what cannot be an id.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EncryptionChoices {
    /// `encryption.keys`: the base64 of each key's 32 bytes, by key id.
    pub keys: Option<BTreeMap<String, String>>,
    /// `encryption.keys_file`: a file of more keys, one a line: an id, `=`, and the base64.
    pub keys_file: Option<PathBuf>,
    /// `encryption.use`: the id of the active key, which encrypts new payloads.
    pub used: Option<String>,
}

impl fmt::Debug for EncryptionChoices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |id: &String| is_key_id(id).then(|| id.clone());
        let ids = self.keys.as_ref();
        let ids = ids.map(|keys| keys.keys().map(shown).collect::<Vec<_>>());
        f.debug_struct("EncryptionChoices")
            .field("keys", &ids)
            .field("keys_file", &self.keys_file)
            .field("used", &self.used.as_ref().map(shown))
            .finish()
    }
}

impl EncryptionChoices {
    /// Builds the key ring; reads the file of keys now.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), with the key's id or the file: a key that
    /// is not the base64 of 32 bytes, an invalid or duplicate id, a file that cannot be read, an
    /// active key that is missing.
    pub fn ring(&self) -> Result<KeyRing> {
        let ring = KeyRing::new();
        for (id, key) in self.keys.iter().flatten() {
            add(&ring, "encryption.keys", id, key)?;
        }
        if let Some(path) = &self.keys_file {
            let source = format!("keys file {}", path.display());
            let mut text = String::new();
            let read = File::open(path)
                .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
            // The decoding error may quote the file, so it is withheld.
            read.map_err(|error| {
                Error::invalid(format!("{source} cannot be read: {}", error.kind()))
            })?;
            if text.len() as u64 > FILE_BYTES_MAX {
                return Err(Error::invalid(format!(
                    "{source} is larger than {FILE_BYTES_MAX} bytes; is it the right one?"
                )));
            }
            let keys = pairs(&text).map_err(|why| Error::invalid(format!("{source}: {why}")))?;
            for (id, key) in keys {
                add(&ring, &source, &id, &key)?;
            }
        }
        if let Some(used) = &self.used {
            let chosen = ring.choose(used);
            chosen.map_err(|error| Error::invalid(format!("encryption.use: {error}")))?;
        }
        Ok(ring)
    }
}

fn add(ring: &KeyRing, source: &str, id: &str, key: &str) -> Result<()> {
    let added = key.parse().and_then(|key| ring.add(id, key));
    // An invalid id may be a key in the wrong place, so it is withheld.
    added.map_err(|error| {
        if is_key_id(id) {
            Error::invalid(format!("{source}: {id}: {error}"))
        } else {
            Error::invalid(format!("{source}: {error}"))
        }
    })
}

/// Parses the keys of a text, separated by lines or white space: an id, `=`, and a key. `#` begins
/// a comment. The error quotes nothing.
pub(super) fn pairs(text: &str) -> Result<BTreeMap<String, String>, &'static str> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    let mut pairs = BTreeMap::new();
    for word in lines.flat_map(str::split_whitespace) {
        let pair = word.split_once('=');
        let (id, key) = pair.ok_or("invalid key; write `id=key id=key`, without spaces inside")?;
        if pairs.insert(id.to_owned(), key.to_owned()).is_some() {
            return Err("duplicate key id");
        }
    }
    Ok(pairs)
}
