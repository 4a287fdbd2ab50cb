//! A list of texts or networks: a list in a file, a text with commas in the environment.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::de::Error;
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

/// Reads networks, or addresses, from a list or a text.
pub(super) fn networks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpNet>, D::Error> {
    let network = |text: String| {
        let network = text.parse::<IpAddr>().map(IpNet::from);
        network.or_else(|_| text.parse()).map_err(|_| {
            D::Error::custom(format!(
                "\"{text}\" is no network; a network is an address and a length, as 10.1.0.0/16"
            ))
        })
    };
    texts(from)?.into_iter().map(network).collect()
}
