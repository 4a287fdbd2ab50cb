//! A bus stops when it is dropped, which a line without a name does at once.

#![deny(unused_must_use)]

use duly::Bus;

async fn start() -> duly::Result<()> {
    Bus::builder().start().await?;
    Ok(())
}

fn main() {
    let _ = start();
}
