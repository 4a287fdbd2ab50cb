//! Ten thousand idle connections to a server in a process of its own.

use std::time::Duration;

use tokio::net::TcpStream;

use crate::kills::Program;
use crate::world::{client, reply};

const CONNECTIONS: usize = 10_000;
/// What an idle connection may cost, in bytes. Some 26 KB were measured: two buffers of the HTTP
/// library, the task of the connection, and what the allocator rounds up.
const BYTES_EACH: u64 = 40 << 10;

fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib << 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_cost_little_and_others_are_served() {
    let needed = u64::try_from(CONNECTIONS).unwrap() + 2_000;
    let allowed = rlimit::increase_nofile_limit(needed).unwrap();
    assert!(
        allowed >= needed,
        "{allowed} open files are allowed; this test needs {needed}"
    );
    let folder = tempfile::tempdir().unwrap();
    let server = Program::start(folder.path(), "sqlite:duly.db");
    let api = server.api.strip_prefix("http://").unwrap();
    let client = client();
    let token = format!("{}/token/ns?description=d", server.admin);
    let token = reply(client.post(token)).await.is(201)["token"].clone();
    let put = async || {
        let put = client.put(format!("{}/api/ns/q", server.api)).body("x");
        reply(put.header("X-Token", token.as_str().unwrap()))
            .await
            .is(201);
    };
    put().await;
    let before = resident_bytes(server.child.id());
    let mut idle = Vec::with_capacity(CONNECTIONS);
    for number in 0..CONNECTIONS {
        let connect = tokio::time::timeout(Duration::from_secs(30), TcpStream::connect(api));
        idle.push(connect.await.unwrap().unwrap());
        if number % 1_000 == 0 {
            put().await;
        }
    }
    put().await;
    let cost = resident_bytes(server.child.id()).saturating_sub(before);
    let most = BYTES_EACH * u64::try_from(CONNECTIONS).unwrap();
    assert!(cost < most, "{cost} bytes for {} connections", idle.len());
}
