//! One request: a signed POST, and what its response means.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use bytes::Bytes;
use duly::Event;
use duly::EventId;
use duly::codec::Codec;
use duly::lease::EncodedPayload;
use reqwest::{Certificate, Client, Response, redirect};
use tokio::time::{Instant, timeout_at};

use super::address::{AddressGuard, RefusedAddress};
use super::failure::{Failure, FailureKind};
use super::lookups::{Lookups, NoPlace};
use super::resolver::{self, GuardedResolver};
use super::retry_after;
use super::secret::signatures;
use super::target::{Target, TargetKey};
use crate::clock;
use crate::settings::WebhookSettings;

/// The most bytes of a response's body that are read.
const BODY_BYTES_MAX: usize = 64 << 10;
/// How much of the body of a failure is kept.
const KEPT_BYTES: usize = 512;
/// How long a body is read once the status is known: a connection whose body was read to its end is
/// used again.
const BODY_TIMEOUT: Duration = Duration::from_secs(2);
/// As [`BODY_TIMEOUT`], of a success: its event waits for it.
const SUCCESS_BODY_TIMEOUT: Duration = Duration::from_millis(100);
/// How many idle connections a host keeps, and for how long: there may be a thousand hosts.
const IDLE_MAX: usize = 4;
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// How requests name their sender.
const USER_AGENT: &str = concat!("duly/", env!("CARGO_PKG_VERSION"));

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const ATTEMPT: HeaderName = HeaderName::from_static("duly-attempt");
const NAMESPACE: HeaderName = HeaderName::from_static("duly-namespace");
const QUEUE: HeaderName = HeaderName::from_static("duly-queue");
const DUE: HeaderName = HeaderName::from_static("duly-due-ms");
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACE_STATE: HeaderName = HeaderName::from_static("tracestate");

/// An event to send.
#[derive(Debug)]
pub(super) struct Message {
    id: EventId,
    headers: HeaderMap,
    body: Bytes,
}

impl Message {
    pub(super) fn new(key: &TargetKey, event: Event<EncodedPayload>) -> Self {
        let mut headers = HeaderMap::new();
        let mut set = |name: HeaderName, value: &str| {
            // A value that no header can have is left out.
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        let by_codec = match event.payload.codec {
            Codec::Json => "application/json",
            Codec::MsgPack => "application/msgpack",
            _ => "application/octet-stream",
        };
        set(header::CONTENT_TYPE, by_codec);
        let mut named = event.headers().iter();
        if let Some((_, own)) = named.find(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            set(header::CONTENT_TYPE, own);
        }
        set(ATTEMPT, &event.attempt().to_string());
        set(NAMESPACE, &key.namespace);
        set(QUEUE, &key.queue);
        if let Some(due) = event.due() {
            set(DUE, &due.as_millis().to_string());
        }
        if let Some(trace) = event.trace() {
            set(TRACE_PARENT, trace.traceparent());
            if let Some(state) = trace.tracestate() {
                set(TRACE_STATE, state);
            }
        }
        Self {
            id: event.id(),
            headers,
            body: event.payload.bytes.into(),
        }
    }
}

/// A client for requests to targets.
#[derive(Debug)]
pub(super) struct Exchange {
    /// The client, or why there is none: such as a system without certificates.
    client: Result<Client, String>,
    guard: Arc<AddressGuard>,
    lookups: Lookups,
    allow_http: bool,
}

impl Exchange {
    pub(super) fn new(settings: &WebhookSettings, lookups: Lookups) -> Self {
        let guard = Arc::new(AddressGuard::new(settings));
        let client = client(settings, Arc::clone(&guard), lookups.clone());
        if let Err(why) = &client {
            tracing::error!(error = why, "webhooks cannot be delivered");
        }
        Self {
            client,
            guard,
            lookups,
            allow_http: settings.allow_http,
        }
    }

    /// Checks the URL of a target.
    pub(super) fn check(&self, target: &Target) -> Result<(), String> {
        target.check_url(&self.guard, self.allow_http)
    }

    /// Whether the name of a target is looked up, or is being so, or its URL has none.
    pub(super) fn is_ready(&self, target: &Target) -> bool {
        let name = target.url.domain();
        name.is_none_or(|name| self.lookups.is_ready(name))
    }

    /// Waits until the name of a target is being looked up: a wait for that is no part of the request.
    pub(super) async fn ready(&self, namespace: &Arc<str>, target: &Target) -> Result<(), NoPlace> {
        match target.url.domain() {
            Some(name) => self.lookups.ready(namespace, name).await,
            None => Ok(()),
        }
    }

    /// Sends a message of a namespace; succeeds with a status of 2xx.
    pub(super) async fn send(
        &self,
        namespace: &Arc<str>,
        target: &Target,
        message: &Message,
    ) -> Result<(), Failure> {
        let client = self.client.as_ref();
        let client = client.map_err(|why| Failure::new(FailureKind::Client, why))?;
        // An address in the URL is not resolved, so it is checked here; the settings may have
        // changed since it was stored.
        self.check(target)
            .map_err(|why| Failure::new(FailureKind::Address, why))?;
        let ends = Instant::now() + target.timeout();
        let request = client
            .post(target.url.clone())
            .headers(target.headers.clone())
            .headers(signed(target, message))
            .body(message.body.clone());
        let sent = resolver::for_namespace(namespace, request.send());
        let response = match timeout_at(ends, sent).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(of_error(error)),
            Err(_) => {
                let text = format!("no response within {:?}", target.timeout());
                return Err(Failure::new(FailureKind::Timeout, text));
            }
        };
        judge(response, ends).await
    }
}

/// The headers of a message, with its signatures.
fn signed(target: &Target, message: &Message) -> HeaderMap {
    let mut headers = message.headers.clone();
    let (id, now_s) = (message.id.to_string(), clock::now().as_millis() / 1_000);
    let signature = signatures(&target.secrets, &id, now_s, &message.body);
    for (name, text) in [
        (ID, id),
        (TIMESTAMP, now_s.to_string()),
        (SIGNATURE, signature),
    ] {
        // Ids, numbers and base64 are values of headers.
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(name, value);
        }
    }
    headers
}

/// Decides what a response means.
async fn judge(mut response: Response, ends: Instant) -> Result<(), Failure> {
    let status = response.status();
    if status.is_success() {
        let ends = ends.min(Instant::now() + SUCCESS_BODY_TIMEOUT);
        begin(&mut response, ends).await;
        return Ok(());
    }
    let retry_after = response.headers().get(header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|value| retry_after::delay(value, clock::now()));
    let kind = FailureKind::of_status(status.as_u16());
    let ends = ends.min(Instant::now() + BODY_TIMEOUT);
    let body = begin(&mut response, ends).await;
    let text = match kind {
        FailureKind::Redirect => format!(
            "the target redirects (HTTP {}), which is refused; set the webhook to the final url",
            status.as_u16()
        ),
        _ => format!(
            "HTTP {}: {}",
            status.as_u16(),
            String::from_utf8_lossy(&body)
        ),
    };
    Err(Failure {
        retry_after,
        ..Failure::new(kind, text)
    })
}

/// Reads a body within a bound and a time; returns its begin.
async fn begin(response: &mut Response, ends: Instant) -> Vec<u8> {
    let (mut kept, mut read) = (Vec::new(), 0_usize);
    while read < BODY_BYTES_MAX {
        let Ok(Ok(Some(chunk))) = timeout_at(ends, response.chunk()).await else {
            break;
        };
        let room = KEPT_BYTES.saturating_sub(kept.len()).min(chunk.len());
        kept.extend_from_slice(&chunk[..room]);
        read = read.saturating_add(chunk.len());
    }
    kept
}

/// The failure of a request without a response; its text has no URL.
fn of_error(error: reqwest::Error) -> Failure {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut kind = if error.is_timeout() {
        FailureKind::Timeout
    } else {
        FailureKind::Connection
    };
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(no_place) = error.downcast_ref::<NoPlace>() {
            return Failure::new(FailureKind::NotLookedUp, no_place.to_string());
        }
        if let Some(refused) = error.downcast_ref::<RefusedAddress>() {
            return Failure::new(FailureKind::Address, refused.to_string());
        }
        let is_late = error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::TimedOut);
        if is_late {
            kind = FailureKind::Timeout;
        }
        text = format!("{text}: {error}");
        cause = error.source();
    }
    Failure::new(kind, text)
}

fn client(
    settings: &WebhookSettings,
    guard: Arc<AddressGuard>,
    lookups: Lookups,
) -> Result<Client, String> {
    let mut builder = crate::client::builder()
        .user_agent(USER_AGENT)
        .redirect(redirect::Policy::none())
        .no_proxy()
        .referer(false)
        .connect_timeout(settings.connect_timeout())
        .pool_max_idle_per_host(IDLE_MAX)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .dns_resolver(GuardedResolver::new(guard, lookups));
    if let Some(file) = &settings.ca_certificates {
        let failed = |error: &dyn std::fmt::Display| {
            format!("webhooks.ca_certificates: {}: {error}", file.display())
        };
        let pem = std::fs::read(file).map_err(|error| failed(&error))?;
        let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| failed(&error))?;
        builder = builder.tls_certs_merge(certificates);
    }
    builder.build().map_err(|error| {
        let cause = error
            .source()
            .map_or_else(String::new, |cause| format!(": {cause}"));
        format!("no client for https: {error}{cause}")
    })
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::{Barrier, watch};
    use tokio::time::timeout;

    use super::*;

    const MANY: usize = 16;

    /// Responds to each request once as many have come, and keeps its connection.
    async fn respond(mut stream: TcpStream, barrier: Arc<Barrier>, open: watch::Sender<usize>) {
        open.send_modify(|open| *open += 1);
        let mut request = [0; 4_096];
        while let Ok(1..) = stream.read(&mut request).await {
            barrier.wait().await;
            let response = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(response.as_bytes()).await.unwrap();
        }
        open.send_modify(|open| *open -= 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_host_keeps_few_idle_connections_of_webhooks() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let barrier = Arc::new(Barrier::new(MANY));
        let (counted, mut open) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(respond(stream, Arc::clone(&barrier), counted.clone()));
            }
        });
        let settings = WebhookSettings::default();
        let guard = Arc::new(AddressGuard::new(&settings));
        let client = client(&settings, guard, resolver::of_system()).unwrap();
        let sent = join_all((0..MANY).map(|_| client.post(&url).send())).await;
        for response in sent {
            assert_eq!(response.unwrap().bytes().await.unwrap().len(), 0);
        }
        let few = open.wait_for(|open| *open <= IDLE_MAX);
        let few = timeout(Duration::from_secs(5), few).await;
        few.expect("few are kept").unwrap();
    }
}
