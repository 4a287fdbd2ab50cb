//! A resolver of names that returns only addresses that webhooks may reach.
//!
//! The connection is made to an address that it has returned, so a name that means another address
//! a moment later (DNS rebinding) gains nothing.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::{AddressGuard, RefusedAddress};
use super::lookups::{LookupError, Lookups};

tokio::task_local! {
    /// The namespace whose request runs, and may have to look a name up.
    static NAMESPACE: Arc<str>;
}

/// Sends a request of a namespace, whose share of lookups it has.
pub(super) async fn for_namespace<F: Future>(namespace: &Arc<str>, request: F) -> F::Output {
    NAMESPACE.scope(Arc::clone(namespace), request).await
}

/// Lookups by the resolver of the system.
pub(super) fn of_system() -> Lookups {
    Lookups::new(|name| Ok((name, 0).to_socket_addrs()?.collect()))
}

/// A resolver behind the check of addresses.
#[derive(Debug)]
pub(super) struct GuardedResolver {
    guard: Arc<AddressGuard>,
    lookups: Lookups,
}

impl GuardedResolver {
    pub(super) fn new(guard: Arc<AddressGuard>, lookups: Lookups) -> Self {
        Self { guard, lookups }
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (guard, lookups) = (Arc::clone(&self.guard), self.lookups.clone());
        // A client calls this where its request is polled.
        let namespace = NAMESPACE.try_with(Arc::clone).unwrap_or_default();
        Box::pin(async move {
            let found = match lookups.find(&namespace, name.as_str()).await {
                Ok(found) => found,
                Err(LookupError::NoPlace(no_place)) => return Err(no_place.into()),
                Err(LookupError::Failed(error)) => return Err(error.into()),
            };
            let allowed = allowed(&guard, found.into_iter())?;
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
