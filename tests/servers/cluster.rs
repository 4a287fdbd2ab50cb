//! Redis Cluster: as many masters as replicas, or masters alone.

use std::path::Path;
use std::process::Command;

use super::address::{Address, free_port};
use super::home::{Home, Process, output, wait_until};

/// How many slots a cluster has.
const SLOTS: u16 = 16_384;

/// A cluster whose nodes are processes of this machine.
#[derive(Debug)]
pub(crate) struct Cluster {
    nodes: Vec<Node>, // before `home`: killed first
    home: Home,
    needs_all: bool,
}

/// A node of a cluster, a master or a replica.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) port: u16,
    process: Process,
    /// Whether it is stopped: nobody can be asked there, and whoever asks waits for ever.
    is_stopped: bool,
}

impl Cluster {
    /// Starts so many nodes, half of them replicas; every slot is served when this returns.
    pub(crate) fn start(nodes: usize) -> Self {
        Self::start_in(Home::new(), nodes)
    }

    pub(super) fn start_in(home: Home, nodes: usize) -> Self {
        let cluster = Self::create(home, nodes, "1", true);
        let replicas = (cluster.nodes.len() / 2).to_string();
        wait_until("every replica follows its master", || {
            let followers = cluster.nodes.iter().filter(|node| {
                let state = node.cli(&["INFO", "replication"]);
                state.contains("role:slave") && state.contains("master_link_status:up")
            });
            followers.count().to_string() == replicas
        });
        cluster
    }

    /// Starts so many masters without replicas, which go on with what is left when one dies.
    pub(crate) fn masters(masters: usize) -> Self {
        Self::create(Home::new(), masters, "0", false)
    }

    fn create(home: Home, nodes: usize, replicas: &str, needs_all: bool) -> Self {
        let nodes: Vec<_> = (0..nodes).map(|_| launch(&home, needs_all)).collect();
        let cluster = Self {
            nodes,
            home,
            needs_all,
        };
        let addresses = cluster
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port));
        output(
            Command::new("redis-cli")
                .args(["--cluster", "create"])
                .args(addresses)
                .args(["--cluster-replicas", replicas, "--cluster-yes"]),
        );
        cluster.wait_until_served();
        cluster
    }

    pub(crate) fn ports(&self) -> impl Iterator<Item = u16> {
        self.nodes.iter().map(|node| node.port)
    }

    /// Its URL, with every node.
    pub(crate) fn url(&self) -> String {
        url(self.ports())
    }

    /// Lets the nodes say that they listen on these ports, one for each. Returns the URL of the cluster
    /// there.
    pub(crate) fn announce(&self, ports: &[u16]) -> String {
        for (node, port) in self.nodes.iter().zip(ports) {
            let port = port.to_string();
            node.must(&["CONFIG", "SET", "cluster-announce-port", &port]);
        }
        for node in &self.nodes {
            wait_until("every node has heard of all ports", || {
                let slots = node.cli(&["CLUSTER", "SLOTS"]);
                let said = |port: &u16| slots.lines().any(|line| line == port.to_string());
                ports.iter().all(said)
            });
        }
        url(ports.iter().copied())
    }

    pub(crate) fn node(&self, number: usize) -> &Node {
        &self.nodes[number]
    }

    /// The number of the node that is master of a slot, as one that lives sees it. On a busy machine a
    /// master may be missed for a moment.
    pub(crate) fn master_of(&self, slot: u16) -> usize {
        let mut master = None;
        wait_until("a master serves the slot", || {
            let mut living = self.nodes.iter().filter(|node| node.is_alive());
            master = living.find_map(|node| self.master_by(node, slot));
            master.is_some()
        });
        master.expect("it was there")
    }

    /// Waits until every living node names another master of a slot than this one.
    pub(crate) fn wait_for_another_master(&self, slot: u16, old: usize) {
        for node in self.nodes.iter().filter(|node| node.is_alive()) {
            wait_until("the slot has another master", || {
                self.master_by(node, slot).is_some_and(|new| new != old)
            });
        }
        self.wait_until_served();
    }

    fn master_by(&self, node: &Node, slot: u16) -> Option<usize> {
        let nodes = node.cli(&["CLUSTER", "NODES"]);
        let port = nodes.lines().find(|line| serves(line, slot)).map(port_of)?;
        self.nodes.iter().position(|node| node.port == port)
    }

    /// The slot of a key.
    pub(crate) fn slot_of(&self, key: &str) -> u16 {
        let slot = self.living().cli(&["CLUSTER", "KEYSLOT", key]);
        slot.parse().expect("a slot")
    }

    /// Moves a slot with all its keys to the master with this number, while it is served.
    pub(crate) fn move_slot(&self, slot: u16, to: usize) {
        assert!(slot < SLOTS, "a cluster has {SLOTS} slots");
        let old = self.master_of(slot);
        let (from, to) = (&self.nodes[old], &self.nodes[to]);
        let (from_id, to_id) = (from.id(), to.id());
        let number = slot;
        let slot = slot.to_string();
        to.must(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]);
        from.must(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]);
        let port = to.port.to_string();
        loop {
            let keys = from.cli(&["CLUSTER", "GETKEYSINSLOT", &slot, "10"]);
            if keys.is_empty() {
                break;
            }
            for key in keys.lines() {
                let moved = from.cli(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
                if moved.starts_with("CLUSTERDOWN") {
                    self.wait_until_served(); // nodes lose sight of each other on a busy machine
                    continue;
                }
                assert!(["OK", "NOKEY"].contains(&moved.as_str()), "{key}: {moved}");
            }
        }
        to.must(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]);
        from.must(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]);
        self.wait_for_another_master(number, old);
    }

    /// Lets a master without keys leave, as `redis-cli --cluster del-node` does: it runs on, and knows
    /// no slots. Another one has its slots.
    pub(crate) fn remove(&self, number: usize, heir: usize) {
        self.part_with(number, heir, |gone, _| gone.must(&["CLUSTER", "RESET"]));
    }

    /// Cuts a master off from the other nodes: it goes on as if it had its slots, which another one
    /// has, without their keys.
    pub(crate) fn cut_off(&self, number: usize, heir: usize) {
        self.part_with(number, heir, |gone, others| {
            for other in others {
                gone.must(&["CLUSTER", "FORGET", &other.id()]);
            }
        });
    }

    fn part_with(&self, number: usize, heir: usize, go: impl Fn(&Node, &[&Node])) {
        let gone = &self.nodes[number];
        let (id, nodes) = (gone.id(), gone.cli(&["CLUSTER", "NODES"]));
        let me = nodes.lines().find(|line| line.contains("myself"));
        let ranges = me.expect("it knows itself").split(' ').skip(8);
        let bounds = ranges.flat_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            [first, last]
        });
        let bounds: Vec<_> = bounds.collect();
        let others = self.nodes.iter().filter(|node| node.port != gone.port);
        let others: Vec<_> = others.collect();
        for other in &others {
            other.cli(&["CLUSTER", "FORGET", &id]); // a newer server has told it already
            wait_until("it is forgotten", || {
                !other.cli(&["CLUSTER", "NODES"]).contains(&id)
            });
        }
        go(gone, &others);
        self.nodes[heir].must(&[&["CLUSTER", "ADDSLOTSRANGE"], &bounds[..]].concat());
        wait_until("the others serve every slot", || {
            others.iter().all(|node| {
                let info = node.cli(&["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
            })
        });
    }

    /// `kill -9` of the master of a slot; answers its number. A replica takes over by itself.
    pub(crate) fn kill_master_of(&mut self, slot: u16) -> usize {
        let number = self.master_of(slot);
        self.nodes[number].process.kill();
        number
    }

    /// `SIGSTOP` of the master of a slot: its connections stay, and nothing is answered. Answers its
    /// number.
    pub(crate) fn stop_master_of(&mut self, slot: u16) -> usize {
        let number = self.master_of(slot);
        self.nodes[number].process.signal("STOP");
        self.nodes[number].is_stopped = true;
        number
    }

    /// `SIGCONT` of a node that was stopped.
    pub(crate) fn cont(&mut self, number: usize) {
        self.nodes[number].process.signal("CONT");
        self.nodes[number].is_stopped = false;
    }

    /// Starts a node that was killed again, on its folder and its port.
    pub(crate) fn restart(&mut self, number: usize) {
        let port = self.nodes[number].port;
        self.nodes[number].process.kill();
        self.nodes[number].process = spawn(&self.home, port, self.needs_all);
        wait_until("the node answers", || Address::Tcp(port).answers());
    }

    /// Waits until every living node says that every slot is served.
    pub(crate) fn wait_until_served(&self) {
        for node in self.nodes.iter().filter(|node| node.is_alive()) {
            wait_until("the cluster serves every slot", || {
                let info = node.cli(&["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
            });
        }
    }

    /// Lets the nodes go on running after this process; the folder's keeper ends them.
    pub(super) fn leave(mut self) {
        for node in &mut self.nodes {
            node.process.leave();
        }
    }

    pub(super) fn home(&self) -> &Path {
        self.home.path()
    }

    fn living(&self) -> &Node {
        let mut nodes = self.nodes.iter();
        nodes.find(|node| node.is_alive()).expect("a node lives")
    }
}

impl Node {
    /// Sends a command with `redis-cli`, and answers what it prints.
    pub(crate) fn cli(&self, words: &[&str]) -> String {
        let port = self.port.to_string();
        output(Command::new("redis-cli").args(["-p", &port]).args(words))
    }

    /// What it is called in the cluster.
    fn id(&self) -> String {
        self.cli(&["CLUSTER", "MYID"])
    }

    fn must(&self, words: &[&str]) {
        assert_eq!(self.cli(words), "OK", "{words:?}");
    }

    fn is_alive(&self) -> bool {
        !self.is_stopped && Address::Tcp(self.port).answers()
    }
}

/// The URL of a cluster whose nodes listen on these ports.
pub(super) fn url(ports: impl IntoIterator<Item = u16>) -> String {
    let nodes = ports.into_iter().map(|port| format!("127.0.0.1:{port}"));
    format!("redis-cluster://{}", nodes.collect::<Vec<_>>().join(","))
}

fn launch(home: &Home, needs_all: bool) -> Node {
    loop {
        let port = free_port();
        let mut process = spawn(home, port, needs_all);
        let mut has_ended = false;
        wait_until("the node answers", || {
            has_ended = process.has_ended();
            has_ended || Address::Tcp(port).answers()
        });
        if !has_ended {
            return Node {
                port,
                process,
                is_stopped: false,
            };
        }
        let log = home.path().join(format!("{port}.log"));
        let log = std::fs::read_to_string(log).unwrap_or_default();
        assert!(log.contains("in use"), "the node has ended:\n{log}");
    }
}

fn spawn(home: &Home, port: u16, needs_all: bool) -> Process {
    let name = port.to_string();
    let mut command = Command::new("redis-server");
    command
        .args(["--bind", "127.0.0.1", "--port", &name, "--save", ""])
        .args(["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"])
        .args(["--cluster-config-file", &format!("{name}.conf")])
        .args(["--appendonly", "yes", "--appendfsync", "always"])
        .args(["--appenddirname", &format!("{name}.aof")])
        .args(["--repl-diskless-sync-delay", "0"])
        .args([
            "--cluster-require-full-coverage",
            if needs_all { "yes" } else { "no" },
        ])
        .args(["--enable-debug-command", "local"]);
    home.spawn(&name, &mut command)
}

/// Whether a line of `CLUSTER NODES` is that of the master of a slot.
fn serves(line: &str, slot: u16) -> bool {
    let mut words = line.split(' ');
    let flags = words.nth(2).unwrap_or_default();
    // `nofailover` is a flag as well.
    let is_gone = flags.split(',').any(|flag| flag.starts_with("fail"));
    let is_master = flags.contains("master") && !is_gone;
    let mut ranges = words.skip(5).filter(|word| !word.starts_with('['));
    is_master
        && ranges.any(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |text: &str| text.parse::<u16>().expect("a slot");
            (number(first)..=number(last)).contains(&slot)
        })
}

fn port_of(line: &str) -> u16 {
    let address = line.split(' ').nth(1).unwrap_or_default();
    let port = address
        .split('@')
        .next()
        .and_then(|text| text.rsplit(':').next());
    let port = port.and_then(|text| text.parse().ok());
    port.unwrap_or_else(|| panic!("no port in {line:?}"))
}
