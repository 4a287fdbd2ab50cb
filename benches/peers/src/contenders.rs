//! The contenders, in the order of the columns: what each runs on, and which works it does.

use crate::Result;
use crate::ceiling::Ceiling;
use crate::on_apalis::OnApalis;
use crate::on_beanstalkd::OnBeanstalkd;
use crate::on_bullmq::OnBullmq;
use crate::on_chasquimq::OnChasquimq;
use crate::on_duly::OnDuly;
use crate::on_oxana::OnOxana;
use crate::plan::Size;
use crate::server::Needs;
use crate::work::Work;

/// The contender that the others are compared with.
pub const DULY: &str = "duly";
/// The one that all are summed up against.
pub const CEILING: &str = "ceiling";

#[derive(Clone, Copy)]
pub struct Entry {
    pub name: &'static str,
    pub needs: Needs,
    pub works: &'static [Work],
    /// Whether it is a queue that could be used instead of duly.
    pub peer: bool,
}

pub const ALL: [Entry; 9] = [
    own(CEILING, BUSY),
    own(
        "ceiling-norecord",
        &[Work::Drain, Work::Fast, Work::Herd, Work::Ahead],
    ),
    own("ceiling-256", &[Work::Drain, Work::Herd]),
    own(DULY, OWN),
    peer("apalis-redis", ANY_REDIS),
    peer("bullmq", ANY_REDIS),
    peer("oxana", ANY_REDIS),
    peer("chasquimq", Needs::Redis { since: (8, 6) }),
    peer("beanstalkd", Needs::Beanstalkd),
];

const ANY_REDIS: Needs = Needs::Redis { since: (0, 0) };

const OWN: &[Work] = &[
    Work::Mixed,
    Work::Failing,
    Work::Cancelled,
    Work::Push,
    Work::Bulk,
    Work::Drain,
    Work::Single,
    Work::Own,
    Work::Own5,
    Work::Own1,
    Work::Late,
    Work::Fast,
    Work::Herd,
    Work::Ahead,
    Work::Idle,
];

/// All but the last, as a bare loop does not rest, and the first, which need what only a bus has.
const BUSY: &[Work] = OWN.split_at(OWN.len() - 1).0.split_at(3).1;

const PEER: &[Work] = &[
    Work::Push,
    Work::Bulk,
    Work::Drain,
    Work::Single,
    Work::Own,
    Work::Own5,
    Work::Own1,
    Work::Late,
    Work::Shipped,
    Work::Herd,
    Work::Idle,
    Work::Resting,
];

const fn own(name: &'static str, works: &'static [Work]) -> Entry {
    Entry {
        name,
        needs: ANY_REDIS,
        works,
        peer: false,
    }
}

const fn peer(name: &'static str, needs: Needs) -> Entry {
    Entry {
        name,
        needs,
        works: PEER,
        peer: true,
    }
}

/// Does a work with a contender, and returns what was measured.
pub async fn measure(name: &str, work: Work, url: &str, size: Size) -> Result<Vec<(String, f64)>> {
    match name {
        CEILING => work.measure::<Ceiling<1_000, true>>(url, size).await,
        "ceiling-norecord" => work.measure::<Ceiling<1_000, false>>(url, size).await,
        "ceiling-256" => work.measure::<Ceiling<256, true>>(url, size).await,
        DULY => work.measure::<OnDuly>(url, size).await,
        "apalis-redis" => work.measure::<OnApalis>(url, size).await,
        "bullmq" => work.measure::<OnBullmq>(url, size).await,
        "oxana" => work.measure::<OnOxana>(url, size).await,
        "chasquimq" => work.measure::<OnChasquimq>(url, size).await,
        "beanstalkd" => work.measure::<OnBeanstalkd>(url, size).await,
        _ => Err(format!("there is no contender {name:?}").into()),
    }
}
