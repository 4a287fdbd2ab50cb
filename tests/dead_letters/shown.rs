//! A payload can be looked at, whatever it is.

use duly::event::Payload;

use crate::dead_letters::kit::graveyard;
use crate::world::World;

over_every_store! {
    any_payload_can_be_shown,
}

async fn any_payload_can_be_shown(world: World) {
    let (bus, _queue, ids) = graveyard(&world).await;
    let shown = async |bytes: &[u8]| {
        let edited = bus.dead_letters().edit_bytes(ids[0], bytes).await;
        assert_eq!(edited.unwrap(), duly::dead_letters::Edited::Edited);
        let page = bus.dead_letters().ids([ids[0]]).page().await.unwrap();
        page.items[0].payload_shown()
    };
    let json =
        br#"{"order":7,"lines":[{"a": -1.50e400,"a":18446744073709551616},[],{} ],"t":"a\"{,:\\"}"#;
    assert_eq!(
        shown(json).await,
        r#"{
  "order": 7,
  "lines": [
    {
      "a": -1.50e400,
      "a": 18446744073709551616
    },
    [],
    {}
  ],
  "t": "a\"{,:\\"
}"#
    );
    assert_eq!(shown(b"17").await, "17");
    assert_eq!(
        shown("\"\u{7f}\u{9b}ä\"".as_bytes()).await,
        "\"\\u007f\\u009bä\""
    );
    assert_eq!(
        shown("Grüße,\n{not json".as_bytes()).await,
        "Grüße,\n{not json"
    );
    assert_eq!(shown(b"").await, "");
    assert_eq!(shown(b"\x1b[31mred").await, "1b 5b 33 31 6d 72 65 64");
    assert_eq!(
        shown(&[0xff; 17]).await,
        format!("{}\nff", ["ff"; 16].join(" "))
    );
    let long = shown(&[0; 5_000]).await;
    assert!(long.ends_with("\n... 5000 bytes in all") && long.len() < 1_000);
    let long = shown("ä".repeat(50_000).as_bytes()).await;
    assert!(long.ends_with("\n... 100000 bytes in all") && long.len() < 17_000);
    let wide = format!("[{}1]", "1,".repeat(50_000));
    let long = shown(wide.as_bytes()).await;
    assert!(long.ends_with("\n... 100003 bytes in all") && long.len() < 17_000);
    let string = format!("\"{}\"", "\u{7f}".repeat(50_000));
    let long = shown(string.as_bytes()).await;
    assert!(long.ends_with("\n... 50002 bytes in all") && long.len() < 17_000);
    for depth in [100, 200, 100_000] {
        let deep = "[".repeat(depth) + &"]".repeat(depth);
        assert!(shown(deep.as_bytes()).await.len() < 100_000);
    }
    assert_eq!(bus.dead_letters().page().await.unwrap().items.len(), 10);
    assert_eq!(
        format!("{:?}", Payload::from(&b"secret"[..])),
        "Payload(6 bytes)"
    );
}
