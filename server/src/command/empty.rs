//! A note on a store that has nothing: the prefix in its URL may be mistyped.

use duly::Bus;

use super::output::said;

/// Writes to stderr that there is nothing under the prefix of a Redis URL, if so. It is no error: a new
/// store is empty, too.
pub(super) async fn note(url: &str, bus: &Bus) {
    let Some(prefix) = prefix_of(url) else {
        return;
    };
    if bus.queues().await.is_ok_and(|queues| queues.is_empty()) {
        said(&format!(
            "note: there is nothing under the prefix {prefix:?} of this store; ?prefix= in its URL \
             names another"
        ));
    }
}

/// Returns the key prefix that the URL of a Redis store names.
fn prefix_of(url: &str) -> Option<&str> {
    let url = url.starts_with("redis").then_some(url)?;
    let options = url.split_once('?').map_or("", |(_, options)| options);
    let mut options = options.split('&');
    let named = options.find_map(|option| option.strip_prefix("prefix="));
    Some(named.unwrap_or("duly"))
}

#[cfg(test)]
mod tests {
    use super::prefix_of;

    #[test]
    fn the_prefix_is_that_of_the_url() {
        for (url, prefix) in [
            ("sqlite:duly.db", None),
            ("redis://host", Some("duly")),
            ("redis-cluster://a,b?prefix=shop", Some("shop")),
            ("rediss://host/1?timeout=2s&prefix=shop", Some("shop")),
        ] {
            assert_eq!(prefix_of(url), prefix, "{url}");
        }
    }
}
