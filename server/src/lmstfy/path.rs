//! Paths of the contract: which endpoint a method and a path mean.

use axum::http::{Method, StatusCode};
use percent_encoding::percent_decode_str;

/// An endpoint, with the id of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Publish,
    Bulk,
    Republish(String),
    Consume,
    Job(String),
    Delete(String),
    Peek,
    Size,
    Destroy,
    DeadSize,
    DeadPeek,
    Respawn,
    DeadDelete,
}

impl Endpoint {
    pub(super) fn takes_body(&self) -> bool {
        matches!(self, Self::Publish | Self::Bulk | Self::Republish(_))
    }
}

/// An endpoint of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) namespace: String,
    /// The queue; of a consume a list of queues.
    pub(super) queue: String,
    pub(super) endpoint: Endpoint,
}

/// What a request means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Endpoint(Route),
    /// The same path without its last slash.
    Redirect(StatusCode, String),
    Unknown,
}

/// Returns what a method and a path mean. The path is decoded first, as in the original: an
/// encoded slash separates like any other.
pub(super) fn target(method: &Method, path: &str) -> Target {
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    if let Some(route) = route(method, &decoded) {
        return Target::Endpoint(route);
    }
    // The path of a queue with a slash is the begin of other paths, and so is not corrected.
    let shorter = path.strip_suffix('/');
    match shorter.filter(|shorter| shorter.matches('/').count() > 3) {
        Some(shorter)
            if route(method, &percent_decode_str(shorter).decode_utf8_lossy()).is_some() =>
        {
            let status = match *method {
                Method::GET => StatusCode::MOVED_PERMANENTLY,
                _ => StatusCode::TEMPORARY_REDIRECT,
            };
            Target::Redirect(status, shorter.to_owned())
        }
        _ => Target::Unknown,
    }
}

fn route(method: &Method, path: &str) -> Option<Route> {
    let segments: Vec<&str> = path.strip_prefix("/api/")?.split('/').collect();
    // In the middle an empty name is a wrong name, at the end it is no path.
    let (namespace, queue, rest) = match segments.as_slice() {
        [.., ""] => return None,
        [namespace, queue, rest @ ..] => (*namespace, *queue, rest),
        _ => return None,
    };
    let endpoint = match (method, rest) {
        (&Method::PUT, []) => Endpoint::Publish,
        (&Method::GET, []) => Endpoint::Consume,
        (&Method::DELETE, []) => Endpoint::Destroy,
        (&Method::PUT, ["bulk"]) => Endpoint::Bulk,
        (&Method::GET, ["peek"]) => Endpoint::Peek,
        (&Method::GET, ["size"]) => Endpoint::Size,
        (&Method::PUT, ["job", id]) => Endpoint::Republish((*id).to_owned()),
        (&Method::GET, ["job", id]) => Endpoint::Job((*id).to_owned()),
        (&Method::DELETE, ["job", id]) => Endpoint::Delete((*id).to_owned()),
        (&Method::GET, ["deadletter"]) => Endpoint::DeadPeek,
        (&Method::PUT, ["deadletter"]) => Endpoint::Respawn,
        (&Method::DELETE, ["deadletter"]) => Endpoint::DeadDelete,
        (&Method::GET, ["deadletter", "size"]) => Endpoint::DeadSize,
        _ => return None,
    };
    Some(Route {
        namespace: namespace.to_owned(),
        queue: queue.to_owned(),
        endpoint,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(method: &Method, path: &str) -> Option<Endpoint> {
        match target(method, path) {
            Target::Endpoint(route) => Some(route.endpoint),
            _ => None,
        }
    }

    #[test]
    fn words_of_the_contract_are_names_of_queues_as_well() {
        for queue in ["bulk", "size", "peek", "job", "deadletter"] {
            let path = format!("/api/ns/{queue}");
            assert_eq!(endpoint(&Method::PUT, &path), Some(Endpoint::Publish));
            assert_eq!(endpoint(&Method::GET, &path), Some(Endpoint::Consume));
        }
    }

    #[test]
    fn a_superfluous_slash_is_corrected_on_a_leaf_alone() {
        let peek = Target::Redirect(StatusCode::MOVED_PERMANENTLY, "/api/ns/q/peek".to_owned());
        assert_eq!(target(&Method::GET, "/api/ns/q/peek/"), peek);
        let bulk = Target::Redirect(StatusCode::TEMPORARY_REDIRECT, "/api/ns/q/bulk".to_owned());
        assert_eq!(target(&Method::PUT, "/api/ns/q/bulk/"), bulk);
        assert_eq!(target(&Method::GET, "/api/ns/q/"), Target::Unknown);
        assert_eq!(target(&Method::GET, "/api/ns/q/job/"), Target::Unknown);
    }

    #[test]
    fn an_empty_name_is_one_unless_the_path_ends_there() {
        assert_eq!(endpoint(&Method::PUT, "/api//q"), Some(Endpoint::Publish));
        assert_eq!(
            endpoint(&Method::PUT, "/api/ns//bulk"),
            Some(Endpoint::Bulk)
        );
        for path in ["/api/", "/api//", "/api/ns/", "/api/ns", "/api/ns/q/job/"] {
            assert_eq!(target(&Method::GET, path), Target::Unknown, "{path}");
        }
    }

    #[test]
    fn other_methods_are_unknown() {
        for method in [Method::POST, Method::HEAD, Method::OPTIONS, Method::PATCH] {
            assert_eq!(target(&method, "/api/ns/q"), Target::Unknown);
        }
        assert_eq!(target(&Method::PUT, "/api/ns/q/size"), Target::Unknown);
    }
}
