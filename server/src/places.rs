//! Places for connections, as many as the limit of open files allows.

use crate::settings::{LimitSettings, WebhookSettings};

/// File descriptors beside those of connections and webhooks, of a limit that is high enough.
const FILES_MARGIN: u64 = 1_024;
/// Those of a low limit: for stores, webhooks and files.
const FILES_MARGIN_MIN: u64 = 64;
/// The fewest connections of a listener.
const CONNECTIONS_MIN: usize = 8;

/// How many connections each listener has, so that file descriptors are left for everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) api: usize,
    pub(crate) admin: usize,
}

impl Places {
    /// Raises the limit of open files as far as it may go, and shares what it leaves. Each request of
    /// a webhook has a connection, too.
    pub(crate) fn of(limits: &LimitSettings, webhooks: &WebhookSettings) -> Self {
        let requests = u64::try_from(webhooks.concurrency).unwrap_or(u64::MAX);
        let margin = FILES_MARGIN.saturating_add(requests);
        Self::new(raise_file_limit(limits.connections, margin), margin, limits)
    }

    /// Shares what the limit of open files leaves beside a margin, if there is one that is too low.
    fn new(files: Option<u64>, margin: u64, limits: &LimitSettings) -> Self {
        let wanted = limits.connections;
        let (api, admin) = match files {
            None => (wanted, wanted),
            Some(files) => {
                let margin = (files / 4).clamp(FILES_MARGIN_MIN, margin);
                let left = usize::try_from(files.saturating_sub(margin)).unwrap_or(usize::MAX);
                let admin = (left / 8).max(CONNECTIONS_MIN).min(wanted);
                let api = left.saturating_sub(admin).max(CONNECTIONS_MIN).min(wanted);
                tracing::warn!(files, api, admin, "fewer connections than wanted");
                (api, admin)
            }
        };
        Self { api, admin }
    }
}

/// Raises the limit of open files as far as it may go; returns it where that is too little.
fn raise_file_limit(connections: usize, margin: u64) -> Option<u64> {
    let wanted = u64::try_from(connections)
        .unwrap_or(u64::MAX)
        .saturating_mul(2);
    let wanted = wanted.saturating_add(margin);
    match rlimit::increase_nofile_limit(wanted) {
        Ok(limit) if limit < wanted => {
            tracing::warn!(limit, wanted, "limit of open files is low");
            Some(limit)
        }
        Ok(_) => None,
        Err(error) => {
            tracing::warn!(%error, "limit of open files not raised");
            rlimit::getrlimit(rlimit::Resource::NOFILE)
                .map(|(limit, _)| limit)
                .ok()
                .filter(|limit| *limit < wanted)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_by_the_limit_of_files_less_a_reserve() {
        let limits = LimitSettings::default();
        let wanted = limits.connections;
        let all = Places::new(None, FILES_MARGIN, &limits);
        assert_eq!((all.api, all.admin), (wanted, wanted));
        for files in [0, 1, 64, 100, 300, 1_024, 4_096, 20_000, 80_000] {
            let Places { api, admin } = Places::new(Some(files), FILES_MARGIN, &limits);
            assert!(
                api >= CONNECTIONS_MIN && admin >= CONNECTIONS_MIN,
                "{files}"
            );
            assert!(api <= wanted && admin <= wanted, "{files}");
            let taken = u64::try_from(api + admin).expect("few");
            assert!(files < 100 || taken + FILES_MARGIN_MIN <= files, "{files}");
        }
        assert_eq!(
            Places::new(Some(300), FILES_MARGIN, &limits),
            Places {
                api: 197,
                admin: 28
            }
        );
        // Webhooks have theirs beside.
        let taken = |margin| {
            let Places { api, admin } = Places::new(Some(12_000), margin, &limits);
            api + admin
        };
        assert_eq!(taken(FILES_MARGIN) - taken(FILES_MARGIN + 512), 512);
    }
}
