//! The files of `deploy`: the program in the file system that the container has, and the unit.
//!
//! The file system is made of packages of this machine: those of the base image that a program needs,
//! and what the container file installs; the program runs in it as the container file says.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use duly_server::{Server, Settings};
use serde_json::{Value, json};

use crate::kills::Program;
use crate::servers::certificates;
use crate::world::{client, reply, until};

/// What a program may need of `debian:bookworm-slim`.
const BASE: [&str; 2] = ["libc6", "libgcc-s1"];
/// The variables that Docker sets in every container where its client has proxies.
const PROXIES: [&str; 6] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
];
/// For so long, in seconds, the library waits for a Redis that loads its data.
pub(crate) const LOADING_MAX_S: u64 = 300;
/// The user of the program, whatever its name.
const USER: u32 = 4_321;

fn deploy(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// The last stage of the container file.
struct Image {
    root: PathBuf,
    variables: BTreeMap<String, String>,
    folder: String,
    command: Vec<String>,
    /// The options of its health check, and its command.
    health_options: String,
    health: Vec<String>,
}

impl Image {
    /// Builds it in a folder, with or without the packages that it installs.
    fn build(root: &Path, installs: bool) -> Self {
        let text = deploy("Containerfile").replace("\\\n", " ");
        let (_, stage) = text.rsplit_once("\nFROM ").unwrap();
        let (base, stage) = stage.split_once('\n').unwrap();
        assert_eq!(base, "docker.io/library/debian:bookworm-slim");
        let mut image = Self {
            root: root.to_owned(),
            variables: BTreeMap::new(),
            folder: String::new(),
            command: Vec::new(),
            health_options: String::new(),
            health: Vec::new(),
        };
        BASE.into_iter().for_each(|package| image.install(package));
        for line in stage.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "RUN" => image.run(rest, installs),
                "COPY" => {
                    let to = rest.rsplit(' ').next().unwrap();
                    image.add(Path::new(env!("CARGO_BIN_EXE_duly")), Path::new(to));
                }
                "ENV" => {
                    let (name, value) = rest.split_once('=').unwrap();
                    image.variables.insert(name.to_owned(), value.to_owned());
                }
                "WORKDIR" => rest.clone_into(&mut image.folder),
                "CMD" => image.command = serde_json::from_str(rest).unwrap(),
                "HEALTHCHECK" => {
                    let (options, command) = rest.split_once(" CMD ").unwrap();
                    options.clone_into(&mut image.health_options);
                    image.health = serde_json::from_str(command).unwrap();
                }
                "" | "#" | "USER" | "VOLUME" | "EXPOSE" => {}
                other => panic!("{other} of the container file is not known here"),
            }
        }
        image
    }

    fn run(&mut self, line: &str, installs: bool) {
        for command in line.split("&&") {
            let words: Vec<&str> = command.split_whitespace().collect();
            match words[..] {
                ["apt-get", "install", ref packages @ ..] if installs => {
                    let packages = packages.iter().filter(|word| !word.starts_with('-'));
                    packages.for_each(|package| self.install(package));
                }
                ["apt-get", ..] | ["rm", ..] => {}
                ["useradd", .., "duly"] => {
                    let home = words.iter().position(|word| *word == "--home-dir").unwrap();
                    let home = self.at(Path::new(words[home + 1]));
                    fs::create_dir_all(&home).unwrap();
                    if is_root() {
                        chown(&home, Some(USER), Some(USER)).unwrap();
                    }
                }
                _ => panic!("`{command}` of the container file is not known here"),
            }
        }
    }

    /// Installs a package as this machine has it.
    fn install(&mut self, package: &str) {
        let listed = Command::new("dpkg").args(["-L", package]).output().unwrap();
        assert!(
            listed.status.success(),
            "{package} is a package of this machine"
        );
        let listed = String::from_utf8(listed.stdout).unwrap();
        let is_needed = |path: &&str| !path.starts_with("/usr/share/");
        for path in listed.lines().filter(is_needed) {
            self.add(Path::new(path), Path::new(path));
        }
        if package == "ca-certificates" {
            // What its installation makes.
            let bundle = Path::new("/etc/ssl/certs/ca-certificates.crt");
            self.add(bundle, bundle);
        }
    }

    fn at(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap())
    }

    fn add(&self, from: &Path, to: &Path) {
        let to = self.at(to);
        let kind = match from.symlink_metadata() {
            Ok(metadata) => metadata.file_type(),
            Err(_) => return, // a file that this machine has left out
        };
        if to.symlink_metadata().is_ok() {
            return;
        }
        if kind.is_dir() {
            return fs::create_dir_all(to).unwrap();
        }
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        if !kind.is_symlink() {
            fs::copy(from, &to).unwrap();
            return;
        }
        let target = fs::read_link(from).unwrap();
        symlink(&target, &to).unwrap();
        // Such as `/lib64`, which is one on a machine and a folder in a package.
        if from.is_dir() && target.is_relative() {
            fs::create_dir_all(to.with_file_name(target)).unwrap();
        }
    }

    /// The command line that runs a program in it.
    fn enter(&self) -> Vec<String> {
        let mut command = if is_root() {
            vec!["chroot".to_owned(), format!("--userspec={USER}:{USER}")]
        } else {
            ["unshare", "--map-root-user", "chroot"]
                .map(str::to_owned)
                .to_vec()
        };
        command.push(self.root.display().to_string());
        // The folder of work is that of the container.
        let env = "/usr/bin/env";
        self.add(Path::new(env), Path::new(env));
        command.extend([env, "--chdir", &self.folder].map(str::to_owned));
        command
    }

    fn duly(&self, arguments: &[&str]) -> Output {
        let enter = self.enter();
        let mut command = Command::new(&enter[0]);
        command
            .args(&enter[1..])
            .arg(&self.command[0])
            .args(arguments)
            .envs(&self.variables);
        command.output().unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.at(Path::new(&self.folder)).join(name), text).unwrap();
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A receiver of webhooks that speaks TLS: a server, of which any path is a 404.
async fn receiver(folder: &Path) -> Server {
    certificates::write(folder);
    let at = folder.display();
    let text = format!(
        "[api]\nlisten = '127.0.0.1:0'\ntls_certificate = '{at}/server.crt'\n\
         tls_key = '{at}/server.key'\n[admin]\nlisten = '127.0.0.1:0'\n\
         [pools.default]\nurl = 'memory:'"
    );
    Server::start(Settings::from_toml(&text).unwrap())
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_container_serves_makes_tokens_and_delivers_webhooks() {
    let keys = tempfile::tempdir().unwrap();
    let receiver = receiver(keys.path()).await;
    for has_certificates in [true, false] {
        let root = tempfile::tempdir().unwrap();
        open(root.path());
        let mut image = Image::build(root.path(), has_certificates);
        let bundle = root.path().join("etc/ssl/certs/ca-certificates.crt");
        assert_eq!(bundle.exists(), has_certificates);
        assert_eq!(image.command, ["duly", "serve"]);
        let authority = fs::read_to_string(keys.path().join("ca.crt")).unwrap();
        image.write("ca.crt", &authority);
        let webhooks = "[webhooks]\nallow_networks = ['127.0.0.0/8']\nca_certificates = 'ca.crt'\n";
        image.write("duly-server.toml", webhooks);

        for variable in PROXIES {
            let nowhere = "http://127.0.0.1:1".to_owned();
            image.variables.insert(variable.to_owned(), nowhere);
        }
        let mut command = image.enter();
        command.push(image.command[0].clone());
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let variables = image.variables.iter();
        let variables: Vec<(&str, &str)> = variables.map(|(n, v)| (&**n, &**v)).collect();
        let program = Program::run(&command, root.path(), "sqlite:duly.db", &variables);
        let created = image.duly(&[
            "token",
            "create",
            "shop",
            "--description",
            "d",
            "--admin",
            &program.admin,
            "--json",
        ]);
        assert!(created.status.success(), "{has_certificates}: {created:?}");
        let created: Value = serde_json::from_slice(&created.stdout).unwrap();
        let token = created["token"].as_str().unwrap();
        let queue = format!("{}/v1/shop/queues/close", program.api);
        let send = |request: reqwest::RequestBuilder, body: Value| {
            let request = request.header("Authorization", format!("Bearer {token}"));
            let request = request.header("Content-Type", "application/json");
            reply(request.body(body.to_string()))
        };
        let url = format!("https://127.0.0.1:{}/v1/x", receiver.api_address().port());
        let webhook = client().put(format!("{queue}/webhook"));
        send(webhook, json!({"url": url})).await.is(201);
        let push = client().post(format!("{queue}/events"));
        let events = json!({"events": [{"payload": 1, "attempts": 1}]});
        send(push, events).await.is(201);
        until("the receiver has answered", async || {
            let view = client().get(format!("{queue}/webhook"));
            let view = send(view, json!({})).await.is(200);
            view["last_error"]["text"].to_string().contains("HTTP 404")
        })
        .await;
        assert!(image.at(Path::new(&image.folder)).join("duly.db").exists());

        // The port that it has here.
        let (_, port) = program.api.rsplit_once(':').unwrap();
        let listen = image.variables.get_mut("DULY_SERVER__API__LISTEN").unwrap();
        *listen = listen.replace("7777", port);
        assert_eq!(image.health[0], image.command[0]);
        let health: Vec<&str> = image.health[1..].iter().map(String::as_str).collect();
        let ready = ["health", "--ready", "--server", &program.api];
        for check in [&health[..], &["health", "--ready"], &ready] {
            let healthy = image.duly(check);
            assert!(healthy.status.success(), "{check:?}: {healthy:?}");
        }
        program.signal("KILL");
        until("the check fails without a server", async || {
            image.duly(&health).status.code() == Some(5)
        })
        .await;
        let start_period = image
            .health_options
            .split_once("--start-period=")
            .unwrap()
            .1;
        let start_period = start_period.split_once('s').unwrap().0;
        let start_period: u64 = start_period.parse().unwrap();
        assert!(start_period > LOADING_MAX_S);
    }
    receiver.stop().await;
}

/// By its settings, in variables or in the file, and whatever the proxies are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_health_check_finds_the_server_wherever_it_listens() {
    let folder = tempfile::tempdir().unwrap();
    let plain = "[api]\nlisten = '127.0.0.1:0'\n[admin]\nlisten = '127.0.0.1:0'\n\
                 [pools.default]\nurl = 'memory:'";
    let plain = Server::start(Settings::from_toml(plain).unwrap());
    let (plain, tls) = (plain.await.unwrap(), receiver(folder.path()).await);
    let elsewhere = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let with_tls = format!("tls_certificate = '{at}/server.crt'\ntls_key = '{at}/server.key'\n");
    for (server, more) in [(&plain, ""), (&tls, &with_tls)] {
        let (api, admin) = (server.api_address(), server.admin_address());
        let everywhere = |address: SocketAddr| format!("0.0.0.0:{}", address.port());
        let listeners = [
            (api.to_string(), admin.to_string()),
            (everywhere(api), everywhere(admin)),
        ];
        for (api, admin) in listeners {
            let text = format!("[api]\nlisten = '{api}'\n{more}[admin]\nlisten = '{admin}'\n");
            fs::write(elsewhere.path().join("duly-server.toml"), text).unwrap();
            for check in [&["health"][..], &["health", "--ready"]] {
                let mut health = Command::new(env!("CARGO_BIN_EXE_duly"));
                health.args(check).current_dir(elsewhere.path());
                health.envs(PROXIES.map(|name| (name, "http://127.0.0.1:1")));
                let healthy = health.output().unwrap();
                assert!(healthy.status.success(), "{api} {more}: {healthy:?}");
            }
        }
    }
    plain.stop().await;
    tls.stop().await;
}

/// A proxy is for what is elsewhere.
#[test]
fn a_server_elsewhere_is_reached_through_the_proxy() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut health = Command::new(env!("CARGO_BIN_EXE_duly"));
    health.args(["health", "--server", "http://duly.invalid:7777"]);
    let address = format!("http://{}", proxy.local_addr().unwrap());
    health.envs(PROXIES.map(|name| (name, &address)));
    let mut health = health.stderr(Stdio::null()).spawn().unwrap();
    let (mut asked, _) = proxy.accept().unwrap();
    let mut line = [0; 34];
    asked.read_exact(&mut line).unwrap();
    let line = String::from_utf8_lossy(&line);
    assert!(
        line.starts_with("GET http://duly.invalid:7777/healt"),
        "{line}"
    );
    drop(asked);
    assert_eq!(health.wait().unwrap().code(), Some(5));
}

/// Lets another user into a folder.
fn open(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    let folder = tempfile::tempdir().unwrap();
    let unit = deploy("duly.service");
    let installed = "ExecStart=duly";
    let program = format!("ExecStart={}", env!("CARGO_BIN_EXE_duly"));
    assert!(unit.contains(installed));
    let file = folder.path().join("duly.service");
    fs::write(&file, unit.replace(installed, &program)).unwrap();
    let verified = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&file)
        .output();
    let verified = verified.expect("`systemd-analyze` is there");
    let words = String::from_utf8_lossy(&verified.stderr);
    let is_ours = |line: &&str| line.contains("duly");
    let ours: Vec<&str> = words.lines().filter(is_ours).collect();
    assert!(verified.status.success() && ours.is_empty(), "{words}");
    // A control: what is wrong is found.
    let wrong = unit.replace("Restart=on-failure", "Restart=sometimes");
    fs::write(&file, wrong.replace(installed, &program)).unwrap();
    let verified = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&file)
        .output();
    let words = String::from_utf8_lossy(&verified.unwrap().stderr).into_owned();
    assert!(words.contains("duly.service"), "{words}");
}
