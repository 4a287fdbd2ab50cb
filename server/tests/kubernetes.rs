//! The manifests of `deploy/kubernetes`: what they ask of the server it has, and it starts as they
//! say. Their schemas are checked by `.ci/release check`.

use std::path::Path;
use std::process::Command;

use duly_server::Settings;
use yaml_rust2::{Yaml, YamlLoader};

use crate::deploy::LOADING_MAX_S;
use crate::kills::Program;
use crate::world::client;

fn manifest(name: &str) -> Vec<Yaml> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/kubernetes");
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    YamlLoader::load_from_str(&text).unwrap()
}

/// The seconds between the end of a pod's wait for traffic to stop and its kill.
fn stop_s(pod: &Yaml) -> u64 {
    let lifecycle = &pod["containers"][0]["lifecycle"];
    let pause = lifecycle["preStop"]["sleep"]["seconds"].as_i64().unwrap();
    let grace = pod["terminationGracePeriodSeconds"].as_i64().unwrap();
    u64::try_from(grace - pause).unwrap()
}

/// The variables of the container, and those of the secret that the comment has one make.
fn variables(container: &Yaml) -> Vec<(String, String)> {
    let listed = container["env"].as_vec().unwrap().iter();
    let text = |value: &Yaml| value.as_str().unwrap().to_owned();
    let mut variables: Vec<_> = listed
        .map(|one| (text(&one["name"]), text(&one["value"])))
        .collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/kubernetes");
    let comment = std::fs::read_to_string(folder.join("kustomization.yaml")).unwrap();
    for literal in comment.split("--from-literal=").skip(1) {
        let literal = literal.lines().next().unwrap().trim_end_matches(" \\");
        let (name, value) = literal.split_once('=').unwrap();
        variables.push((name.to_owned(), value.trim_matches('\'').to_owned()));
    }
    variables
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_starts_by_its_variables_and_its_probes_respond() {
    let deployment = &manifest("deployment.yaml")[0];
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let mut variables = variables(container);
    let mut seen = Vec::new();
    for (name, value) in &mut variables {
        seen.push(name.clone());
        match name.as_str() {
            "DULY_SERVER__POOLS__DEFAULT__URL" => *value = "sqlite:duly.db".to_owned(),
            name if name.ends_with("__LISTEN") => {
                let address: std::net::SocketAddr = value.parse().unwrap();
                assert!(
                    address.ip().is_unspecified(),
                    "{name} is reached from outside"
                );
                let ports = container["ports"].as_vec().unwrap();
                let port = i64::from(address.port());
                assert!(
                    ports
                        .iter()
                        .any(|one| one["containerPort"].as_i64() == Some(port))
                );
                *value = "127.0.0.1:0".to_owned();
            }
            _ => {}
        }
    }
    assert_eq!(
        seen,
        [
            "DULY_SERVER__API__LISTEN",
            "DULY_SERVER__ADMIN__LISTEN",
            "DULY_SERVER__POOLS__DEFAULT__URL",
            "DULY_SERVER__ADMIN__ACCOUNTS__ANN",
        ]
    );

    let folder = tempfile::tempdir().unwrap();
    let set: Vec<(&str, &str)> = variables.iter().map(|(n, v)| (&**n, &**v)).collect();
    let program = Program::start_with(folder.path(), "sqlite:duly.db", &set);
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let get = &container[probe]["httpGet"];
        assert_eq!(get["port"].as_str(), Some("api"), "{probe}");
        let path = get["path"].as_str().unwrap();
        let said = client().get(format!("{}{path}", program.api)).send().await;
        assert_eq!(said.unwrap().status(), 200, "{probe}");
    }
    let tokens = format!("{}/token/shop", program.admin);
    let refused = client().get(&tokens).send().await.unwrap();
    assert_eq!(refused.status(), 401, "the admin interface has accounts");
    let password = &variables[3].1;
    let known = client().get(&tokens).basic_auth("ann", Some(password));
    assert_eq!(known.send().await.unwrap().status(), 200);
}

#[test]
fn a_pod_has_the_time_for_a_whole_stop() {
    let deployment = &manifest("deployment.yaml")[0];
    let pod = &deployment["spec"]["template"]["spec"];
    let grace = Settings::default().limits.grace_s;
    assert!(
        stop_s(pod) > 2 * grace,
        "requests, and then stores, may take the grace period"
    );
    let unit = include_str!("../deploy/duly.service");
    let (_, rest) = unit.split_once("TimeoutStopSec=").unwrap();
    let unit: u64 = rest.lines().next().unwrap().parse().unwrap();
    assert_eq!(stop_s(pod), unit, "the unit has as much");
}

#[test]
fn a_start_may_take_as_long_as_a_redis_loads_its_data_and_is_tried_again() {
    let deployment = &manifest("deployment.yaml")[0];
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let probe = |name: &str| container["startupProbe"][name].as_i64().unwrap();
    let most_s = probe("periodSeconds") * probe("failureThreshold");
    assert!(most_s > i64::try_from(LOADING_MAX_S).unwrap(), "{most_s}");
    // A start fails at once where nothing listens, however long that lasts.
    let unit = include_str!("../deploy/duly.service");
    let (head, service) = unit.split_once("[Service]").unwrap();
    assert!(head.contains("\nStartLimitIntervalSec=0\n"));
    assert!(service.contains("\nRestartSec=2\n"));
}

#[test]
fn every_manifest_is_of_the_same_pods_and_listed() {
    let kustomization = &manifest("kustomization.yaml")[0];
    let resources = kustomization["resources"].as_vec().unwrap();
    let mut selectors = Vec::new();
    for resource in resources {
        for one in manifest(resource.as_str().unwrap()) {
            let selector = &one["spec"]["selector"];
            let labels = &selector["matchLabels"];
            let labels = if labels.is_badvalue() {
                selector
            } else {
                labels
            };
            selectors.push(
                labels["app.kubernetes.io/name"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
            );
        }
    }
    assert_eq!(selectors, ["duly"; 4]);
    let unlisted = ["kustomization.yaml", "scaling.yaml"];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/kubernetes");
    let files = std::fs::read_dir(folder).unwrap().count();
    assert_eq!(files, resources.len() + unlisted.len());
}

#[test]
fn a_worker_stays_at_the_server_of_its_stream() {
    let service = &manifest("service.yaml")[0];
    assert_eq!(service["spec"]["ports"][0]["name"].as_str(), Some("api"));
    let affinity = service["spec"]["sessionAffinity"].as_str();
    assert_eq!(affinity, Some("ClientIP"));
}

#[test]
fn a_visitor_stays_at_the_server_of_the_session() {
    let service = &manifest("service.yaml")[1];
    assert_eq!(service["spec"]["ports"][0]["name"].as_str(), Some("admin"));
    let affinity = service["spec"]["sessionAffinity"].as_str();
    assert_eq!(affinity, Some("ClientIP"));
}

/// A queue beyond those that have a label has no depth: KEDA would take that for none late.
#[test]
fn workers_whose_queue_has_no_figures_are_an_error_and_no_calm() {
    let scaled = &manifest("scaling.yaml")[0];
    let depth = &scaled["spec"]["triggers"][0]["metadata"];
    let query = depth["query"].as_str().unwrap();
    assert!(query.contains("duly_queue_depth"), "{query}");
    assert_eq!(depth["ignoreNullValues"].as_str(), Some("false"));
}

/// What `kustomization.yaml` says to run makes a token, as far as its words are read.
#[test]
fn the_first_token_comes_from_within_a_container() {
    for file in ["Containerfile", "kubernetes/kustomization.yaml"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("deploy")
            .join(file);
        let text = std::fs::read_to_string(path).unwrap();
        let (_, words) = text.split_once("duly token create ").unwrap();
        let words = words.lines().next().unwrap().replace('\'', "");
        let words = words.replace("a password", "secret");
        // Nobody listens there: what is wrong with the words is said before.
        let run = Command::new(env!("CARGO_BIN_EXE_duly"))
            .args(["token", "--admin", "http://127.0.0.1:9", "create"])
            .args(words.split(' '))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(5), "{file}: {said}");
    }
}

#[test]
fn the_image_has_the_tag_of_a_release() {
    let image = &manifest("kustomization.yaml")[0]["images"][0];
    let tag = format!("v{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(image["newTag"].as_str(), Some(&*tag));
}

#[test]
fn health_is_a_matter_of_the_exit_code() {
    // Nothing listens on this port of the loopback network.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let ran = Command::new(env!("CARGO_BIN_EXE_duly"))
        .args(["health", "--server", &url])
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(5));
    let words = String::from_utf8(ran.stderr).unwrap();
    assert!(
        words.contains(&format!("{url}/ does not respond")),
        "{words}"
    );
}
