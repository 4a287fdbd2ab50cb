//! The orders: a stream of JSON objects, one a line.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The longest delay of an order, so that the story ends soon.
const DELAY_MS_MAX: u64 = 3_000;
/// The latest payment.
const PAID_MS_MAX: u64 = 4_000;
/// The most orders of a file.
const ORDERS_MAX: usize = 10_000;
/// The most bytes of a file.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// An order that is closed after a while, unless it is paid.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    pub(crate) order: u64,
    pub(crate) customer: String,
    pub(crate) cents: u64,
    /// How long the customer has to pay.
    pub(crate) delay_ms: u64,
    /// When the customer pays, counted from the order; never where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) paid_after_ms: Option<u64>,
    /// What goes wrong when the order is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trouble: Option<Trouble>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Trouble {
    /// The warehouse does not answer the first time.
    WarehouseAway,
    /// The warehouse takes forever the first time.
    WarehouseHangs,
    /// The warehouse knows no such order, and never will.
    OrderUnknown,
}

/// Reads the orders of a file; says which lines are none, and leaves them out.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Order>> {
    let named = |error: io::Error| {
        let words = format!("the orders in {} cannot be read: {error}", path.display());
        io::Error::new(error.kind(), words)
    };
    let lines = BufReader::new(File::open(path).map_err(named)?.take(BYTES_MAX));
    let mut orders = Vec::new();
    let mut seen = BTreeMap::new();
    for (line, number) in lines.split(b'\n').zip(1_usize..) {
        let line = line.map_err(named)?;
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        if orders.len() == ORDERS_MAX {
            println!("line {number}: left out with all that follow, {ORDERS_MAX} orders will do");
            break;
        }
        let checked = parse(line).and_then(|order| match seen.insert(order.order, number) {
            Some(before) => Err(format!("order {} is on line {before} already", order.order)),
            None => Ok(order),
        });
        match checked {
            Ok(order) => orders.push(order),
            Err(why) => println!("line {number}: left out, {why}"),
        }
    }
    Ok(orders)
}

fn parse(line: &[u8]) -> Result<Order, String> {
    let order: Order = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if order.delay_ms > DELAY_MS_MAX {
        return Err(format!(
            "delay_ms is {}, at most {DELAY_MS_MAX} are possible here",
            order.delay_ms
        ));
    }
    match order.paid_after_ms {
        Some(paid) if paid > PAID_MS_MAX => Err(format!(
            "paid_after_ms is {paid}, at most {PAID_MS_MAX} are possible here"
        )),
        _ => Ok(order),
    }
}
