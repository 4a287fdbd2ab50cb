//! The settings of webhooks: which addresses may be called, bounds on requests, the circuit.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde::Deserialize;

use super::numbers::whole;
use super::texts::networks;

/// `[webhooks]`: the delivery of queues to URLs.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookSettings {
    /// Whether a URL may begin with `http://`. Default: `false`, only `https://`.
    pub allow_http: bool,
    /// Whether addresses of the machine itself and of private networks may be called. Default:
    /// `false`.
    pub allow_private: bool,
    /// Networks that may be called although they are private, such as `10.1.0.0/16`: a list, or in
    /// the environment a text with commas. Default: none.
    #[serde(deserialize_with = "networks")]
    pub allow_networks: Vec<IpNet>,
    /// A PEM file with certificates of authorities that are trusted beside those of the system.
    pub ca_certificates: Option<PathBuf>,
    /// How long a connection may take, in milliseconds, 1 to 60,000. Default: 5,000.
    #[serde(deserialize_with = "whole")]
    pub connect_timeout_ms: u64,
    /// The lease of an event while its request runs, in milliseconds, 300 to 3,600,000; it is
    /// extended in time. What a killed server was delivering comes back after it. Default: 30,000.
    #[serde(deserialize_with = "whole")]
    pub ttr_ms: u64,
    /// The most requests of this server at a time over all targets, 1 to 100,000; a namespace has
    /// half of them at most, and leaves others as many as it has. Default: 512.
    #[serde(deserialize_with = "whole")]
    pub concurrency: usize,
    /// How many failures in a row open the circuit of a target, 1 to 1,000,000. Default: 10.
    #[serde(deserialize_with = "whole")]
    pub circuit_failures: u32,
    /// The first rest of an open circuit, in milliseconds, 1 to `circuit_rest_max_ms`; each failed
    /// probe doubles it. Default: 1,000.
    #[serde(deserialize_with = "whole")]
    pub circuit_rest_ms: u64,
    /// The longest rest of an open circuit, in milliseconds, at most 86,400,000. Default: 300,000.
    #[serde(deserialize_with = "whole")]
    pub circuit_rest_max_ms: u64,
    /// How many probes in a row without a response cost no attempt, at most 1,000,000; later ones
    /// count until one succeeds, so that events of a target that stays dead end. Default: 100, which
    /// is about eight hours of rests.
    #[serde(deserialize_with = "whole")]
    pub circuit_free_probes: u32,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            allow_http: false,
            allow_private: false,
            allow_networks: Vec::new(),
            ca_certificates: None,
            connect_timeout_ms: 5_000,
            ttr_ms: 30_000,
            concurrency: 512,
            circuit_failures: 10,
            circuit_rest_ms: 1_000,
            circuit_rest_max_ms: 300_000,
            circuit_free_probes: 100,
        }
    }
}

impl WebhookSettings {
    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms)
    }

    pub(crate) fn ttr(&self) -> Duration {
        Duration::from_millis(self.ttr_ms)
    }

    /// Checks the bounds; the error names the key.
    pub(super) fn check(&self) -> Result<(), String> {
        let concurrency = u64::try_from(self.concurrency).unwrap_or(u64::MAX);
        let failures = u64::from(self.circuit_failures);
        let free_probes = u64::from(self.circuit_free_probes);
        for (key, value, least, most) in [
            ("connect_timeout_ms", self.connect_timeout_ms, 1, 60_000),
            ("ttr_ms", self.ttr_ms, 300, 3_600_000),
            ("concurrency", concurrency, 1, 100_000),
            ("circuit_failures", failures, 1, 1_000_000),
            ("circuit_free_probes", free_probes, 0, 1_000_000),
            (
                "circuit_rest_max_ms",
                self.circuit_rest_max_ms,
                1,
                86_400_000,
            ),
            (
                "circuit_rest_ms",
                self.circuit_rest_ms,
                1,
                self.circuit_rest_max_ms,
            ),
        ] {
            if !(least..=most).contains(&value) {
                return Err(format!(
                    "webhooks.{key} is {value}; it must be {least} to {most}"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Settings;

    #[test]
    fn networks_of_webhooks_are_a_list_or_a_text() {
        for text in [
            "[webhooks]\nallow_networks = ['10.1.0.0/16', 'fd00::/8']",
            "[webhooks]\nallow_networks = '10.1.0.0/16, fd00::/8'",
        ] {
            let settings = Settings::from_toml(text).unwrap();
            assert_eq!(settings.webhooks.allow_networks.len(), 2);
        }
    }

    #[test]
    fn a_wrong_setting_of_webhooks_is_named() {
        for (text, key) in [
            ("allow_networks = ['10.1.0.0/64']", "allow_networks"),
            ("allow_all = true", "allow_all"),
            ("ttr_ms = 10", "webhooks.ttr_ms"),
            ("circuit_failures = 0", "webhooks.circuit_failures"),
            ("circuit_rest_ms = 400000", "webhooks.circuit_rest_ms"),
        ] {
            let error = Settings::from_toml(&format!("[webhooks]\n{text}"));
            let error = error.unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }
}
