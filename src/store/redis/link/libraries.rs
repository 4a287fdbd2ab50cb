//! The libraries of functions that servers have.

use std::collections::HashSet;

use redis::Value;

use super::managed::ManagedConnection;

/// Removes the libraries of other versions than `ours`, or each version would leave its own behind.
/// One that is still used is loaded again by its next call. What fails is left to the next store that
/// opens.
pub(in crate::store::redis) async fn remove_others(link: &ManagedConnection, ours: &HashSet<&str>) {
    let mut list = redis::cmd("FUNCTION");
    list.arg("LIST").arg("LIBRARYNAME").arg("duly\\_*");
    let Ok(replies) = link.send_everywhere(&list).await else {
        return;
    };
    let mut found = HashSet::new();
    for reply in &replies {
        names_in(reply, &mut found);
    }
    for name in found.iter().filter(|name| !ours.contains(name.as_str())) {
        let mut delete = redis::cmd("FUNCTION");
        delete.arg("DELETE").arg(name);
        let _ = link.send_everywhere(&delete).await; // another store may be quicker
    }
}

/// Adds the texts of a reply that are names of libraries of duly, wherever they are in it.
fn names_in(value: &Value, found: &mut HashSet<String>) {
    match value {
        Value::BulkString(text) => {
            let text = std::str::from_utf8(text).ok();
            found.extend(
                text.filter(|text| text.starts_with("duly_"))
                    .map(String::from),
            );
        }
        Value::SimpleString(text) if text.starts_with("duly_") => {
            found.insert(text.clone());
        }
        Value::Array(parts) | Value::Set(parts) => {
            parts.iter().for_each(|part| names_in(part, found));
        }
        Value::Map(pairs) => pairs.iter().for_each(|(key, value)| {
            names_in(key, found);
            names_in(value, found);
        }),
        _ => {}
    }
}
