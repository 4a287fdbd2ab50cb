//! Remedies as commands of a shell.

use crate::bus::explain::Reason;
use crate::event::EventId;

impl Reason {
    /// Returns in one line what can be done, as [`advice`](Self::advice) does, with commands of the
    /// program `duly` where there are some.
    #[must_use]
    pub fn command(&self, id: EventId, queue: &str) -> Option<String> {
        match self {
            Self::NotDue { .. } => Some(format!(
                "duly event run-now {id} --queue {queue}; or with the same id and queue \
                 `duly event reschedule`, `duly event cancel`"
            )),
            Self::Paused => Some(format!("duly queue resume {queue}")),
            Self::NoWorkers { everywhere: true } => {
                Some(format!("duly queue set {queue} --workers none"))
            }
            Self::RateLimited {
                is_declared: true, ..
            } => Some(format!(
                "duly queue set {queue} --rate 100, or what you want: it takes precedence over the \
                 declared rate"
            )),
            Self::RateLimited { .. } => Some(format!(
                "duly queue set {queue} --rate none, or a higher rate"
            )),
            Self::NoConsumer { .. } => Some(match queue.split_once('.') {
                Some((namespace, name)) => format!(
                    "start a process with a handler for queue {queue}, or one that leases: POST \
                     /v1/{namespace}/queues/{name}/leases"
                ),
                None => format!("start a process with a handler for queue {queue}"),
            }),
            Self::Dead { .. } => Some(format!(
                "fix the cause, then duly dead revive {id} --queue {queue}; or duly dead drop {id} \
                 --queue {queue}"
            )),
            _ => self.advice(id, queue),
        }
    }
}
