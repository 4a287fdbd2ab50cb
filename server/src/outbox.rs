//! The relay of the outbox of a program's database.

use std::time::Duration;

use duly::Result;
use duly_outbox::{Relay, RelayOptions};

use crate::pools::Pools;
use crate::settings::OutboxSettings;

/// Starts the relay, if the settings name a database. That may come later.
///
/// # Errors
///
/// A URL that is none, ends that are kept too shortly, and tables that are missing.
pub(crate) async fn relay(settings: &OutboxSettings, pools: &Pools) -> Result<Option<Relay>> {
    let pool = pools.get(&settings.pool); // there, as settings are checked
    let (Some(url), Some(pool)) = (&settings.url, pool) else {
        return Ok(None);
    };
    let mut options = RelayOptions::default();
    options.done_kept = Duration::from_secs(settings.done_kept_s);
    let relay = Relay::connect(pool.bus(), url, options).await?;
    Ok(Some(relay))
}
