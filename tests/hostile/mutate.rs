//! Changes bytes at random, in the ways that break what reads them.

use fastrand::Rng;

/// The most changes to one input.
const CHANGES_MAX: usize = 6;

/// Numbers at whose edges readers stumble.
const NUMBERS: [u64; 12] = [
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFF_FFFF,
    0xFFFF_FFFF,
    0x7FFF_FFFF_FFFF_FFFF,
    0x8000_0000_0000_0000,
    u64::MAX,
];

/// Pieces that mean something somewhere.
const PIECES: [&[u8]; 28] = [
    b"\0",
    b"\n",
    b"\r\n",
    b":",
    b"{",
    b"}",
    b"[[",
    b"..",
    b"%",
    b"%00",
    b"@",
    b"?",
    b"&",
    b"__",
    b"- - - -",
    b"&a ",
    b"*a",
    b"-1",
    b"+1",
    b"1e308",
    b"nan",
    b"9223372036854775808",
    b"18446744073709551615",
    b"0x",
    b"\xC0\x80",
    b"\xED\xA0\x80",
    b"\xF4\x90\x80\x80",
    b"\xE2\x80\xAE",
];

/// One of `seeds`, or what is left of it within `most` bytes, changed some times.
pub(crate) fn mutated(seeds: &[Vec<u8>], most: usize, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = one_of(seeds, rng).clone();
    bytes.truncate(most);
    for _ in 0..rng.usize(1..=CHANGES_MAX) {
        change(&mut bytes, seeds, rng);
        bytes.truncate(most);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut Rng) {
    let at = rng.usize(..=bytes.len());
    match rng.u32(..10) {
        0 => flip(bytes, at, rng),
        1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = rng.u8(..);
            }
        }
        2 => insert(bytes, at, &[rng.u8(..)]),
        3 => insert(bytes, at, PIECES[rng.usize(..PIECES.len())]),
        4 => drop(bytes.drain(part(bytes, at, rng))),
        5 => bytes.truncate(at),
        6 => {
            let piece = bytes[part(bytes, at, rng)].to_vec();
            let piece = piece.repeat(rng.usize(1..=4));
            insert(bytes, at, &piece);
        }
        7 => {
            let other = one_of(seeds, rng);
            let from = rng.usize(..=other.len());
            let piece = &other[part(other, from, rng)];
            insert(bytes, at, piece);
        }
        8 => overwrite_with_number(bytes, at, rng),
        _ => change_digits(bytes, at, rng),
    }
}

fn one_of<'a>(seeds: &'a [Vec<u8>], rng: &mut Rng) -> &'a Vec<u8> {
    &seeds[rng.usize(..seeds.len())]
}

/// A part of `bytes` that begins at `at`: often a short one.
fn part(bytes: &[u8], at: usize, rng: &mut Rng) -> std::ops::Range<usize> {
    let rest = bytes.len() - at;
    let most = if rng.bool() { rest.min(8) } else { rest };
    at..at + rng.usize(..=most)
}

fn flip(bytes: &mut [u8], at: usize, rng: &mut Rng) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << rng.u32(..8);
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.splice(at..at, piece.iter().copied());
}

/// A number of 1, 2, 4 or 8 bytes, either end first.
fn overwrite_with_number(bytes: &mut [u8], at: usize, rng: &mut Rng) {
    let number = NUMBERS[rng.usize(..NUMBERS.len())];
    let len = 1 << rng.u32(..4);
    let (big, little) = (number.to_be_bytes(), number.to_le_bytes());
    let number = if rng.bool() {
        &big[8 - len..]
    } else {
        &little[..len]
    };
    if let Some(place) = bytes.get_mut(at..at + len) {
        place.copy_from_slice(number);
    }
}

/// Another number for the digits that stand at `at` or behind it.
fn change_digits(bytes: &mut Vec<u8>, at: usize, rng: &mut Rng) {
    let Some(from) = bytes[at..].iter().position(u8::is_ascii_digit) else {
        return;
    };
    let from = at + from;
    let end = bytes[from..].iter().position(|byte| !byte.is_ascii_digit());
    let end = end.map_or(bytes.len(), |end| from + end);
    let number = NUMBERS[rng.usize(..NUMBERS.len())].to_string();
    bytes.splice(from..end, number.into_bytes());
}
