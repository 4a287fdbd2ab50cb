//! A check of addresses: webhooks reach the internet, and no machine behind this one.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use url::{Host, Url};

use crate::settings::WebhookSettings;

/// Networks of IPv4 that are not of the internet, with what they are.
const REFUSED_V4: [(&str, &str); 16] = [
    ("0.0.0.0/8", "unspecified"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared by a carrier (CGNAT)"),
    ("127.0.0.0/8", "loopback"),
    ("168.63.129.16/32", "the host of a machine in Azure"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved for protocols"),
    ("192.0.2.0/24", "for documentation"),
    ("192.88.99.0/24", "a relay of 6to4"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "for benchmarks"),
    ("198.51.100.0/24", "for documentation"),
    ("203.0.113.0/24", "for documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved or broadcast"),
];

/// Networks of IPv6 that are refused; outside of 2000::/3 every other is as well.
const REFUSED_V6: [(&str, &str); 8] = [
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("fc00::/7", "unique-local"),
    ("fe80::/10", "link-local"),
    ("ff00::/8", "multicast"),
    ("2001::/23", "reserved for protocols, Teredo or benchmarks"),
    ("2001:db8::/32", "for documentation"),
    ("3fff::/20", "for documentation"),
];

/// The networks of IPv6 that are of the internet.
const INTERNET_V6: &str = "2000::/3";

/// An address that webhooks may not reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefusedAddress {
    address: IpAddr,
    what: &'static str,
}

impl fmt::Display for RefusedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, what } = self;
        write!(
            f,
            "the address {address} is {what}; webhooks reach addresses of the internet only, unless \
             webhooks.allow_private or webhooks.allow_networks of the settings allow others"
        )
    }
}

impl std::error::Error for RefusedAddress {}

/// A network and what it is.
type Named = (IpNet, &'static str);

/// Decides which addresses webhooks may reach.
#[derive(Clone, Debug)]
pub(crate) struct AddressGuard {
    allow_private: bool,
    allowed: Vec<IpNet>,
    refused: Vec<Named>,
    internet_v6: Option<IpNet>,
}

impl AddressGuard {
    pub(crate) fn new(settings: &WebhookSettings) -> Self {
        let named = |(text, what): (&str, &'static str)| Some((text.parse().ok()?, what));
        let refused = REFUSED_V4.into_iter().chain(REFUSED_V6);
        Self {
            allow_private: settings.allow_private,
            allowed: settings.allow_networks.clone(),
            refused: refused.filter_map(named).collect(),
            internet_v6: INTERNET_V6.parse().ok(),
        }
    }

    /// Checks an address.
    pub(crate) fn check(&self, address: IpAddr) -> Result<(), RefusedAddress> {
        if self.allow_private || self.is_allowed(address) {
            return Ok(());
        }
        let refused = |what| Err(RefusedAddress { address, what });
        let inner = match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(v6) => match embedded(v6) {
                Some(v4) => IpAddr::V4(v4),
                None => address,
            },
        };
        if inner != address && self.is_allowed(inner) {
            return Ok(());
        }
        let mut networks = self.refused.iter();
        if let Some((_, what)) = networks.find(|(network, _)| network.contains(&inner)) {
            return refused(what);
        }
        match inner {
            IpAddr::V6(_) if !self.internet_v6.is_some_and(|net| net.contains(&inner)) => {
                refused("not of the internet")
            }
            _ => Ok(()),
        }
    }

    fn is_allowed(&self, address: IpAddr) -> bool {
        self.allowed
            .iter()
            .any(|network| network.contains(&address))
    }

    /// Checks the address in a URL, if it has one instead of a name.
    pub(crate) fn check_url(&self, url: &Url) -> Result<(), RefusedAddress> {
        match url.host() {
            Some(Host::Ipv4(address)) => self.check(address.into()),
            Some(Host::Ipv6(address)) => self.check(address.into()),
            Some(Host::Domain(_)) | None => Ok(()),
        }
    }
}

/// Returns the address of IPv4 that one of IPv6 means: mapped (`::ffff:a.b.c.d`), translated
/// (`::ffff:0:a.b.c.d`), compatible (`::a.b.c.d`), of NAT64 (`64:ff9b::a.b.c.d`), or of 6to4
/// (`2002:a.b.c.d::`).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None, // unspecified and loopback
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => v4(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(text: &str) -> AddressGuard {
        let settings = crate::Settings::from_toml(&format!("[webhooks]\n{text}")).unwrap();
        AddressGuard::new(&settings.webhooks)
    }

    fn is_refused(guard: &AddressGuard, address: &str) -> bool {
        guard.check(address.parse().unwrap()).is_err()
    }

    #[test]
    fn webhook_addresses_that_are_not_of_the_internet_are_refused() {
        let guard = guard("");
        assert_eq!(guard.refused.len(), REFUSED_V4.len() + REFUSED_V6.len());
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:192.168.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::a00:1",
            "100::1",
            "2001::1",
            "2001:2::1",
            "2001:10::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "3fff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(is_refused(&guard, address), "{address}");
        }
    }

    #[test]
    fn webhook_addresses_of_the_internet_are_allowed() {
        let guard = guard("");
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "192.167.255.255",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2001:4860:4860::8888",
            "2002:808:808::1",
            "2606:4700:4700::1111",
        ] {
            assert!(!is_refused(&guard, address), "{address}");
        }
    }

    #[test]
    fn webhook_networks_of_the_settings_are_allowed() {
        let some = guard("allow_networks = ['10.1.0.0/16', 'fd00:1::/32']");
        for address in ["10.1.2.3", "::ffff:10.1.2.3", "fd00:1::7"] {
            assert!(!is_refused(&some, address), "{address}");
        }
        for address in ["10.2.0.1", "127.0.0.1", "fd00:2::7"] {
            assert!(is_refused(&some, address), "{address}");
        }
        assert!(!is_refused(&guard("allow_private = true"), "127.0.0.1"));
    }

    #[test]
    fn webhook_urls_with_an_address_are_checked_in_every_spelling() {
        let guard = guard("");
        for url in [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]:8080/x",
            "http://127.1/",
        ] {
            let url = Url::parse(url).unwrap();
            assert!(guard.check_url(&url).is_err(), "{url}");
        }
        for url in ["https://8.8.8.8/", "https://hooks.shop.test/x"] {
            assert!(guard.check_url(&Url::parse(url).unwrap()).is_ok(), "{url}");
        }
    }
}
