//! A master with replicas, and three sentinels that watch them.

use std::fmt::Write;
use std::process::Command;

use super::address::{Address, free_port};
use super::home::{Home, Process, output, wait_until};

/// What the master is called.
const NAME: &str = "mymaster";

/// One master, two replicas, three sentinels.
#[derive(Debug)]
pub(crate) struct Sentinels {
    servers: Vec<Server>, // before `home`: killed first
    sentinels: Vec<Server>,
    home: Home,
    told: bool, // whether they act only when told to
}

#[derive(Debug)]
struct Server {
    port: u16,
    process: Process,
}

impl Sentinels {
    /// Starts them; every sentinel knows all the others when this returns.
    pub(crate) fn start() -> Self {
        let home = Home::new();
        let master = server(&home, None);
        let port = master.port;
        let replicas = [server(&home, Some(port)), server(&home, Some(port))];
        wait_until("two replicas follow the master", || {
            cli(port, &["INFO", "replication"])
                .matches("state=online")
                .count()
                == 2
        });
        let sentinels = (0..3).map(|_| sentinel(&home, port)).collect();
        let all = Self {
            servers: [master].into_iter().chain(replicas).collect(),
            sentinels,
            home,
            told: false,
        };
        all.wait_until_watched();
        all
    }

    /// The URL, with every sentinel and the master's name.
    pub(crate) fn url(&self) -> String {
        let sentinels = self.sentinels.iter();
        let sentinels = sentinels.map(|sentinel| format!("127.0.0.1:{}", sentinel.port));
        let sentinels: Vec<_> = sentinels.collect();
        format!("redis-sentinel://{}/{NAME}", sentinels.join(","))
    }

    /// The port of who is master now, as the first sentinel sees it.
    pub(crate) fn master(&self) -> u16 {
        self.master_for(&self.sentinels[0])
    }

    /// Sends a command to the master, and answers what `redis-cli` prints.
    pub(crate) fn cli(&self, words: &[&str]) -> String {
        cli(self.master(), words)
    }

    /// Kills the master with `kill -9`; answers its port, which the sentinels still name for some
    /// seconds.
    pub(crate) fn kill_master(&mut self) -> u16 {
        let old = self.master();
        let master = self.servers.iter_mut().find(|server| server.port == old);
        master.expect("it is one of these").process.kill();
        old
    }

    /// Lets no sentinel notice that a master is gone, until one is told to
    /// [take over](Self::take_over).
    pub(crate) fn notice_nothing(&mut self) {
        self.told = true;
        for sentinel in &self.sentinels {
            let words = [
                "SENTINEL",
                "SET",
                NAME,
                "down-after-milliseconds",
                "3600000",
            ];
            assert_eq!(cli(sentinel.port, &words).trim(), "OK");
        }
    }

    /// The first sentinel makes another server the master, without asking the others, as soon as it
    /// has heard of one that can be it. It gives up after three seconds.
    pub(crate) fn take_over(&self) {
        wait_until("a replica can take over", || self.begins_to_take_over());
    }

    fn begins_to_take_over(&self) -> bool {
        let answer = cli(self.sentinels[0].port, &["SENTINEL", "FAILOVER", NAME]);
        answer.trim() == "OK" || answer.contains("INPROG")
    }

    /// Kills the master and the replicas, so that nobody can take over.
    pub(crate) fn kill_servers(&mut self) {
        for server in &mut self.servers {
            server.process.kill();
        }
    }

    /// Kills the master with `kill -9`, and returns when every sentinel names another one, which
    /// takes writes.
    pub(crate) fn failover(&mut self) {
        let old = self.kill_master();
        self.wait_for_another_than(old);
    }

    /// Returns when every sentinel names another master than `old`, which takes writes. Where they
    /// notice nothing, the first is told again for as long as it has not made one.
    pub(crate) fn wait_for_another_than(&self, old: u16) {
        for sentinel in &self.sentinels {
            wait_until("a replica is master", || {
                if self.told && self.master() == old {
                    self.begins_to_take_over();
                }
                let new = self.master_for(sentinel);
                new != old && cli(new, &["INFO", "replication"]).contains("role:master")
            });
        }
    }

    /// Starts every killed server again; it becomes a replica.
    pub(crate) fn restart_dead(&mut self) {
        for server in &mut self.servers {
            if server.process.has_ended() {
                server.process = spawn_server(&self.home, server.port, None);
                wait_until("it answers", || Address::Tcp(server.port).answers());
            }
        }
        self.wait_until_watched();
        // A sentinel that is late may have begun another failover: what was accepted meanwhile is lost.
        wait_until("there is one master, and the others follow it", || {
            let roles = self.servers.iter().map(|server| {
                let mut ask = Command::new("redis-cli");
                ask.args(["-p", &server.port.to_string(), "INFO", "replication"]);
                let info = ask.output().map_or_else(|_| Vec::new(), |it| it.stdout); // it may be cut off
                let info = String::from_utf8_lossy(&info);
                let follows = info.contains("role:slave") && info.contains("master_link_status:up");
                (server.port, follows)
            });
            let masters: Vec<_> = roles.filter(|(_, follows)| !follows).collect();
            masters.len() == 1 && masters[0].0 == self.master()
        });
    }

    /// How many failovers there have been, as the first sentinel has counted them.
    pub(crate) fn failovers(&self) -> u64 {
        let port = self.sentinels[0].port;
        let answer = cli(port, &["SENTINEL", "MASTER", NAME]);
        let mut lines = answer.lines().skip_while(|line| *line != "config-epoch");
        let epoch = lines.nth(1).and_then(|epoch| epoch.parse().ok());
        epoch.unwrap_or_else(|| panic!("no epoch: {answer}"))
    }

    fn master_for(&self, sentinel: &Server) -> u16 {
        let answer = cli(
            sentinel.port,
            &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME],
        );
        let port = answer.lines().nth(1).and_then(|port| port.parse().ok());
        port.unwrap_or_else(|| panic!("no master: {answer}"))
    }

    fn wait_until_watched(&self) {
        for sentinel in &self.sentinels {
            wait_until("every sentinel knows the others", || {
                let info = cli(sentinel.port, &["INFO", "sentinel"]);
                info.contains("status=ok,") && info.contains("slaves=2,sentinels=3")
            });
        }
    }
}

fn cli(port: u16, words: &[&str]) -> String {
    let port = port.to_string();
    output(Command::new("redis-cli").args(["-p", &port]).args(words))
}

fn server(home: &Home, master: Option<u16>) -> Server {
    let port = free_port();
    let process = spawn_server(home, port, master);
    wait_until("the server answers", || Address::Tcp(port).answers());
    Server { port, process }
}

fn spawn_server(home: &Home, port: u16, master: Option<u16>) -> Process {
    let name = port.to_string();
    let mut command = Command::new("redis-server");
    command
        .args(["--bind", "127.0.0.1", "--port", &name, "--save", ""])
        // What is killed here is processes: the disk, which a build may keep busy, is not waited for.
        .args(["--appendonly", "yes", "--appendfsync", "no"])
        .args(["--appenddirname", &format!("{name}.aof")])
        .args(["--repl-diskless-sync-delay", "0"])
        .args(["--dbfilename", &format!("{name}.rdb")]);
    if let Some(master) = master {
        command.args(["--replicaof", "127.0.0.1", &master.to_string()]);
    }
    home.spawn(&name, &mut command)
}

fn sentinel(home: &Home, master: u16) -> Server {
    let port = free_port();
    let mut lines = String::new();
    for line in [
        &format!("port {port}") as &str,
        "bind 127.0.0.1",
        &format!("sentinel monitor {NAME} 127.0.0.1 {master} 2"),
        &format!("sentinel down-after-milliseconds {NAME} 500"),
        &format!("sentinel failover-timeout {NAME} 3000"),
    ] {
        writeln!(lines, "{line}").expect("text takes a line");
    }
    let file = format!("sentinel-{port}.conf"); // it writes what it learns into its file
    std::fs::write(home.path().join(&file), lines).expect("a file");
    let name = format!("sentinel-{port}");
    let process = home.spawn(&name, Command::new("redis-sentinel").arg(file));
    wait_until("the sentinel answers", || Address::Tcp(port).answers());
    // They learn of each other by greetings, each two seconds unless they are told otherwise.
    cli(
        port,
        &[
            "SENTINEL",
            "DEBUG",
            "publish-period",
            "100",
            "info-period",
            "200",
        ],
    );
    Server { port, process }
}
