use std::time::Duration;

use super::*;
use crate::error::ErrorKind;

fn at(host: &str, port: u16) -> Address {
    Address {
        host: host.to_owned(),
        port,
    }
}

fn login(user: Option<&str>, password: Option<&str>) -> Login {
    Login {
        user: user.map(str::to_owned),
        password: password.map(str::to_owned),
    }
}

fn plain(place: Place) -> Target {
    Target {
        place,
        login: Login::default(),
        database: 0,
        tls: None,
        choices: UrlChoices::default(),
    }
}

fn sentinel(sentinels: Vec<Address>, master: &str, login: Login) -> Place {
    Place::Sentinel {
        sentinels,
        master: master.to_owned(),
        login,
    }
}

#[test]
fn every_form_says_where_the_servers_are() {
    let one = || Place::Tcp(at("h", 6379));
    let table = [
        ("redis://h", plain(one())),
        ("redis://h:6380", plain(Place::Tcp(at("h", 6380)))),
        ("redis://h/", plain(one())),
        ("redis://[::1]:7", plain(Place::Tcp(at("::1", 7)))),
        ("redis://[::1]", plain(Place::Tcp(at("::1", 6379)))),
        (
            "redis://h/3",
            Target {
                database: 3,
                ..plain(one())
            },
        ),
        (
            "redis://:s%40c%2Fret@h",
            Target {
                login: login(None, Some("s@c/ret")),
                ..plain(one())
            },
        ),
        (
            "redis://ann:secret@h/1",
            Target {
                login: login(Some("ann"), Some("secret")),
                database: 1,
                ..plain(one())
            },
        ),
        (
            "rediss://h",
            Target {
                tls: Some(Tls::default()),
                ..plain(one())
            },
        ),
        (
            "rediss://h?ca=/etc/my%20ca.pem",
            Target {
                tls: Some(Tls {
                    ca: Some("/etc/my ca.pem".into()),
                }),
                ..plain(one())
            },
        ),
        (
            "redis+unix:///run/r.sock",
            plain(Place::Unix("/run/r.sock".into())),
        ),
        (
            "unix:/run/r.sock?db=2&user=ann&pass=secret",
            Target {
                login: login(Some("ann"), Some("secret")),
                database: 2,
                ..plain(Place::Unix("/run/r.sock".into()))
            },
        ),
        (
            "redis-sentinel://s1,s2:7000/mymaster",
            plain(sentinel(
                vec![at("s1", 26379), at("s2", 7000)],
                "mymaster",
                Login::default(),
            )),
        ),
        (
            "rediss-sentinel://ann:a@s1/m/4?sentinel_user=eve&sentinel_password=e",
            Target {
                login: login(Some("ann"), Some("a")),
                database: 4,
                tls: Some(Tls::default()),
                ..plain(sentinel(
                    vec![at("s1", 26379)],
                    "m",
                    login(Some("eve"), Some("e")),
                ))
            },
        ),
        (
            "redis-cluster://ann:a@h1:7000,h2:7001",
            Target {
                login: login(Some("ann"), Some("a")),
                ..plain(Place::Cluster(vec![at("h1", 7000), at("h2", 7001)]))
            },
        ),
        (
            "rediss-cluster://h1",
            Target {
                tls: Some(Tls::default()),
                ..plain(Place::Cluster(vec![at("h1", 6379)]))
            },
        ),
    ];
    for (url, target) in table {
        assert_eq!(Target::parse(url).expect(url), target, "{url}");
    }
}

#[test]
fn options_are_read_on_every_form() {
    let choices = UrlChoices {
        prefix: Some("shop".to_owned()),
        connections: Some(2),
        timeout: Some(Duration::from_secs(5)),
        connect_timeout: Some(Duration::from_millis(1_500)),
        eviction_allowed: Some(true),
    };
    let query = "prefix=shop&connections=2&timeout=5s&connect_timeout=1.5s&eviction=allowed";
    for form in [
        "redis://h",
        "redis://h/1",
        "rediss://h",
        "unix:/s",
        "redis-sentinel://h/m",
        "redis-cluster://h",
    ] {
        let url = format!("{form}?{query}");
        assert_eq!(Target::parse(&url).expect(&url).choices, choices, "{url}");
    }
}

#[test]
fn what_is_wrong_is_said_and_no_password_with_it() {
    let table = [
        ("", "begins with redis://"),
        ("hunter2:hunter2", "begins with redis://"),
        ("http://h", "begins with redis://"),
        ("redis:h", "`//`"),
        ("redis://", "empty host"),
        ("redis://:hunter2@", "empty host"),
        ("redis://a,b", "several hosts"),
        ("redis://h:0", "a port"),
        ("redis://[::1]7", "a port"),
        ("redis://[::1", "a host"),
        ("redis://h i", "a host"),
        ("redis://h\0", "a host"),
        ("redis://h?timeout=1s\n", "`timeout`"),
        ("redis://:hunt@er/2@h", "percent-encoded"),
        ("redis://:hunter/2@h", "percent-encoded"),
        ("redis://ann@h", "needs a password"),
        ("redis://:hunter2%@h", "the password"),
        ("redis://:hunter2%zz@h", "the password"),
        ("redis://h/one", "number of a database"),
        ("redis://h?hunter2", "known are prefix, connections"),
        ("redis://:x?hunter2@h", "known are prefix, connections"),
        ("redis://h?db=1", "a socket's URL alone"),
        ("redis://h?password=hunter2", "a socket's URL alone"),
        (
            "redis://h?sentinel_password=hunter2",
            "redis-sentinel:// alone",
        ),
        ("redis://h?ca=/ca.pem", "needs TLS"),
        ("redis://h?connections=0", "from 1 to 64"),
        ("redis://h?timeout=5", "no unit"),
        ("redis://h?connect_timeout=0s", "at least 1ms"),
        ("redis://h?eviction=yes", "`refused`"),
        ("redis://h?prefix=a:b", "`prefix`"),
        ("redis://h?prefix={a}", "`prefix`"),
        ("unix:run/r.sock", "absolute path"),
        ("redis-sentinel://h", "names the master"),
        ("redis-cluster://h/1", "no databases"),
    ];
    for (url, words) in table {
        let error = Target::parse(url).expect_err(url);
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url}");
        let text = error.to_string();
        assert!(text.contains(words), "{url}: {text}");
        assert!(!text.contains("hunt"), "{url}: {text}");
    }
}

#[test]
fn a_password_is_never_shown() {
    for url in [
        "redis://ann:hunter2@h",
        "unix:/s?password=hunter2",
        "redis-sentinel://:hunter2@h/m?sentinel_password=hunter2",
    ] {
        let target = Target::parse(url).expect(url);
        assert!(!format!("{target:?} {target}").contains("hunter2"), "{url}");
    }
}
