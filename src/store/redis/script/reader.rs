//! Reading of replies, element by element.

use redis::Value;

use crate::error::{Error, Result};
use crate::event::EventId;
use crate::record::NodeId;
use crate::time::Timestamp;

/// A cursor over the elements of a script's reply.
#[derive(Debug)]
pub struct ReplyReader {
    script: &'static str,
    parts: std::vec::IntoIter<Value>,
}

impl ReplyReader {
    /// Opens the reply of `script`.
    pub fn of(script: &'static str, value: Value) -> Result<Self> {
        match value {
            Value::Array(parts) => Ok(Self {
                script,
                parts: parts.into_iter(),
            }),
            _ => Err(unreadable(script)),
        }
    }

    fn next(&mut self) -> Result<Value> {
        self.parts.next().ok_or_else(|| unreadable(self.script))
    }

    pub(in crate::store::redis) fn is_empty(&self) -> bool {
        self.parts.len() == 0
    }

    pub(in crate::store::redis) fn len(&self) -> usize {
        self.parts.len()
    }

    pub(in crate::store::redis) fn number(&mut self) -> Result<u64> {
        match self.next()? {
            Value::Int(number) => u64::try_from(number).map_err(|_| unreadable(self.script)),
            _ => Err(unreadable(self.script)),
        }
    }

    pub(in crate::store::redis) fn count(&mut self) -> Result<usize> {
        let number = self.number()?;
        usize::try_from(number).map_err(|_| unreadable(self.script))
    }

    pub(in crate::store::redis) fn is_so(&mut self) -> Result<bool> {
        Ok(self.number()? != 0)
    }

    pub(in crate::store::redis) fn time(&mut self) -> Result<Option<Timestamp>> {
        match self.next()? {
            Value::Nil | Value::Boolean(false) => Ok(None),
            Value::Int(ms) => u64::try_from(ms)
                .map(|ms| Some(Timestamp::from_millis(ms)))
                .map_err(|_| unreadable(self.script)),
            Value::Double(ms) => self.score(Some(ms)),
            Value::BulkString(text) => {
                let text = std::str::from_utf8(&text).ok();
                self.score(text.and_then(|text| text.parse().ok()))
            }
            _ => Err(unreadable(self.script)),
        }
    }

    /// Scores come as texts or floats; those of this store are whole, and none is negative.
    fn score(&self, ms: Option<f64>) -> Result<Option<Timestamp>> {
        match ms.filter(|ms| (0.0..SCORE_END).contains(ms)) {
            Some(ms) => Ok(Some(Timestamp::from_millis(ms as u64))),
            None => Err(unreadable(self.script)),
        }
    }

    pub(in crate::store::redis) fn bytes(&mut self) -> Result<Vec<u8>> {
        self.optional()?.ok_or_else(|| unreadable(self.script))
    }

    pub(in crate::store::redis) fn optional(&mut self) -> Result<Option<Vec<u8>>> {
        match self.next()? {
            Value::BulkString(bytes) => Ok(Some(bytes)),
            Value::Nil | Value::Boolean(false) => Ok(None),
            _ => Err(unreadable(self.script)),
        }
    }

    pub(in crate::store::redis) fn parts(&mut self) -> Result<Self> {
        let value = self.next()?;
        Self::of(self.script, value)
    }

    pub(in crate::store::redis) fn node(&mut self) -> Result<NodeId> {
        let bytes = self.bytes()?;
        let bytes = bytes.try_into().map_err(|_| unreadable(self.script))?;
        Ok(NodeId(u64::from_be_bytes(bytes)))
    }

    pub(in crate::store::redis) fn id(&mut self) -> Result<EventId> {
        let bytes = self.bytes()?;
        id_of(&bytes).ok_or_else(|| unreadable(self.script))
    }

    pub(in crate::store::redis) fn flags(&mut self) -> Result<Vec<bool>> {
        Ok(self.bytes()?.into_iter().map(|flag| flag == b'1').collect())
    }
}

/// The bound up to which scores, which are floats, are exact.
const SCORE_END: f64 = (1_u64 << 53) as f64;

/// Returns the id with which `bytes` begin.
pub(in crate::store::redis) fn id_of(bytes: &[u8]) -> Option<EventId> {
    bytes.first_chunk().copied().map(EventId::from_bytes)
}

/// Reads a big-endian number; every caller has checked the length.
pub(in crate::store::redis) fn number_at(bytes: &[u8], at: usize) -> u64 {
    let number = bytes.get(at..).and_then(|rest| rest.first_chunk());
    number.map_or(0, |number| u64::from_be_bytes(*number))
}

/// The error for a reply that no version of the script returns.
pub fn unreadable(script: &str) -> Error {
    Error::corrupt(format!(
        "redis sent a reply that the script {script} never returns"
    ))
}
