//! Checksums of rows, as SQLite does not checksum its pages.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Rows that are shorter are hashed in one go, at a third of the cost of piece by piece.
const SHORT: usize = 512;

/// The checksum of the columns of a row, in their order: the xxh3-64 of their bytes.
pub(crate) struct Sum {
    bytes: [u8; SHORT],
    len: usize,
    /// The bytes of a row that is longer.
    long: Option<Box<Xxh3>>,
}

impl Default for Sum {
    fn default() -> Self {
        Self {
            bytes: [0; SHORT],
            len: 0,
            long: None,
        }
    }
}

impl Sum {
    pub(crate) fn number(&mut self, number: i64) -> &mut Self {
        // Of a length that is known, so without a call that copies: most of a row are numbers.
        let room = self.bytes.get_mut(self.len..);
        if let Some(room) = room.and_then(<[u8]>::first_chunk_mut)
            && self.long.is_none()
        {
            *room = number.to_le_bytes();
            self.len += size_of::<i64>();
        } else {
            self.add(&number.to_le_bytes());
        }
        self
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        // The length keeps two neighbours apart.
        self.number(bytes.len() as i64);
        self.add(bytes);
        self
    }

    pub(crate) fn text(&mut self, text: Option<&str>) -> &mut Self {
        self.optional(text.map(str::as_bytes))
    }

    pub(crate) fn optional(&mut self, bytes: Option<&[u8]>) -> &mut Self {
        match bytes {
            Some(bytes) => self.number(1).bytes(bytes),
            None => self.number(0),
        }
    }

    pub(crate) fn digest(&self) -> i64 {
        let digest = match &self.long {
            Some(long) => long.digest(),
            None => xxh3_64(&self.bytes[..self.len]),
        };
        digest.cast_signed()
    }

    fn add(&mut self, more: &[u8]) {
        if self.long.is_none()
            && let Some(room) = self.bytes.get_mut(self.len..self.len + more.len())
        {
            room.copy_from_slice(more);
            self.len += more.len();
            return;
        }
        let short = &self.bytes[..self.len];
        let long = self.long.get_or_insert_with(|| {
            let mut long = Box::new(Xxh3::new());
            long.update(short);
            long
        });
        long.update(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_hash_of_its_bytes_however_long_it_is() {
        for len in [0, 1, 200, SHORT - 16, SHORT - 15, SHORT, 3 * SHORT] {
            let bytes = vec![7; len];
            let mut sum = Sum::default();
            sum.number(5).bytes(&bytes).number(6);
            let mut all = 5_u64.to_le_bytes().to_vec();
            all.extend((len as u64).to_le_bytes());
            all.extend(&bytes);
            all.extend(6_u64.to_le_bytes());
            assert_eq!(sum.digest(), xxh3_64(&all).cast_signed(), "{len}");
        }
    }
}
