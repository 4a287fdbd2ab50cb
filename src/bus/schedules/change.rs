//! Changes of schedules: which of them a handle may make, and how they are noted.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Schedules, target_of, unknown};
use crate::bus::completed::Completed;
use crate::bus::program_audit::is_done;
use crate::bus::schedules::link::{Link, check_name};
use crate::bus::schedules::links::Links;
use crate::bus::state::program_actions::ProgramAction;
use crate::error::{Error, ErrorKind, Result};
use crate::event::QueueName;

type IsFor = dyn Fn(&QueueName) -> bool + Send + Sync;

/// The queues whose schedules a handle changes; without them it is all.
#[derive(Clone, Default)]
pub(super) struct Confined(Option<Arc<IsFor>>);

impl fmt::Debug for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Confined").finish_non_exhaustive()
    }
}

impl Confined {
    fn is_for(&self, queue: &QueueName) -> bool {
        self.0.as_ref().is_none_or(|is_for| is_for(queue))
    }

    /// Whether a link is of a schedule that is there, of one of the queues.
    pub(super) fn allows(&self, link: &Link) -> bool {
        !link.removed && self.is_for(link.options.queue())
    }

    /// Checks that a link may have other options.
    pub(super) fn check_set(&self, link: &Link) -> Result<()> {
        if link.removed || self.is_for(link.options.queue()) {
            return Ok(());
        }
        let text = format!("the schedule {} is of another queue", link.name);
        Err(Error::new(ErrorKind::Conflict, text))
    }
}

impl Schedules {
    /// Returns a handle that changes schedules only of queues for which `may` returns `true`: for
    /// who has a right to some queues. Whether it may is looked at in the step of the change, so
    /// that no other one comes between. To [`pause`](Self::pause), [`resume`](Self::resume),
    /// [`remove`](Self::remove) and [`run_now`](Self::run_now) another one is not there;
    /// [`set`](Self::set) refuses it, and does not look at the new queue.
    ///
    /// # Examples
    ///
    /// ```
    /// # use duly::prelude::*;
    /// use duly::schedule::ScheduleOptions;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// # let bus = Bus::builder().store_url("memory:").publish_only().start().await?;
    /// let nightly = ScheduleOptions::new("report", "0 2 * * * Europe/Berlin")?;
    /// bus.schedules().set("nightly", nightly).await?;
    ///
    /// let of_mail = bus.schedules().only(|queue| queue.as_str() == "mail");
    /// assert!(!of_mail.remove("nightly").await?);
    /// # bus.shutdown(std::time::Duration::from_secs(1)).await
    /// # }
    /// ```
    #[must_use]
    pub fn only(mut self, may: impl Fn(&QueueName) -> bool + Send + Sync + 'static) -> Self {
        self.confined = Confined(Some(Arc::new(may)));
        self
    }

    /// Notes a change for the audit, if it is made, or may be.
    pub(super) fn note(&self, action: &'static str, name: &str, is_done: bool) {
        if is_done {
            let done = ProgramAction::new(action, target_of(name));
            self.audited_by.note_each(&self.inner, done);
        }
    }

    pub(super) async fn change(
        &self,
        action: &'static str,
        name: &str,
        edit: impl Fn(&mut Link) -> bool + Send + Sync + 'static,
    ) -> Result<()> {
        check_name(name)?;
        let (schedules, name) = (self.clone(), name.to_owned());
        let change = async move {
            let has_changed = AtomicBool::new(false);
            let edit = |link: &mut Link| {
                if !schedules.confined.allows(link) {
                    return Err(unknown(&link.name));
                }
                let is_other = edit(link);
                has_changed.store(is_other, Ordering::Relaxed);
                link.change += u64::from(is_other);
                Ok(is_other)
            };
            let links = Links::of(&schedules.inner, &name)?;
            let changed = links.change(&name, edit).await;
            let is_done = has_changed.into_inner() && is_done(&changed, Option::is_some);
            schedules.note(action, &name, is_done);
            changed?.map(drop).ok_or_else(|| unknown(&name))
        };
        Completed::new(&self.inner.runtime, change).await
    }
}
