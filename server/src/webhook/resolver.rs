//! A resolver of names that returns only addresses that webhooks may reach.
//!
//! The connection is made to an address that it has returned, so a name that means another address
//! a moment later (DNS rebinding) gains nothing.

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::{AddressGuard, RefusedAddress};

/// The resolver of the system, behind the check of addresses.
#[derive(Debug)]
pub(super) struct GuardedResolver(pub(super) Arc<AddressGuard>);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = Arc::clone(&self.0);
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed = allowed(&guard, found)?;
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// Keeps the addresses that are allowed; fails when there were others only.
fn allowed(
    guard: &AddressGuard,
    found: impl Iterator<Item = SocketAddr>,
) -> Result<Vec<SocketAddr>, RefusedAddress> {
    let (mut allowed, mut refused) = (Vec::new(), None);
    for address in found {
        match guard.check(address.ip()) {
            Ok(()) => allowed.push(address),
            Err(why) => refused = refused.or(Some(why)),
        }
    }
    match refused {
        Some(why) if allowed.is_empty() => Err(why),
        _ => Ok(allowed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_name_keeps_its_allowed_addresses_only() {
        let guard = AddressGuard::new(&crate::settings::WebhookSettings::default());
        let [private, public] = [[127, 0, 0, 1], [8, 8, 8, 8]].map(|ip| SocketAddr::from((ip, 0)));
        let both = allowed(&guard, [private, public].into_iter());
        assert_eq!(both, Ok(vec![public]));
        assert!(allowed(&guard, [private].into_iter()).is_err());
    }
}
