//! The process's own directory and environment, which only a process of its own may have changed.

use std::process::Command;
use std::time::Duration;

use duly::config::Settings;

use crate::config::{TOML, directory, queue, refusal};

const CHILD: &str = "DULY_TEST_CHILD";

#[test]
fn load_reads_the_directory_and_the_environment_of_the_process() {
    if std::env::var_os(CHILD).is_some() {
        let spelled = "DULY__QUEUES__BY_HAND__WORKERS";
        let words = refusal(Settings::load());
        assert!(words.contains(spelled), "no such queue is known: {words}");
        let settings = Settings::load_for([queue("by-hand")]).unwrap();
        assert_eq!(settings.queues["by-hand"].workers, Some(2));
        assert_eq!(settings.store_url.as_deref(), Some("memory:"));
        assert_eq!(settings.read_ahead, Some(Duration::from_millis(50)));
        return;
    }
    let directory = directory(&[("duly.toml", TOML)]);
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "config::process::load_reads_the_directory_and_the_environment_of_the_process",
        ])
        .current_dir(&directory)
        .env(CHILD, "1")
        .env("DULY__STORE__URL", "memory:")
        .env("DULY__QUEUES__BY_HAND__WORKERS", "2")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{said}");
    assert!(
        said.contains("1 passed"),
        "the child must have run the test: {said}"
    );
}
