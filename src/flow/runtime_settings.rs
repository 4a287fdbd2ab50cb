//! A cache of the runtime settings of queues, as this process last read them, over the rates that
//! this process declares.

use std::collections::BTreeMap;

use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::event::QueueName;
use crate::store::Control;

/// The rates that the options of this process declare, which hold where the store has none.
#[derive(Debug)]
pub(crate) struct DeclaredRates {
    /// Of each queue that has options of its own.
    pub(crate) named: BTreeMap<QueueName, Option<f64>>,
    /// Of any other queue.
    pub(crate) others: Option<f64>,
}

impl DeclaredRates {
    fn of(&self, queue: &QueueName) -> Option<f64> {
        match self.named.get(queue) {
            Some(rate) => *rate,
            None => self.others.filter(|_| !queue.is_own()),
        }
    }
}

/// The runtime settings of every queue.
#[derive(Debug)]
pub(crate) struct RuntimeSettings {
    declared: DeclaredRates,
    set: RwLock<BTreeMap<QueueName, Control>>,
    /// Notified at each change; one task waits for it.
    changed: Notify,
}

impl RuntimeSettings {
    pub(crate) fn new(declared: DeclaredRates) -> Self {
        Self {
            declared,
            set: RwLock::default(),
            changed: Notify::new(),
        }
    }

    /// Returns the settings of a queue with the declared rate, where no rate is set.
    pub(crate) fn in_force(&self, queue: &QueueName) -> Control {
        let set = self.of(queue);
        Control {
            rate: set.rate.or_else(|| self.declared.of(queue)),
            ..set
        }
    }

    /// Returns the rate that this process declares for a queue.
    pub(crate) fn declared_rate(&self, queue: &QueueName) -> Option<f64> {
        self.declared.of(queue)
    }

    /// Returns what is set of a queue.
    pub(crate) fn of(&self, queue: &QueueName) -> Control {
        let set = self.set.read();
        set.get(queue).copied().unwrap_or_default()
    }

    /// Replaces all settings.
    pub(crate) fn replace(&self, read: BTreeMap<QueueName, Control>) {
        *self.set.write() = read;
        self.changed.notify_one();
    }

    /// Waits until the settings were replaced, since the last call or now.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> QueueName {
        QueueName::new(name).expect("a name")
    }

    #[test]
    fn a_default_rate_slows_no_queue_of_the_bus_itself() {
        let settings = RuntimeSettings::new(DeclaredRates {
            named: [(queue("free"), None), (queue("slow"), Some(2.0))].into(),
            others: Some(10.0),
        });
        let rate = |name| settings.in_force(&queue(name)).rate;
        assert_eq!(rate("slow"), Some(2.0));
        assert_eq!(rate("free"), None);
        assert_eq!(rate("any"), Some(10.0));
        assert_eq!(rate("duly.schedules"), None);

        let set = Control {
            rate: Some(5.0),
            ..Control::default()
        };
        settings.replace([(queue("slow"), set), (queue("duly.schedules"), set)].into());
        assert_eq!(rate("slow"), Some(5.0));
        assert_eq!(rate("duly.schedules"), Some(5.0));
        settings.replace(BTreeMap::new());
        assert_eq!(rate("slow"), Some(2.0));
    }
}
