//! Clients that mean harm, or do harm: each gets a clear error, and the others are served.

mod bodies;
mod crowd;
mod heads;

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::world::World;

/// A connection to the API.
pub(crate) async fn connect(world: &World) -> TcpStream {
    TcpStream::connect(world.server.api_address())
        .await
        .unwrap()
}

/// Sends bytes, and reads until the server closes the connection.
pub(crate) async fn talk(world: &World, bytes: &[u8]) -> String {
    let mut stream = connect(world).await;
    // The server may refuse before all is written.
    stream.write_all(bytes).await.ok();
    ended(&mut stream).await
}

/// Reads until the server closes the connection.
pub(crate) async fn ended(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut bytes));
    read.await.expect("the connection ends").ok();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Asserts that another client is served, also by the store.
pub(crate) async fn others_are_served(world: &World) {
    world.get("/healthz").await.is(200);
    let id = world.publish("/api/ns/other", "x").await;
    assert_eq!(
        world.consume("/api/ns/other?timeout=10").await["job_id"],
        id
    );
}
