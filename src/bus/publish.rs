//! Publishing values without durability: straight into the ring, in nanoseconds.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bus::handle::Bus;
use crate::bus::queue::Queue;
use crate::error::{Error, ErrorKind, Result};
use crate::flow::ValuePublisher;
use crate::handler::Annotated;

impl Bus {
    /// Publishes a value straight into the ring of its handler: **a crash loses it**, and it has no
    /// retries and no record. Waits while the ring is full.
    ///
    /// For many values get the [`Queue`] or a [`Publisher`] once and publish there.
    ///
    /// # Errors
    ///
    /// As [`Queue::publish`].
    pub async fn publish<H>(&self, payload: H::Value) -> Result<()>
    where
        H: Annotated,
        H::Value: Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        self.queue::<H>().publish(payload).await
    }
}

impl<T: Serialize + Send + Sync + 'static> Queue<T> {
    /// Publishes a value straight into the ring of its handler: **a crash loses it**, and it has no
    /// retries and no record. Waits while the ring is full.
    ///
    /// A handler that waits here keeps its worker. If it publishes to its own queue, or in a circle
    /// of queues, and every worker that could make room waits for room itself, it does not wait:
    /// the value is dropped and the call fails with [`ErrorKind::Full`]. So with 16 workers 15 may
    /// wait, and one worker alone never waits for itself. A task that the handler has spawned is
    /// not seen, and may wait for ever. [`push`](Self::push) has no such limit.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] when this process has no handler for the queue, or one of another
    /// payload; [`ErrorKind::Closed`] when the bus is stopping; [`ErrorKind::Full`] in a handler
    /// whose wait could never end, as above.
    pub async fn publish(&self, payload: T) -> Result<()> {
        let port = self.port()?;
        match port.try_publish(payload) {
            Ok(()) => Ok(()),
            Err((payload, _full)) => port.publish(payload).await,
        }
    }

    /// Publishes a value as [`publish`](Self::publish) does, if there is room now.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish), and [`ErrorKind::Full`]; both return the value.
    pub fn try_publish(&self, payload: T) -> Result<(), (T, Error)> {
        match self.port() {
            Ok(port) => port.try_publish(payload),
            Err(error) => Err((payload, error)),
        }
    }

    /// Returns a publisher, for one task that publishes a lot.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish).
    pub fn publisher(&self) -> Result<Publisher<T>> {
        Ok(Publisher(self.port()?.split()))
    }

    fn port(&self) -> Result<&Arc<dyn ValuePublisher<T>>> {
        if let Some(port) = self.port.get() {
            return Ok(port);
        }
        let flow = self.handle.inner.flow();
        let Some(flow) = flow.as_ref() else {
            return Err(Error::closed(
                "the bus is stopping and accepts no more events",
            ));
        };
        let Some(port) = flow.port::<T>(&self.handle.name) else {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!(
                    "queue {} has no handler for this payload in this process; push to it instead",
                    self.handle.name
                ),
            ));
        };
        Ok(self.port.get_or_init(|| port))
    }
}

/// Publishes values of one type straight into one ring: **a crash loses them**.
pub struct Publisher<T>(Box<dyn ValuePublisher<T>>);

impl<T> fmt::Debug for Publisher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Publisher")
    }
}

impl<T: Send + Sync + 'static> Publisher<T> {
    /// Publishes a value; waits while the ring is full, as [`Queue::publish`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`] when the bus is stopping; [`ErrorKind::Full`] in a handler whose wait
    /// could never end.
    pub async fn publish(&mut self, payload: T) -> Result<()> {
        match self.0.try_publish(payload) {
            Ok(()) => Ok(()),
            Err((payload, _full)) => self.0.publish(payload).await,
        }
    }

    /// Publishes a value if there is room now.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Full`] and [`ErrorKind::Closed`], with the value.
    pub fn try_publish(&mut self, payload: T) -> Result<(), (T, Error)> {
        self.0.try_publish(payload)
    }

    /// Publishes as many values as there is room for, from the front, with one step on the ring;
    /// returns their number.
    pub fn try_publish_many(&mut self, payloads: &mut VecDeque<T>) -> usize {
        self.0.try_publish_many(payloads)
    }

    /// Publishes all values in order, as many per step on the ring as there is room for; waits
    /// while it is full. When this is cancelled or fails, the unpublished values stay in
    /// `payloads`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`] when the bus is stopping; [`ErrorKind::Full`] in a handler whose wait
    /// could never end.
    pub async fn publish_many(&mut self, payloads: &mut VecDeque<T>) -> Result<()> {
        self.0.publish_many(payloads).await
    }
}
