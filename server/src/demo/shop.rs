//! The made-up shop: its events at the begin, and its customers.

use std::time::Duration;

use duly::schedule::ScheduleOptions;
use duly::time::When;
use duly::{Bus, Queue, Result};
use parking_lot::Mutex;

use crate::demo::handlers::Order;

/// The time between two ticks, and how much of each queue comes in one.
const TICK: Duration = Duration::from_millis(500);
const ORDERS: u64 = 2;
/// A newsletter goes out every so many ticks, to so many customers.
const NEWSLETTER_EVERY: u64 = 120;
const READERS: u64 = 250;
/// Its rate, in a second.
const NEWSLETTER_RATE: f64 = 5.0;
/// What the next hour brings, and the seconds of its peak.
const REMINDERS: u64 = 900;
const PEAK: std::ops::Range<u64> = 2_000..2_500;
const RENEWALS: u64 = 300;

const CUSTOMERS: [&str; 8] = ["ada", "bo", "chidi", "dana", "emre", "fay", "goro", "hana"];

/// The queues of the shop.
pub(super) struct Shop {
    bus: Bus,
    confirmations: Queue<Order>,
    invoices: Queue<Order>,
    payments: Queue<Order>,
    newsletter: Queue<Order>,
    reminders: Queue<Order>,
    renewals: Queue<Order>,
    stock: Queue<Order>,
    /// The random numbers, and the last order.
    state: Mutex<(fastrand::Rng, u64)>,
}

impl Shop {
    pub(super) fn open(bus: &Bus, seed: u64) -> Result<Self> {
        Ok(Self {
            confirmations: bus.queue_named("shop.order-confirmations")?,
            invoices: bus.queue_named("shop.invoices")?,
            payments: bus.queue_named("shop.payments")?,
            newsletter: bus.queue_named("shop.newsletter")?,
            reminders: bus.queue_named("shop.cart-reminders")?,
            renewals: bus.queue_named("shop.renewals")?,
            stock: bus.queue_named("shop.stock-sync")?,
            state: Mutex::new((fastrand::Rng::with_seed(seed), 1_000)),
            bus: bus.clone(),
        })
    }

    fn random(&self, range: std::ops::Range<u64>) -> u64 {
        let mut state = self.state.lock();
        state.0.u64(range)
    }

    fn order(&self) -> Order {
        let mut state = self.state.lock();
        let (random, last) = &mut *state;
        *last += 1;
        Order {
            order: *last,
            customer: CUSTOMERS[random.usize(..CUSTOMERS.len())].to_owned(),
            total_cents: random.u64(900..25_000),
        }
    }

    /// Fills the shop with what was there before it opens.
    pub(super) async fn fill(&self) -> Result<()> {
        self.bus
            .set_rate("shop.newsletter", Some(NEWSLETTER_RATE))
            .await?;
        let mut reminders = Vec::new();
        for number in 0..REMINDERS {
            let seconds = match number % 3 {
                0 => self.random(PEAK),
                _ => self.random(20..3_600),
            };
            let reminder = self.reminders.event(self.order());
            reminders.push(reminder.after(Duration::from_secs(seconds)));
        }
        self.reminders.push_many(reminders, When::Now).await?;
        let mut renewals = Vec::new();
        for _ in 0..RENEWALS {
            let seconds = self.random(600..7 * 86_400);
            let renewal = self.renewals.event(self.order());
            renewals.push(renewal.after(Duration::from_secs(seconds)));
        }
        self.renewals.push_many(renewals, When::Now).await?;
        self.set_schedules().await?;
        self.send_newsletter().await?;
        // A backlog from before, so that there is something to see at once.
        for _ in 0..24 {
            self.sell().await?;
        }
        Ok(())
    }

    /// What recurs without a customer.
    async fn set_schedules(&self) -> Result<()> {
        for (name, queue, when) in [
            ("shop.stock-sync", "shop.stock-sync", "every 10s"),
            (
                "shop.newsletter-of-the-week",
                "shop.newsletter",
                "0 9 * * MON Europe/Berlin",
            ),
            (
                "shop.renewals-of-the-night",
                "shop.renewals",
                "30 2 * * * America/New_York",
            ),
        ] {
            let options = ScheduleOptions::new(queue, when)?.payload(&self.order())?;
            self.bus.schedules().set(name, options).await?;
        }
        Ok(())
    }

    async fn send_newsletter(&self) -> Result<()> {
        let letters = (0..READERS).map(|_| self.order());
        self.newsletter.push_many(letters, Duration::ZERO).await?;
        Ok(())
    }

    /// A customer buys something.
    async fn sell(&self) -> Result<()> {
        let order = self.order();
        let key = format!("customer:{}", order.customer);
        for queue in [&self.confirmations, &self.invoices, &self.payments] {
            queue.event(order.clone()).key(&key).push().await?;
        }
        Ok(())
    }

    /// Runs the shop; it ends by an error only.
    pub(super) async fn run(&self) -> Result<()> {
        let mut ticks = tokio::time::interval(TICK);
        for tick in 1.. {
            ticks.tick().await;
            for _ in 0..ORDERS {
                self.sell().await?;
            }
            self.stock.push(self.order(), When::Now).await?;
            if tick % NEWSLETTER_EVERY == 0 {
                self.send_newsletter().await?;
            }
        }
        Ok(())
    }
}
