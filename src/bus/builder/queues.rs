//! The queues of a bus, and the options of each from all their sources.

use std::collections::{BTreeMap, btree_map};
use std::sync::Arc;

use crate::bus::builder::options::BusBuilder;
use crate::config::{Settings, queue_meant, spelled_otherwise};
use crate::error::{Error, Result};
use crate::event::QueueName;
use crate::flow::{Check, Entry, QueueChoices, QueueOptions, annotations, checks, linked};
use crate::panics;

/// The options of queues that are named in code or settings.
pub(super) type NamedQueues = BTreeMap<QueueName, Arc<QueueOptions>>;

/// What settings and builder say of queues whose handler is not known.
pub(super) type ChosenOptions = BTreeMap<QueueName, QueueChoices>;

impl BusBuilder {
    /// Returns the queues besides the linked ones that a variable may name.
    pub(super) fn known_queues(&self) -> Result<Vec<QueueName>> {
        let by_hand = self.handlers.iter().map(|entry| entry.annotation.queue);
        let chosen = self.queues.keys().map(String::as_str);
        by_hand.chain(chosen).map(QueueName::new).collect()
    }

    /// Returns every handler to run, with its queue's options.
    pub(super) fn handlers(
        &mut self,
        settings: &Settings,
    ) -> Result<Vec<(QueueName, Arc<QueueOptions>, Entry)>> {
        if self.publish_only {
            return Ok(Vec::new());
        }
        let mut entries = std::mem::take(&mut self.handlers);
        if self.linked {
            entries.extend(linked());
        }
        if entries.is_empty() {
            panics::reported(|| {
                tracing::warn!(
                    "bus has no handlers; name a crate of handlers in code, `use my_handlers as \
                     _;`, or call `publish_only` if it only pushes"
                );
            });
        }
        let mut taken: BTreeMap<QueueName, &'static str> = BTreeMap::new();
        let mut handlers = Vec::new();
        for entry in entries {
            let queue = QueueName::new(entry.annotation.queue)?;
            if let Some(other) = taken.insert(queue.clone(), entry.handler) {
                return Err(Error::invalid(format!(
                    "queue {queue} has two handlers, {other} and {}; a queue has one",
                    entry.handler
                )));
            }
            if let Some(need) = entry
                .annotation
                .states
                .iter()
                .find(|need| !self.states.has((need.id)()))
            {
                return Err(Error::invalid(format!(
                    "handler {} of queue {queue} needs a state of type {}, which the builder \
                     does not have; add `.state(..)`",
                    entry.handler,
                    (need.name)()
                )));
            }
            let annotated = QueueChoices::from(&entry.annotation);
            let options = self.options_of(&queue, settings, &annotated)?;
            if options.consume {
                panics::reported(|| {
                    tracing::info!(
                        %queue,
                        handler = entry.handler,
                        buckets = options.buckets,
                        workers = options.workers,
                        attempts = options.attempts,
                        timeout = ?options.timeout,
                        "handler registered"
                    );
                });
                handlers.push((queue, Arc::new(options), entry));
            }
        }
        Ok(handlers)
    }

    /// Returns the options of each queue that has a handler, also one that does not run here, or
    /// its own options; and those own options where no handler is known. Call it before
    /// [`handlers`](Self::handlers), which takes the handlers registered by hand.
    pub(super) fn named_queues(&self, settings: &Settings) -> Result<(NamedQueues, ChosenOptions)> {
        let (mut queues, mut chosen) = (NamedQueues::new(), ChosenOptions::new());
        let by_hand = self.handlers.iter().map(|entry| entry.annotation);
        for annotation in annotations().copied().chain(by_hand) {
            let queue = QueueName::new(annotation.queue)?;
            let options = self.options_of(&queue, settings, &QueueChoices::from(&annotation))?;
            queues.insert(queue, Arc::new(options));
        }
        self.check_names(settings, &queues)?;
        let by_builder = self.queues.keys().map(|name| QueueName::new(name.as_str()));
        for queue in by_builder.chain(settings.queues.keys().cloned().map(Ok)) {
            if let btree_map::Entry::Vacant(place) = queues.entry(queue?) {
                let queue = place.key().clone();
                let options = self.options_of(&queue, settings, &QueueChoices::default())?;
                place.insert(Arc::new(options));
                let by_settings = settings.queues.get(&queue).cloned().unwrap_or_default();
                let by_builder = self.queues.get(queue.as_str()).cloned().unwrap_or_default();
                chosen.insert(queue, by_builder.or(by_settings));
            }
        }
        Ok((queues, chosen))
    }

    /// Rejects options of a queue whose name is another spelling of a handler's, and logs other
    /// likely mistakes.
    fn check_names(&self, settings: &Settings, handled: &NamedQueues) -> Result<()> {
        let by_builder = self.queues.keys().map(|name| QueueName::new(name.as_str()));
        let by_settings = settings.queues.keys().cloned().map(Ok);
        for queue in by_settings.chain(by_builder) {
            let queue = queue?;
            if handled.contains_key(&queue) {
                continue;
            }
            if let Some(meant) = spelled_otherwise(&queue, handled.keys()) {
                return Err(Error::invalid(format!(
                    "there are settings for queue {queue}, which has no handler in this program; \
                     did you mean {meant}?"
                )));
            }
            if let Some(meant) = queue_meant(&queue, handled.keys()) {
                panics::reported(|| {
                    tracing::warn!(%queue, %meant, "settings for a queue that has no handler");
                });
            }
        }
        Ok(())
    }

    /// Returns the payload check of each queue that has a handler in this program, also one that
    /// does not run here. Call it before [`handlers`](Self::handlers).
    pub(super) fn checks(&self) -> Result<BTreeMap<QueueName, Check>> {
        let linked = checks().filter(|_| self.linked);
        let by_hand = self.handlers.iter();
        let by_hand = by_hand.map(|entry| (entry.annotation.queue, entry.check.clone()));
        linked
            .chain(by_hand)
            .map(|(queue, check)| Ok((QueueName::new(queue)?, check)))
            .collect()
    }

    fn options_of(
        &self,
        queue: &QueueName,
        settings: &Settings,
        annotated: &QueueChoices,
    ) -> Result<QueueOptions> {
        let mut options = QueueOptions::default()
            .with(&settings.queue_defaults)
            .with(annotated);
        if let Some(choices) = settings.queues.get(queue) {
            options = options.with(choices);
        }
        if let Some(choices) = self.queues.get(queue.as_str()) {
            options = options.with(choices);
        }
        options.check(queue)?;
        options.dedicated &= !self.virtual_time; // another runtime has its own time
        Ok(options)
    }
}
