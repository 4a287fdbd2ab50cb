//! Which seeds are run.

/// Seeds that failed once; they are run first, for ever.
const FAILED_ONCE: &str = include_str!("seeds.txt");

/// A number from the environment.
pub fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => match text.parse() {
            Ok(number) => number,
            Err(_) => panic!("{name} is {text:?}, and should be a number"),
        },
        Err(_) => default,
    }
}

/// Those that were asked for, or all that failed once and `most` from a random one, which is printed.
pub fn seeds(most: u64) -> impl Iterator<Item = u64> + Send {
    // Whoever names the first seed wants that one and those that follow.
    let is_named = std::env::var("DULY_SEED").is_ok();
    let lines = FAILED_ONCE.lines().filter(move |_| !is_named);
    let failed = lines.filter_map(|line| line.split_whitespace().next()?.parse().ok());
    let most = if is_named { 1 } else { most };
    let most = setting("DULY_SEEDS", most);
    let from = setting("DULY_SEED", fastrand::u64(..1 << 32));
    eprintln!("DULY_SEED={from} DULY_SEEDS={most}");
    failed.chain(from..from + most)
}
