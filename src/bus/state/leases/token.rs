//! Lease tokens: what any process needs to settle a leased event.

use std::fmt;
use std::str::FromStr;

use crate::core::op::RequestId;
use crate::error::{Error, Result, shown};
use crate::event::{BucketId, BucketKey, EventId, QueueName};
use crate::record::NodeId;

/// The lease of one attempt, as text that is safe in a URL: with it any process that shares the
/// store may settle or extend the lease ([`Bus::settle_lease`](crate::Bus::settle_lease),
/// [`Bus::extend_lease`](crate::Bus::extend_lease)).
///
/// It has letters, digits, `.`, `_` and `-`, and names the event, its queue, the holder and its
/// fetch. It is no secret of its own: whoever can guess the holder's 64 random bits has a valid
/// one.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # use duly::prelude::*;
/// use duly::lease::{LeaseOutcome, LeaseStatus, LeaseToken};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> duly::Result<()> {
/// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
/// let queue = bus.queue_named::<u64>("order-close")?;
/// queue.push(7, When::Now).await?;
/// let leased = queue.lease(1, Duration::from_secs(30)).send().await?;
/// let text = leased[0].token().to_string();
///
/// let token: LeaseToken = text.parse()?; // in another process, for example
/// assert_eq!(bus.settle_lease(&token, LeaseOutcome::Ack).await?, LeaseStatus::Held);
/// # bus.shutdown(Duration::from_secs(1)).await
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseToken {
    pub(in crate::bus) id: EventId,
    pub(in crate::bus) queue: QueueName,
    pub(in crate::bus) bucket: BucketId,
    pub(in crate::bus) node: NodeId,
    pub(in crate::bus) request: RequestId,
    pub(in crate::bus) attempt: u16,
    /// When it was leased, in microseconds since the epoch.
    pub(in crate::bus) fetched_us: u64,
}

impl LeaseToken {
    /// Returns the event.
    #[must_use]
    pub fn id(&self) -> EventId {
        self.id
    }

    /// Returns the event's queue.
    #[must_use]
    pub fn queue(&self) -> &QueueName {
        &self.queue
    }

    /// Returns the number of the attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u16 {
        self.attempt
    }

    pub(in crate::bus) fn bucket(&self) -> BucketKey {
        BucketKey::new(self.queue.clone(), self.bucket)
    }
}

/// The event, the holder, the fetch, the attempt and the time of the lease, and the queue; and after
/// the attempt the bucket, where that is not the one that the id names.
impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            queue,
            bucket,
            node,
            request,
            attempt,
            fetched_us,
        } = self;
        write!(f, "{id}-{:x}-{request:x}-{attempt:x}", node.0)?;
        if *bucket != id.bucket() {
            write!(f, ".{:x}", bucket.0)?;
        }
        write!(f, "-{fetched_us:x}-{queue}")
    }
}

impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseToken({self})")
    }
}

impl FromStr for LeaseToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).ok_or_else(|| {
            Error::invalid(format!(
                "\"{}\" is no lease token; pass the text of one as it was",
                shown(text)
            ))
        })
    }
}

fn parse(text: &str) -> Option<LeaseToken> {
    let mut parts = text.splitn(6, '-');
    let number = |digits: &str| {
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u64::from_str_radix(digits, 16).ok().filter(|_| is_hex)
    };
    let small = |digits: &str| u16::try_from(number(digits)?).ok();
    let id: EventId = parts.next()?.parse().ok()?;
    let node = NodeId(number(parts.next()?)?);
    let request = number(parts.next()?)?;
    let attempt = parts.next()?;
    let (attempt, bucket) = match attempt.split_once('.') {
        Some((attempt, bucket)) => (attempt, BucketId(small(bucket)?)),
        None => (attempt, id.bucket()),
    };
    Some(LeaseToken {
        id,
        bucket,
        node,
        request,
        attempt: small(attempt)?,
        fetched_us: number(parts.next()?)?,
        queue: parts.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(queue: &str) -> LeaseToken {
        LeaseToken {
            id: EventId::from_bytes([7; 16]),
            queue: queue.parse().unwrap(),
            bucket: BucketId(0x0707),
            node: NodeId(u64::MAX),
            request: 1 << 40,
            attempt: 1_000,
            fetched_us: 1_767_225_600_000_001,
        }
    }

    #[test]
    fn a_token_is_read_as_it_was_written_whatever_its_queue() {
        let long = "q".repeat(QueueName::LEN_MAX);
        for queue in ["orders", "-a-b-", "_n.s-q", &long] {
            let text = token(queue).to_string();
            assert_eq!(text.parse::<LeaseToken>().unwrap(), token(queue));
            let is_safe = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            assert!(text.chars().all(is_safe), "{text}");
            let elsewhere = LeaseToken {
                bucket: BucketId(3),
                ..token(queue)
            };
            let text = elsewhere.to_string();
            assert_eq!(text.parse::<LeaseToken>().unwrap(), elsewhere, "{text}");
            assert!(text.chars().all(is_safe), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let whole = token("orders").to_string();
        let short = whole.replace("-orders", "");
        let signed = whole.replacen("-f", "-+f", 1);
        for text in [
            "",
            "-",
            "a-b-c-d-e-f",
            &short,
            &signed,
            &format!("{whole}/x"),
        ] {
            assert!(text.parse::<LeaseToken>().is_err(), "{text}");
        }
    }
}
