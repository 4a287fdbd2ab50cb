//! Logins: guesses are slow wherever they are made, sessions end, and only our texts are shown.

use duly_server::Server;
use futures_util::future::join_all;
use reqwest::{Method, RequestBuilder};

use super::access::{VISIT, csrf, log_in, log_in_with, session, with_form};
use crate::rights::admin_settings;
use crate::servers::Redis;
use crate::world::{Place, Reply, World, client, reply};

/// A server with the account `ann` and an open namespace.
async fn server(more: &str) -> (Server, String) {
    let settings = admin_settings(&format!("accounts = {{ ann = 'secret' }}\n{more}"));
    let server = Server::start(settings).await.unwrap();
    let url = format!("http://{}", server.admin_address());
    (server, url)
}

async fn basic(url: &str, name: &str, password: &str) -> Reply {
    let request = client().get(format!("{url}/limits"));
    reply(request.basic_auth(name, Some(password))).await
}

async fn page(url: &str, cookies: &str) -> Reply {
    let request = client().get(format!("{url}/dashboard/queues"));
    reply(request.header("cookie", cookies)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_are_as_slow_wherever_they_are_made() {
    for by_form in [true, false] {
        let (server, url) = server("").await;
        let dashboard = format!("{url}/dashboard");
        for _ in 0..30 {
            basic(&url, "ann", "secret").await.is(200);
        }
        assert_eq!(log_in(&dashboard, "ann", "secret").await.status, 303);
        // At the same time, from one client.
        let guesses = (0..40).map(|guess| {
            let (url, dashboard) = (url.clone(), dashboard.clone());
            tokio::spawn(async move {
                let password = format!("guess {guess}");
                let guessed = if by_form {
                    log_in(&dashboard, "ann", &password).await
                } else {
                    basic(&url, "ann", &password).await
                };
                guessed.status.as_u16()
            })
        });
        let guesses = futures_util::future::join_all(guesses).await;
        let refused = |status: u16| {
            let guesses = guesses.iter().map(|guess| *guess.as_ref().unwrap());
            guesses.filter(|guess| *guess == status).count()
        };
        assert!((10..20).contains(&refused(401)), "{}", refused(401));
        assert_eq!(refused(401) + refused(429), 40);
        // Neither way tells now whether a password is right, and each says when.
        for password in ["secret", "wrong"] {
            let form = log_in(&dashboard, "ann", password).await;
            let header = basic(&url, "ann", password).await;
            for refused in [form, header] {
                assert_eq!(refused.status, 429, "{refused:?}");
                let seconds = refused.headers["retry-after"].to_str().unwrap();
                assert!((1..=10).contains(&seconds.parse::<u64>().unwrap()));
            }
        }
        // Others are checked.
        assert_eq!(log_in(&dashboard, "bob", "x").await.status, 401);
        assert_eq!(basic(&url, "bob", "x").await.status, 401);
        server.stop().await;
    }
}

/// Guesses until that is refused.
async fn guess_until_refused(dashboard: &str) {
    for guess in 0..40 {
        if log_in(dashboard, "ann", &format!("guess {guess}"))
            .await
            .status
            == 429
        {
            return;
        }
    }
    panic!("guesses are not slowed down");
}

/// All are behind one proxy, so they have one address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_logged_in_before_gets_in_while_others_guess() {
    let (server, url) = server("").await;
    let dashboard = format!("{url}/dashboard");
    let first = log_in(&dashboard, "ann", "secret").await;
    assert_eq!(first.status, 303);
    let cookies = first.headers.get_all("set-cookie").iter();
    let device = cookies.map(|it| it.to_str().unwrap());
    let device = device.filter(|it| it.starts_with("duly_device="));
    let [device] = device.collect::<Vec<_>>()[..] else {
        panic!("{first:?}");
    };
    assert!(device.contains("HttpOnly; SameSite=Strict") && device.contains("Max-Age"));
    let device = device.split(';').next().unwrap();
    let browser = format!("{VISIT}; {device}");
    // Without the cookie the same login is refused, unless one is allowed again meanwhile.
    let mut is_locked_out = false;
    while !is_locked_out {
        guess_until_refused(&dashboard).await;
        let login = log_in_with(&dashboard, "ann", "secret", &browser).await;
        assert_eq!(login.status, 303, "{login:?}");
        is_locked_out = log_in(&dashboard, "ann", "secret").await.status == 429;
    }
    // The cookie is no login, and whoever has it guesses slowly, too.
    assert_eq!(page(&url, &browser).await.status, 303);
    let mut guesses = 0..200;
    let is_slow = loop {
        let Some(guess) = guesses.next() else {
            break false;
        };
        let guess = format!("another {guess}");
        let login = log_in_with(&dashboard, "ann", &guess, &browser).await;
        if login.status == 429 {
            break true;
        }
        assert_eq!(login.status, 401, "{login:?}");
    };
    assert!(is_slow);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_a_known_proxy_are_told_apart() {
    let client = client();
    for (more, is_known) in [
        ("trusted_proxies = ['127.0.0.0/8', '::1']", true),
        ("trusted_proxies = ['192.0.2.1']", false),
        ("", false),
    ] {
        let (server, url) = server(more).await;
        let send = async |method: Method, path: &str, client_of: &str, password: &str| {
            let request = client.request(method, format!("{url}{path}"));
            let request = request.header("X-Forwarded-For", client_of);
            reply(request.basic_auth("ann", Some(password))).await
        };
        let limits = async |client_of: &str, password: &str| {
            let sent = send(Method::GET, "/limits", client_of, password).await;
            sent.status.as_u16()
        };
        let (mut guesses, mut other) = (0, 0);
        // One is allowed again from time to time.
        while other != if is_known { 200 } else { 429 } {
            // What a client has written itself is before what the proxy adds.
            let of = format!("198.51.100.{}, 203.0.113.7", guesses % 250);
            guesses += 1;
            assert!(guesses < 1_000, "{more}: guesses are not slowed down");
            if limits(&of, "guess").await == 429 {
                other = limits("203.0.113.8", "secret").await;
                assert!(other == 200 || !is_known, "{more}: {other}");
            }
        }
        assert!(guesses > 10, "{more}: {guesses}");
        if is_known {
            let path = "/token/ns?description=x";
            let made = send(Method::POST, path, "203.0.113.8", "secret").await;
            made.is(201);
            let audit = send(Method::GET, "/audit", "203.0.113.8", "secret").await;
            assert_eq!(audit.is(200)["items"][0]["from"], "203.0.113.8");
        }
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cookie_holds_no_secret_and_ends_with_its_session() {
    for (more, is_secure) in [("", false), ("behind_tls = true", true)] {
        let (server, url) = server(more).await;
        let dashboard = format!("{url}/dashboard");
        let login = log_in(&dashboard, "ann", "secret").await;
        assert_eq!(login.status, 303);
        let header = login.headers["set-cookie"].to_str().unwrap();
        assert!(header.contains("; HttpOnly; SameSite=Strict"), "{header}");
        assert_eq!(header.contains("; Secure"), is_secure, "{header}");
        let cookie = session(&login).unwrap();
        let (_, id) = cookie.split_once('=').unwrap();
        use base64::Engine;
        let decoded = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(id);
        let decoded = String::from_utf8_lossy(&decoded.unwrap()).into_owned();
        assert!(!decoded.contains("secret") && !decoded.contains("ann"));
        let other = session(&log_in(&dashboard, "ann", "secret").await).unwrap();
        assert_ne!(other, cookie);

        let cookies = format!("{VISIT}; {cookie}");
        let queues = page(&url, &cookies).await;
        assert_eq!(queues.status, 200);
        // Name and password in a cookie are nothing.
        let both = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode("ann\nsecret");
        for name in ["duly_login", "duly_session"] {
            let cookies = format!("{VISIT}; {name}={both}");
            assert_eq!(page(&url, &cookies).await.status, 303);
        }
        let logout = client().post(format!("{dashboard}/logout"));
        let form = [("csrf", csrf(&queues.text))];
        let logout = with_form(logout.header("cookie", &cookies), &form);
        let logout = reply(logout).await;
        assert_eq!(logout.status, 303, "{logout:?}");
        let removed = logout.headers["set-cookie"].to_str().unwrap();
        assert!(removed.contains("Max-Age=0"), "{removed}");
        assert_eq!(page(&url, &cookies).await.status, 303, "it has ended");
        let other = format!("{VISIT}; {other}");
        assert_eq!(page(&url, &other).await.status, 200, "the other lasts");
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_ends_with_its_token() {
    let settings = admin_settings("accounts = { ann = 'secret' }");
    let server = Server::start(settings).await.unwrap();
    let url = format!("http://{}", server.admin_address());
    let admin = |method, path: &str| -> RequestBuilder {
        let request = client().request(method, format!("{url}{path}"));
        request.basic_auth("ann", Some("secret"))
    };
    let create = admin(Method::POST, "/token/ns?description=x");
    let token = reply(create).await.is(201)["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let login = log_in(&format!("{url}/dashboard"), "ns", &token).await;
    assert_eq!(login.status, 303, "{login:?}");
    let cookies = format!("{VISIT}; {}", session(&login).unwrap());
    assert_eq!(page(&url, &cookies).await.status, 200);
    let revoke = admin(Method::DELETE, &format!("/token/ns/{token}"));
    reply(revoke).await.is(204);
    assert_eq!(page(&url, &cookies).await.status, 303);
    server.stop().await;
}

/// The form takes the name of an account or the namespace of a token, and they may be the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_logins_of_a_token_end_no_session_of_another_user() {
    let (server, url) = server("").await;
    let dashboard = format!("{url}/dashboard");
    let token = async |scopes: &str| {
        let create = format!("{url}/token/ann?description=x&scopes={scopes}");
        let create = client().post(create).basic_auth("ann", Some("secret"));
        let created = reply(create).await.is(201);
        created["token"].as_str().unwrap().to_owned()
    };
    let (weak, strong) = (token("consume").await, token("consume,admin").await);
    let mut others = Vec::new();
    for secret in ["secret", &strong] {
        let login = log_in(&dashboard, "ann", secret).await;
        others.push(format!("{VISIT}; {}", session(&login).unwrap()));
    }
    let mut own = Vec::new();
    for _ in 0..40 {
        let login = log_in(&dashboard, "ann", &weak).await;
        own.push(format!("{VISIT}; {}", session(&login).unwrap()));
    }
    for cookies in &others {
        assert_eq!(page(&url, cookies).await.status, 200, "another user is out");
    }
    let mut lasting = 0;
    for cookies in &own {
        lasting += usize::from(page(&url, cookies).await.status == 200);
    }
    assert!((1..40).contains(&lasting), "its own are bounded: {lasting}");
    server.stop().await;
}

/// Which names are accounts is told neither by words nor by how often one may guess.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_while_the_state_is_away_is_alike_for_every_name() {
    let redis = Redis::plain();
    let (server, url) = server(&format!("state = '{}'", redis.url())).await;
    let dashboard = format!("{url}/dashboard");
    redis.stop_process();
    let guesses = ["ann", "bob"].map(|name| {
        let dashboard = dashboard.clone();
        let guess = move |number: usize| {
            let dashboard = dashboard.clone();
            async move { log_in(&dashboard, name, &format!("guess {number}")).await }
        };
        tokio::spawn(async move {
            let first = join_all((0..10).map(guess.clone())).await;
            let mut told: Vec<_> = first.into_iter().map(|it| (it.status, it.text)).collect();
            told.push((guess(10).await.status, String::new()));
            told
        })
    });
    let [of_account, of_nobody] = guesses;
    let (of_account, of_nobody) = (of_account.await.unwrap(), of_nobody.await.unwrap());
    assert_eq!(of_account, of_nobody);
    let statuses: Vec<_> = of_nobody.iter().map(|(it, _)| it.as_u16()).collect();
    assert_eq!(statuses, [&[503; 10][..], &[429]].concat());
    redis.cont();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_our_own_texts_are_shown_as_ours() {
    let world = World::start(Place::Embedded).await;
    world.publish("/api/ns/mail?delay=600", "{}").await;
    let url = format!("http://{}/dashboard", world.server.admin_address());
    let visit = |method, url: String, browser: &str| {
        let request = client().request(method, url);
        request.header("cookie", browser.to_owned())
    };
    let question = visit(Method::GET, format!("{url}/act/pause?queue=ns.mail"), VISIT);
    let question = reply(question).await;
    let form = [("csrf", csrf(&question.text)), ("queue", "ns.mail")];
    let paused = visit(Method::POST, format!("{url}/act/pause"), VISIT);
    let paused = reply(with_form(paused, &form)).await;
    assert_eq!(paused.status, 303, "{paused:?}");
    let ours = paused.headers["location"].to_str().unwrap();
    let admin = format!("http://{}", world.server.admin_address());
    let shown = reply(visit(Method::GET, format!("{admin}{ours}"), VISIT)).await;
    assert!(shown.text.contains("role=\"status\""), "{ours}: {shown:?}");

    let text = "your+password+has+expired:+call+0900";
    let (path, query) = ours.split_once('?').unwrap();
    let (_, proof) = query.rsplit_once('&').unwrap();
    let other = "duly_visit=wwwwwwwwwwwwwwwwwwwwwwww";
    for (path, browser) in [
        (format!("{path}?done={text}"), VISIT),
        (format!("{path}?done={text}&{proof}"), VISIT),
        (format!("{path}?done={text}&of="), VISIT),
        (format!("/dashboard/?done={text}"), VISIT),
        (ours.to_owned(), other),
    ] {
        let shown = reply(visit(Method::GET, format!("{admin}{path}"), browser)).await;
        assert_eq!(shown.status, 200);
        assert!(!shown.text.contains("role=\"status\""), "{path}: {shown:?}");
        assert!(!shown.text.contains("expired"), "{path}: {shown:?}");
    }
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_with_blanks_at_its_ends_works_by_a_form_and_by_a_header() {
    let longest = "x".repeat(512);
    for password in [" a secret ", &longest] {
        let settings = admin_settings(&format!("accounts = {{ ann = '{password}' }}"));
        let server = Server::start(settings).await.unwrap();
        let url = format!("http://{}", server.admin_address());
        let dashboard = format!("{url}/dashboard");
        basic(&url, "ann", password).await.is(200);
        assert_eq!(log_in(&dashboard, "ann", password).await.status, 303);
        basic(&url, "ann", "a secret").await.is(401);
        assert_eq!(log_in(&dashboard, "ann", "a secret").await.status, 401);
        server.stop().await;
    }
}
