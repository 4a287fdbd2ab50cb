//! The schedules that a program declares, and whether it carries schedules out.

use std::collections::BTreeMap;

use crate::bus::builder::options::BusBuilder;
use crate::bus::schedules::check_name;
use crate::bus::schedules::declare::Declared;
use crate::config::{ScheduleChoices, Settings};
use crate::error::{Error, Result};
use crate::event::QueueName;
use crate::handler::AnnotatedSchedule;
use crate::schedule::ScheduleOptions;

/// What a builder says of schedules.
#[derive(Debug, Default)]
pub(super) struct ScheduleSetup {
    declared: BTreeMap<String, ScheduleOptions>,
    deploy: Option<u64>,
    runs: Option<bool>,
}

impl BusBuilder {
    /// Declares a schedule of this program: it is made when the bus starts, or changed, if it was
    /// declared otherwise before. A second call with the same name replaces the first.
    ///
    /// One that a later build no longer declares goes on until it is
    /// [removed](crate::schedule::Schedules::remove). While builds with different declarations run,
    /// that of the later one holds, as [`deploy`](Self::deploy) says.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// use duly::prelude::*;
    /// use duly::event::Occurrence;
    /// use duly::schedule::ScheduleOptions;
    ///
    /// #[delay_event(queue = "report", register = false)]
    /// async fn report(event: Event<Occurrence>) -> Result<(), Failure> {
    ///     println!("a report of the time until {}", event.payload.instant);
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> duly::Result<()> {
    /// let workdays = ScheduleOptions::new("report", "0 9 * * MON-FRI Europe/Berlin")?;
    /// let bus = Bus::builder()
    ///     # .store_url("memory:")
    ///     .register(report {})
    ///     .schedule("daily-report", workdays)
    ///     .start()
    ///     .await?;
    /// # bus.shutdown(Duration::from_secs(1)).await
    /// # }
    /// ```
    pub fn schedule(mut self, name: impl Into<String>, options: ScheduleOptions) -> Self {
        self.schedules.declared.insert(name.into(), options);
        self
    }

    /// Sets the number of the deploy, such as that of the build: of two programs that declare one
    /// schedule differently, that of the higher number holds.
    ///
    /// Default: zero. Of programs with the same number that holds which was declared for the first
    /// time later; and an earlier one, as after a deploy that was taken back, when no program has
    /// declared the later one for ten minutes.
    pub fn deploy(mut self, number: u64) -> Self {
        self.schedules.deploy = Some(number);
        self
    }

    /// Sets whether this process carries schedules out: pushes their occurrences, whoever made them.
    /// Default: if it has handlers. Any one process of a fleet is enough, and several share the work.
    pub fn run_schedules(mut self, runs: bool) -> Self {
        self.schedules.runs = Some(runs);
        self
    }
}

impl ScheduleSetup {
    /// Returns what the program declares, and whether it carries schedules out; one that does not
    /// declares only what its builder says.
    pub(super) fn take(
        &mut self,
        settings: &Settings,
        annotated: &[(QueueName, AnnotatedSchedule)],
        has_handlers: bool,
    ) -> Result<(Declared, bool)> {
        let runs = self.runs.unwrap_or(has_handlers);
        let wrong = |name: &str, error: Error| Error::invalid(format!("schedule {name}: {error}"));
        let mut schedules = BTreeMap::new();
        for (queue, of_handler) in annotated.iter().filter(|_| runs) {
            let choices = ScheduleChoices::annotated(queue, of_handler);
            let options = choices.and_then(|choices| choices.options(&settings.calendars));
            let options = options.map_err(|error| wrong(queue, error))?;
            schedules.insert(queue.to_string(), options);
        }
        for (name, choices) in settings.schedules.iter().filter(|_| runs) {
            let options = choices.options(&settings.calendars);
            let options = options.map_err(|error| wrong(name, error))?;
            schedules.insert(name.to_string(), options);
        }
        schedules.append(&mut self.declared);
        for name in schedules.keys() {
            check_name(name)?;
        }
        let declared = Declared {
            schedules,
            deploy: self.deploy.or(settings.deploy).unwrap_or(0),
        };
        Ok((declared, runs))
    }
}
