//! The schedules that a program declares, and whether it carries schedules out.

use crate::bus::builder::options::BusBuilder;
use crate::schedule::ScheduleOptions;

impl BusBuilder {
    /// Declares a schedule of this program: it is made when the bus starts, or changed, if it was
    /// declared otherwise before. A second call with the same name replaces the first.
    ///
    /// One that a later build no longer declares goes on until it is
    /// [removed](crate::admin::Schedules::remove). While builds with different declarations run,
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
    ///     # .only_registered()
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

    /// Sets the most schedules of a namespace, which is what their names have before the first dot.
    /// Making another one fails with [`ErrorKind::Full`](crate::ErrorKind::Full). Default: 100,000,
    /// which take about 100 MB of the store.
    ///
    /// They are counted before one is made, so calls at the same moment may exceed it by one each.
    pub fn schedules_max(mut self, most: usize) -> Self {
        self.schedules.max = Some(most);
        self
    }

    /// Sets whether this process carries schedules out: pushes their occurrences, whoever made them.
    /// Default: if it has handlers. Any one process of a fleet is enough, and several share the work.
    ///
    /// What it declares is another matter: a process with handlers declares the schedules of their
    /// annotations and of its settings even if it carries none out; one without handlers that does
    /// not either declares those of its builder alone.
    pub fn run_schedules(mut self, runs: bool) -> Self {
        self.schedules.runs = Some(runs);
        self
    }
}
