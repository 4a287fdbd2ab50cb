//! A limit of the depth of MessagePack, without recursion.

/// Returns whether arrays and maps are nested more than `most` deep in `bytes`.
///
/// Bytes that are no MessagePack end the scan: their decoder refuses them where they stand.
pub(super) fn is_deeper_than(most: u8, bytes: &[u8]) -> bool {
    // How many values each open array or map still has.
    let mut open: Vec<u64> = Vec::new();
    let mut at = 0_usize;
    loop {
        let Some(marker) = bytes.get(at) else {
            return false;
        };
        at += 1;
        let mut number = |len: usize| {
            let bytes = bytes.get(at..at.saturating_add(len)).unwrap_or_default();
            at += len;
            bytes
                .iter()
                .fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        // How many bytes to skip, and how many values it has.
        let (skip, values) = match *marker {
            0x80..=0x8F => (0, Some(2 * u64::from(marker & 0x0F))),
            0x90..=0x9F => (0, Some(u64::from(marker & 0x0F))),
            0xA0..=0xBF => (u64::from(marker & 0x1F), None),
            0xC4 | 0xD9 => (number(1), None),
            0xC5 | 0xDA => (number(2), None),
            0xC6 | 0xDB => (number(4), None),
            0xC7 => (number(1) + 1, None),
            0xC8 => (number(2) + 1, None),
            0xC9 => (number(4) + 1, None),
            0xCC | 0xD0 => (1, None),
            0xCD | 0xD1 | 0xD4 => (2, None),
            0xD5 => (3, None),
            0xCA | 0xCE | 0xD2 => (4, None),
            0xD6 => (5, None),
            0xCB | 0xCF | 0xD3 => (8, None),
            0xD7 => (9, None),
            0xD8 => (17, None),
            0xDC => (0, Some(number(2))),
            0xDD => (0, Some(number(4))),
            0xDE => (0, Some(2 * number(2))),
            0xDF => (0, Some(2 * number(4))),
            // Numbers of one byte, nil, booleans, and the one that means nothing.
            0x00..=0x7F | 0xC0..=0xC3 | 0xE0..=0xFF => (0, None),
        };
        at = at.saturating_add(usize::try_from(skip).unwrap_or(usize::MAX));
        match values {
            // An empty one is a unit struct, too, and is read without going deeper.
            Some(values) if values > 0 => {
                open.push(values);
                if open.len() > usize::from(most) {
                    return true;
                }
            }
            _ => loop {
                match open.last_mut() {
                    None => return false,
                    Some(left) => *left -= 1,
                }
                if open.last().is_some_and(|left| *left > 0) {
                    break;
                }
                open.pop();
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_deeper_than;

    #[test]
    fn nesting_is_counted_behind_everything_that_is_skipped() {
        let values: [&[u8]; 12] = [
            &[7],
            &[0xC0],
            &[0xA2, 0x91, 0x91],
            &[0xD9, 3, 0x91, 0x91, 0x91],
            &[0xC4, 2, 0x91, 0x91],
            &[0xC5, 0, 2, 0x91, 0x91],
            &[0xCB, 0x91, 0x91, 0x91, 0x91, 0x91, 0x91, 0x91, 0x91],
            &[0xD4, 0x91, 0x91],
            &[0xC7, 1, 0x91, 0x91],
            &[0x81, 0x07, 0x07],
            &[0xDC, 0, 2, 0x07, 0x80],
            &[0xDE, 0, 1, 0x07, 0x90],
        ];
        for value in values {
            let mut bytes = vec![0x93];
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(&[0x91; 10]);
            bytes.push(0x07);
            assert!(is_deeper_than(10, &bytes), "{value:x?}");
            assert!(!is_deeper_than(11, &bytes), "{value:x?}");
        }
    }

    #[test]
    fn neither_a_deep_nor_a_cut_text_costs_more_than_its_bytes() {
        assert!(is_deeper_than(127, &[0x91; 10_000_000]));
        assert!(!is_deeper_than(127, &[0xDF, 0xFF, 0xFF, 0xFF, 0xFF]));
        assert!(!is_deeper_than(127, &[0xC6, 0xFF, 0xFF, 0xFF, 0xFF]));
        assert!(!is_deeper_than(127, &[0xC6]));
        assert!(!is_deeper_than(127, &[]));
    }
}
