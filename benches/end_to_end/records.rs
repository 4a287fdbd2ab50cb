//! The cost of a journal, available or not: the same backlog drained with each.

use duly::journal::{
    Batch, FoundRecords, Journal, JournalFuture, Keep, MemoryJournal, Pruned, SqliteJournal,
};
use duly::records::{MinuteQuery, MinuteStats, Query};
use duly::time::Timestamp;
use duly::{BusBuilder, Error, ErrorKind};
use tempfile::TempDir;

use crate::Result;
use crate::drain::draining;
use crate::scene::{Kept, Plan};
use crate::table::Rates;

/// Which journal there is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Which {
    Off,
    Sqlite,
    Memory,
    Fails,
    Hangs,
}

impl Which {
    const ALL: [Self; 5] = [
        Self::Off,
        Self::Fails,
        Self::Hangs,
        Self::Memory,
        Self::Sqlite,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Off => "no journal",
            Self::Fails => "a journal that is away, and fails at once",
            Self::Hangs => "a journal that is away, and hangs",
            Self::Memory => "a journal in memory",
            Self::Sqlite => "a journal in an SQLite file on the same disk",
        }
    }

    fn chosen(self, builder: BusBuilder, folder: &TempDir) -> duly::Result<BusBuilder> {
        Ok(match self {
            Self::Off => builder,
            Self::Memory => builder.journal(MemoryJournal::new()),
            Self::Fails => builder.journal(Away { hangs: false }),
            Self::Hangs => builder.journal(Away { hangs: true }),
            Self::Sqlite => builder.journal(SqliteJournal::open(folder.path().join("records"))?),
        })
    }
}

/// On a store in memory: one in a file keeps its records itself, which `drain` measures.
pub(crate) async fn run(plan: Plan) -> Result {
    let kept = Kept::Memory;
    let mut table = Rates::titled(&format!(
        "records: drain a backlog of 4 queues, settled too; {}",
        kept.name()
    ));
    let mut took = Which::ALL.map(|_| Vec::new());
    // One after the other in each pass, so that what disturbs one disturbs all.
    for _ in 0..plan.passes {
        for (which, took) in Which::ALL.into_iter().zip(&mut took) {
            let folder = tempfile::tempdir()?;
            let choose = |builder: BusBuilder| which.chosen(builder, &folder);
            let (_handled, settled) = draining(kept, plan.events, choose).await?;
            took.push(settled);
        }
    }
    for (which, took) in Which::ALL.into_iter().zip(took) {
        table.line(which.name(), plan.events, took);
    }
    Ok(())
}

/// A journal that is away.
#[derive(Debug)]
struct Away {
    hangs: bool,
}

impl Away {
    fn answer<T: Send + 'static>(&self) -> JournalFuture<T> {
        if self.hangs {
            Box::pin(std::future::pending())
        } else {
            let away = Error::new(ErrorKind::Unavailable, "the journal is away");
            Box::pin(std::future::ready(Err(away)))
        }
    }
}

impl Journal for Away {
    fn load(&self, _batches: Vec<Batch>) -> JournalFuture<()> {
        self.answer()
    }

    fn page(&self, _query: Query) -> JournalFuture<FoundRecords> {
        self.answer()
    }

    fn minutes(&self, _query: MinuteQuery) -> JournalFuture<Vec<MinuteStats>> {
        self.answer()
    }

    fn prune(&self, _keep: Keep, _now: Timestamp) -> JournalFuture<Pruned> {
        self.answer()
    }

    fn close(&self) -> JournalFuture<()> {
        Box::pin(std::future::ready(Ok(())))
    }
}
