//! Ten thousand idle connections to a server in a process of its own.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::net::TcpStream;

use crate::world::{client, reply, until};

const CONNECTIONS: usize = 10_000;
/// What an idle connection may cost, in bytes. Some 26 KB were measured: two buffers of the HTTP
/// library, the task of the connection, and what the allocator rounds up.
const BYTES_EACH: u64 = 40 << 10;

/// A server that is killed at the end.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

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
    let ports = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [api, admin] = ports.each_ref().map(|port| port.local_addr().unwrap());
    drop(ports);
    let folder = tempfile::tempdir().unwrap();
    let server = Command::new(env!("CARGO_BIN_EXE_duly"))
        .arg("serve")
        .current_dir(folder.path())
        .env("DULY_SERVER__API__LISTEN", api.to_string())
        .env("DULY_SERVER__ADMIN__LISTEN", admin.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let server = Process(server.unwrap());
    let client = client();
    let health = format!("http://{admin}/healthz"); // the listener that starts last
    until("the server listens", async || {
        client.get(&health).send().await.is_ok()
    })
    .await;
    let token = format!("http://{admin}/token/ns?description=d");
    let token = reply(client.post(token)).await.is(201)["token"].clone();
    let put = async || {
        let put = client.put(format!("http://{api}/api/ns/q")).body("x");
        reply(put.header("X-Token", token.as_str().unwrap()))
            .await
            .is(201);
    };
    put().await;
    let before = resident_bytes(server.0.id());
    let mut idle = Vec::with_capacity(CONNECTIONS);
    for number in 0..CONNECTIONS {
        let connect = tokio::time::timeout(Duration::from_secs(30), TcpStream::connect(api));
        idle.push(connect.await.unwrap().unwrap());
        if number % 1_000 == 0 {
            put().await;
        }
    }
    put().await;
    let cost = resident_bytes(server.0.id()).saturating_sub(before);
    let most = BYTES_EACH * u64::try_from(CONNECTIONS).unwrap();
    assert!(cost < most, "{cost} bytes for {} connections", idle.len());
}
