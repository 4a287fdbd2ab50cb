//! The dashboards of a server with several pools.

use reqwest::Method;

use super::access::{csrf, visit_at};
use crate::servers;
use crate::world::{World, with_prefix};

const DEFAULT: &str = "/dashboard";
const SECOND: &str = "/pools/second/dashboard";

/// A server with a pool in a file and one on Redis; each has a queue that the other does not have.
async fn two_pools() -> (World, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let second = with_prefix(&servers::shared().url());
    let more = format!("[pools.second]\nurl = '{second}'\n");
    let world = World::start_at(folder, url, &more).await;
    let token = world.new_token("ns", "&pool=second").await;
    world.publish("/api/ns/mail?delay=600", "{}").await;
    let request = world.client.put(world.api_url("/api/ns/bills?delay=600"));
    let request = request.header("X-Token", &token).body("{}");
    crate::world::reply(request).await.is(201);
    (world, token)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_has_a_choice_of_pools_with_an_address_of_its_own() {
    let (world, _) = two_pools().await;
    let see = async |base: &str, path: &str| {
        let seen = visit_at(&world, base, Method::GET, path, None, &[]).await;
        assert_eq!(seen.status, 200, "{base}{path}: {seen:?}");
        seen.text
    };
    for (base, own, other) in [
        (DEFAULT, "ns.mail", "ns.bills"),
        (SECOND, "ns.bills", "ns.mail"),
    ] {
        for (path, place) in [
            ("/", "/"),
            ("/queues", "/queues"),
            ("/dead", "/dead"),
            ("/records", "/records"),
            ("/schedules", "/schedules"),
            ("/nodes", "/nodes"),
            (&format!("/queues/{own}"), "/queues"),
        ] {
            let page = see(base, path).await;
            for (name, to) in [("default", DEFAULT), ("second", SECOND)] {
                let is_here = to == base;
                let link = format!("<a href=\"{to}{place}\" aria-current=\"{is_here}\">{name}</a>");
                assert!(
                    page.contains(&link),
                    "{link} is not in {base}{path}: {page}"
                );
            }
        }
        let queues = see(base, "/queues").await;
        assert!(queues.contains(own) && !queues.contains(other), "{queues}");
        let path = format!("/queues/{other}");
        let missing = visit_at(&world, base, Method::GET, &path, None, &[]).await;
        assert_eq!(missing.status, 404, "{other} at {base}");
    }
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_is_of_its_pool_and_so_is_its_line_in_the_audit() {
    let (world, _) = two_pools().await;
    let ask = visit_at(
        &world,
        SECOND,
        Method::GET,
        "/act/pause?queue=ns.bills",
        None,
        &[],
    )
    .await;
    let form = [("csrf", csrf(&ask.text)), ("queue", "ns.bills")];
    let done = visit_at(&world, SECOND, Method::POST, "/act/pause", None, &form).await;
    assert_eq!(done.status, 303, "{done:?}");
    let to = done.headers["location"].to_str().expect("an address");
    assert!(
        to.starts_with("/pools/second/dashboard/queues/ns.bills?"),
        "{to}"
    );
    let audit = world.admin(Method::GET, "/audit").await.text;
    assert!(audit.contains("second/ns/bills"), "{audit}");
    // The other pool has no such queue, and is not changed.
    let done = visit_at(&world, DEFAULT, Method::POST, "/act/pause", None, &form).await;
    assert_eq!(done.status, 404, "{done:?}");
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_opens_its_own_pool_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let second = format!("sqlite:{}", folder.path().join("second.db").display());
    let more = format!("[pools.second]\nurl = '{second}'\n[pools.third]\nurl = 'memory:'\n");
    let world = World::start_at(folder, url, &more).await;
    let token = world.new_token("ns", "&pool=second").await;
    // The listener is open to everybody here, so that only the name shows who is logged in.
    for (base, is_known) in [
        (SECOND, true),
        (DEFAULT, false),
        ("/pools/third/dashboard", false),
    ] {
        let seen = visit_at(&world, base, Method::GET, "/", Some(("ns", &token)), &[]).await;
        let is_user = seen.text.contains("<span class=\"user\">ns/");
        assert_eq!(is_user, is_known, "{base}: {}", seen.text);
    }
    world.server.stop().await;
}
