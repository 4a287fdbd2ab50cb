//! A list of texts: a list in a file, a text with commas in the environment.

use serde::{Deserialize, Deserializer};

pub(super) fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Texts {
        List(Vec<String>),
        Text(String),
    }
    Ok(match Texts::deserialize(from)? {
        Texts::List(texts) => texts,
        Texts::Text(text) => {
            let parts = text.split(',').map(str::trim);
            let parts = parts.filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect()
        }
    })
}
