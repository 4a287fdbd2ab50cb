//! Round trips: each value that a push accepts comes back as it was, bit for bit, by every codec,
//! in clear text and encrypted; any other is refused with words.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use duly::codec::{Codec, Key, KeyRing, Raw};
use duly::lease::LeaseStatus;
use duly::prelude::*;
use duly::schedule::ScheduleOptions;
use duly::testing::{Probe, TestBus};
use fastrand::Rng;
use serde::de::DeserializeOwned;

use crate::payloads::letter;
use crate::payloads::shapes::*;
use crate::world::{ORDERS, World, secs};

/// How often each codec has accepted and refused values of a shape.
type Seen = BTreeMap<(&'static str, &'static str), (usize, usize)>;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

async fn start() -> TestBus {
    let keys = KeyRing::new();
    let key: Key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
        .parse()
        .unwrap();
    keys.add("now", key).unwrap();
    keys.choose("now").unwrap();
    let mut builder = Bus::builder().only_registered().publish_only().keys(keys);
    for codec in Codec::ALL.into_iter().filter(|codec| codec.is_built_in()) {
        for encrypt in [false, true] {
            let choices = QueueChoices {
                codec: Some(codec),
                encrypt: Some(encrypt),
                ..QueueChoices::default()
            };
            builder = builder.queue(format!("{codec}.{encrypt}"), choices);
        }
    }
    TestBus::start(builder).await.unwrap()
}

/// Pushes values of a type by every codec, and leases them again.
async fn check<T>(bus: &TestBus, seen: &mut Seen, rng: &mut Rng, name: &'static str)
where
    T: Make + Debug + Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    for _ in 0..number("DULY_SHAPES_CASES", 8) {
        let value = T::make(rng);
        let as_it_was = format!("{value:?}");
        for codec in Codec::ALL.into_iter().filter(|codec| codec.is_built_in()) {
            for encrypt in [false, true] {
                let queue = bus.queue_named::<T>(&format!("{codec}.{encrypt}")).unwrap();
                let counts = seen.entry((name, codec.as_str())).or_default();
                let updates = rng.bool();
                let pushed = if !updates {
                    queue.push(value.clone(), When::Now).await.map(drop)
                } else {
                    update(&queue, &value).await
                };
                if let Err(error) = pushed {
                    counts.1 += 1;
                    let words = error.to_string();
                    assert_eq!(error.kind(), ErrorKind::Invalid, "{words}");
                    assert!(words.contains("payload"), "{words}");
                    continue;
                }
                counts.0 += 1;
                let leased = queue.lease(2, secs(60)).send().await.unwrap();
                assert_eq!(leased.len(), 1, "{name} by {codec} is lost: {as_it_was}");
                let came_back = format!("{:?}", leased[0].event().payload);
                assert_eq!(came_back, as_it_was, "{name} by {codec}");
                assert_eq!(leased[0].ack().await.unwrap(), LeaseStatus::Held);
            }
        }
    }
}

/// Stores a value in the place of one that any codec has; needs one to be there.
async fn update<T>(queue: &Queue<T>, value: &T) -> duly::Result<()>
where
    T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    // What is refused as an update must be refused as a push, and the other way round.
    let id = queue
        .push(value.clone(), Duration::from_millis(1))
        .await?
        .id();
    let ChangeOutcome::Changed(_) = queue.update(id, value).await? else {
        panic!("it waits");
    };
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok(())
}

macro_rules! shapes {
    ($check:ident: $($shape:ty),+ $(,)?) => {$( $check!($shape); )+};
}

#[tokio::test(start_paused = true)]
#[allow(clippy::print_stdout)] // it tells which seed to run again
async fn what_is_accepted_comes_back_bit_for_bit() {
    let seed = number("DULY_SHAPES_SEED", fastrand::u64(..));
    println!("DULY_SHAPES_SEED={seed}");
    let (bus, mut rng, mut seen) = (start().await, Rng::with_seed(seed), Seen::new());
    macro_rules! check {
        ($shape:ty) => {
            check::<$shape>(&bus, &mut seen, &mut rng, stringify!($shape)).await
        };
    }
    shapes! { check:
        bool, u8, i128, u128, char, String, (), UnitStruct, Raw, F32, F64, Vec<u8>, Option<u8>,
        Wrapped, Pair, (u8,), (u8, String, F64), [i16; 3], Numbers, Texts, Options, Unit, Floats,
        Defaulted, FlatStruct, FlatOption, FlatTexts, FlatNumbers, FlatAlone, FlatEnum, FlatWide,
        NeverWritten, OtherNames, DoubleOption, Std, Keys, External, Internal, Adjacent, Untagged,
        Overlapping, UntaggedWide, UntaggedKeys, Deep, Hashed, serde_json::Value,
        BTreeMap<Option<u8>, u8>, BTreeMap<(u8, u8), u8>, BTreeMap<Vec<u8>, u8>,
        Option<Option<Option<u8>>>, Vec<Option<()>>, Result<(), Option<String>>,
    }
    let refused = |name: &str, codec: &str| seen.get(&(name, codec)).map_or(0, |it| it.1);
    // Each codec carries these, whatever they contain.
    for name in [
        "bool",
        "u8",
        "i128",
        "u128",
        "char",
        "String",
        "()",
        "UnitStruct",
        "Vec<u8>",
        "Option<u8>",
        "Wrapped",
        "(u8,)",
        "[i16; 3]",
        "Numbers",
        "Texts",
        "Unit",
        "Defaulted",
        "FlatTexts",
        "DoubleOption",
        "Std",
        "External",
        "Hashed",
        "serde_json::Value",
    ] {
        assert_eq!(
            (refused(name, "json"), refused(name, "msgpack")),
            (0, 0),
            "{name}"
        );
    }
    for name in ["F32", "F64", "Floats", "Keys", "Adjacent"] {
        assert_eq!(refused(name, "msgpack"), 0, "{name}");
    }
    assert_eq!(refused("Raw", "raw"), 0);
    for name in ["NeverWritten", "OtherNames"] {
        assert!(
            seen.iter()
                .all(|(at, counts)| at.0 != name || counts.0 == 0)
        );
    }
}

/// A push through a handler's own queue, and what its words say.
async fn refused<T>(codec: Codec, value: T, words: &str)
where
    T: Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let probe = Probe::<T>::new();
    let (bus, queue) = World::memory().serve(ORDERS.codec(codec), &probe).await;
    let error = queue.push(value.clone(), secs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let said = error.to_string();
    assert!(
        said.contains(words) && said.contains("What serde cannot carry"),
        "{said}"
    );
    let many = queue.push_many([value.clone()], secs(1)).await.unwrap_err();
    assert_eq!(many.to_string(), said);
    let all = queue
        .push_many([queue.event(value)], When::Now)
        .all_or_none()
        .await
        .unwrap_err();
    assert_eq!(all.to_string(), said);
    bus.advance(secs(60)).await;
    assert_eq!(probe.count(), 0);
    let stats = bus.stats("orders").await.unwrap();
    assert_eq!((stats.scheduled, stats.ready, stats.dead), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_come_back_is_refused_at_its_push() {
    #[derive(Clone, Debug, Serialize, Deserialize)]
    struct Flat {
        #[serde(flatten)]
        by_number: BTreeMap<u64, u8>,
    }
    #[derive(Clone, Debug, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(i128),
        Text(String),
    }
    refused(Codec::Json, f64::NAN, "would not decode").await;
    refused(Codec::Json, vec![1.0, f64::INFINITY], "would not decode").await;
    refused(Codec::Json, Some(f64::NAN), "another value").await;
    refused(Codec::Json, Some(None::<u8>), "another value").await;
    refused(Codec::Json, Some(()), "another value").await;
    let by_number = [(7, 7)].into();
    refused(Codec::Json, Flat { by_number }, "would not decode").await;
    refused(Codec::Json, Either::Number(1 << 100), "would not decode").await;
    let text = Either::Text(String::new());
    let (_bus, queue) = World::memory().serve(ORDERS, &Probe::<Either>::new()).await;
    assert!(
        queue.push(text, When::Now).await.is_ok(),
        "only that variant is refused"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_nested_too_deeply_is_refused_before_a_stack_overflows() {
    #[derive(Clone, Debug, Serialize, Deserialize)]
    enum Chain {
        End,
        Next(Box<Self>),
    }
    #[derive(Clone, Debug, Serialize, Deserialize)]
    struct Wrap(Option<Box<Self>>);

    let chain = |len| (0..len).fold(Chain::End, |next, _| Chain::Next(Box::new(next)));
    let wrap = |len| (0..len).fold(Wrap(None), |next, _| Wrap(Some(Box::new(next))));
    let (_bus, queue) = World::memory().push_only::<Chain>("orders").await;
    for codec in Codec::ALL.into_iter().filter(|codec| codec.is_built_in()) {
        let queue = queue.clone().with_codec(codec);
        let fits = queue.push(chain(127), secs(1)).await;
        assert_eq!(fits.is_ok(), codec != Codec::Raw, "{codec}: {fits:?}");
        for len in [128, 4_000] {
            let error = queue.push(chain(len), secs(1)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{codec}: {error}");
        }
    }
    let (_bus, queue) = World::memory().push_only::<Wrap>("orders").await;
    let error = queue.push(wrap(4_000), secs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_reason_of_an_encrypted_value_quotes_nothing_of_it() {
    #[derive(Clone, Debug, Serialize)]
    struct Secret(String);
    impl<'de> Deserialize<'de> for Secret {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            let text = String::deserialize(from)?;
            Err(serde::de::Error::custom(format!("who knows {text}?")))
        }
    }
    let bus = start().await;
    let said = async |encrypt: &str| {
        let queue = bus
            .queue_named::<Secret>(&format!("json.{encrypt}"))
            .unwrap();
        queue
            .push(Secret("4711".into()), When::Now)
            .await
            .unwrap_err()
            .to_string()
    };
    assert!(said("false").await.contains("4711"));
    assert!(!said("true").await.contains("4711"));
}

#[tokio::test(start_paused = true)]
async fn a_double_comes_back_with_its_last_bit() {
    // A parser that is off by one in the last place makes another of these.
    let values = [6.934698245112694e276, 5e-324, 0.1 + 0.2, -0.0];
    let probe = Probe::<f64>::new();
    let (bus, queue) = World::memory().serve(ORDERS.workers(1), &probe).await;
    for value in values {
        queue.push(value, When::Now).await.unwrap();
    }
    bus.advance(secs(1)).await;
    let mut bits: Vec<_> = probe.payloads().into_iter().map(f64::to_bits).collect();
    let mut expected = values.map(f64::to_bits);
    bits.sort_unstable();
    expected.sort_unstable();
    assert_eq!(bits, expected);
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_its_handler_cannot_read_is_refused() {
    let probe = Probe::<f64>::answering(|_event, _cx| Err(Failure::permanent("no")));
    let (bus, queue) = World::memory().serve(ORDERS, &probe).await;
    let id = queue.push(1.0, When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    let error = bus.dead_letters().edit(id, "a text").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let words = error.to_string();
    assert!(words.contains("its handler could not read"), "{words}");
    bus.dead_letters().edit(id, &2.0).await.unwrap();
}

/// What a handler may reply, what may be edited into a dead letter, and what a schedule may push.
async fn is_refused_elsewhere<T, V>(value: V, is_lost: bool)
where
    T: DeserializeOwned + Send + Sync + Serialize + Clone + Debug + Default + 'static,
    V: Serialize + Clone + Send + Sync + 'static,
{
    let replied = value.clone();
    let probe = Probe::<T>::answering(move |_event, cx| match cx.reply(&replied) {
        Ok(()) => Err(Failure::permanent("the reply is accepted")),
        Err(error) => Err(Failure::permanent(error.to_string())),
    });
    let (bus, queue) = World::memory().serve(ORDERS, &probe).await;
    let id = queue.push(T::default(), When::Now).await.unwrap().id();
    bus.advance(secs(1)).await;
    let why = letter(&bus, id).await.error().unwrap().to_owned();
    assert_eq!(why.contains("cannot be encoded"), is_lost, "{why}");
    let edited = bus.dead_letters().edit(id, &value).await;
    let schedule = ScheduleOptions::new("orders", "@daily").unwrap();
    let set = match schedule.payload(&value) {
        Ok(options) => bus.schedules().set("nightly", options).await,
        Err(error) => Err(error),
    };
    for refused in [edited.map(drop), set] {
        let kind = refused.as_ref().err().map(duly::Error::kind);
        assert_eq!(kind, is_lost.then_some(ErrorKind::Invalid), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_does_not_come_back_is_refused_wherever_it_comes_in() {
    is_refused_elsewhere::<Option<f64>, _>(f64::NAN, true).await;
    is_refused_elsewhere::<Option<f64>, _>(Some(f64::INFINITY), true).await;
    is_refused_elsewhere::<Option<Option<u8>>, _>(Some(None::<u8>), true).await;
    is_refused_elsewhere::<Option<()>, _>(Some(()), true).await;
    is_refused_elsewhere::<Option<f64>, _>(Some(0.1), false).await;
    is_refused_elsewhere::<Option<f64>, _>(None::<f64>, false).await;
    is_refused_elsewhere::<Vec<Option<u8>>, _>(vec![None, Some(1)], false).await;
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_its_handler_cannot_read_is_refused() {
    let (bus, _queue) = World::memory().serve(ORDERS, &Probe::<u64>::new()).await;
    let schedule = || ScheduleOptions::new("orders", "@daily").unwrap();
    let text = schedule().payload(&"a text").unwrap();
    let error = bus.schedules().set("nightly", text).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("could not read"), "{error}");
    let number = schedule().payload(&7).unwrap();
    bus.schedules().set("nightly", number).await.unwrap();
    let nested = (0..20_000).fold(serde_json::Value::Null, |it, _| vec![it].into());
    let error = schedule().payload(&nested).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let mut rest = nested; // its own drop would overflow the stack
    while let serde_json::Value::Array(mut it) = rest {
        rest = it.pop().unwrap_or_default();
    }
}
