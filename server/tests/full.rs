//! A full store drains through the server: it starts, stays in service, and consumers go on.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use reqwest::Method;
use serde_json::json;

use crate::kills::Program;
use crate::servers::{Redis, RedisOptions};
use crate::world::{Reply, World, client, reply, until};

/// Sends a request of a token.
async fn send(world: &World, token: &str, method: Method, path: &str) -> Reply {
    let request = world.client.request(method, world.api_url(path));
    reply(request.header("X-Token", token)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_redis_is_drained_through_servers_that_are_started_and_stay_in_service() {
    let redis = Redis::start(RedisOptions::default());
    let folder = tempfile::tempdir().unwrap();
    let world = World::start_at(folder, redis.url(), "").await;
    let limited = world.new_token("ns", "").await;
    let limit = json!({"read": 2, "write": 0, "interval": 3_600}).to_string();
    let path = format!("/token/ns/{limited}/limit");
    world.admin_with(Method::POST, &path, &limit).await.is(201);
    for body in ["a", "b", "c"] {
        world.publish("/api/ns/q", body).await;
    }
    redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    until("it refuses pushes", async || {
        world.put("/api/ns/q", "x").await.status == 503
    })
    .await;

    let another = world.another().await;
    for server in [&world, &another] {
        let ready = server.get("/readyz").await.is(200);
        assert_eq!(ready["ready"], true);
        for part in ["pool default", "shared state"] {
            let words = ready["parts"][part].as_str().unwrap();
            assert!(words.contains("maxmemory"), "{part}: {words}");
        }
    }
    let consume = || send(&another, &limited, Method::GET, "/api/ns/q?ttr=60");
    let job = consume().await.is(200);
    let path = format!("/api/ns/q/job/{}", job["job_id"].as_str().unwrap());
    let acked = send(&another, &limited, Method::DELETE, &path).await;
    acked.is(204);
    let lease = client().post(another.api_url("/v1/ns/queues/q/leases"));
    let lease = lease
        .bearer_auth(&limited)
        .body(json!({"ttr_ms": 60_000}).to_string());
    let lease = reply(lease.header("Content-Type", "application/json")).await;
    assert_eq!(lease.is(200).as_array().unwrap().len(), 1);
    assert_eq!(consume().await.status, 429, "the limit counts");
    // What finds no job is given back.
    assert_eq!(another.size("q").await, 1);
    another.consume("/api/ns/q?ttr=60").await;

    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    let parts = world.get("/readyz").await.is(200)["parts"].clone();
    assert_eq!(parts, json!({"pool default": "ok", "shared state": "ok"}));
    another.server.stop().await;
    world.server.stop().await;
}

/// A disk of 16 MiB in memory, on a mount of its own. It needs the right to mount, as root or in a
/// user namespace.
struct SmallDisk {
    /// The process that keeps the mount.
    holder: Child,
    folder: PathBuf,
}

impl SmallDisk {
    async fn mount(folder: &Path) -> Self {
        let script = "mount -t tmpfs -o size=16m tmpfs \"$0\" && touch \"$0/mounted\" && exec cat";
        let holder = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
            .arg(folder)
            .stdin(Stdio::piped())
            .spawn()
            .expect("`unshare` is there");
        let folder = folder.to_owned();
        let disk = Self { holder, folder };
        until("the disk is mounted", async || {
            disk.path("mounted").exists()
        })
        .await;
        disk
    }

    /// Returns the path of a file, as it is from outside.
    fn path(&self, name: &str) -> PathBuf {
        let root = format!("/proc/{}/root", self.holder.id());
        let folder = self.folder.strip_prefix("/").expect("a whole path");
        Path::new(&root).join(folder).join(name)
    }

    /// Starts the server on it.
    fn serve(&self) -> Program {
        let (pid, folder) = (
            self.holder.id().to_string(),
            self.folder.display().to_string(),
        );
        let enter = ["nsenter", "--target", &pid, "--user", "--mount", "sh", "-c"];
        let script = [
            "cd \"$0\" && exec \"$@\"",
            &folder,
            env!("CARGO_BIN_EXE_duly"),
        ];
        let command = [&enter[..], &script].concat();
        let mut program = Program::run(&command, &self.folder, "sqlite:duly.db", &[]);
        program.read();
        program
    }

    /// Fills the rest of it.
    fn fill(&self) {
        let mut ballast = File::create(self.path("ballast")).expect("a file");
        for piece in [1 << 20, 4_096, 1] {
            while ballast.write_all(&vec![1; piece]).is_ok() {}
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        self.holder.kill().ok();
        self.holder.wait().ok();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_drained_by_a_server_that_is_started_on_it() {
    const TOKEN: &str = "a-token-beside-a-full-disk";
    let folder = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(folder.path()).await;
    let mut program = disk.serve();
    let path = format!("{}/token/ns?description=d&token={TOKEN}", program.admin);
    reply(client().post(path)).await.is(201);
    let request = |program: &Program, method: Method, path: &str| {
        let request = client().request(method, format!("{}{path}", program.api));
        request.header("X-Token", TOKEN)
    };
    let put = request(&program, Method::PUT, "/api/ns/q?ttl=0");
    let id = reply(put.body("x")).await.is(201)["job_id"].clone();
    program.signal("TERM");
    assert!(program.ended().await);
    disk.fill();

    let program = disk.serve();
    let job = reply(request(
        &program,
        Method::GET,
        "/api/ns/q?ttr=60&timeout=10",
    ))
    .await;
    assert_eq!(job.is(200)["job_id"], id);
    let path = format!("/api/ns/q/job/{}", id.as_str().unwrap());
    reply(request(&program, Method::DELETE, &path))
        .await
        .is(204);
    reply(request(&program, Method::GET, "/readyz"))
        .await
        .is(200);
}
