//! Sessions: who has logged in, by the random id that a browser's cookie holds.

use std::collections::HashMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::{Mutex, MutexGuard};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::access::{Credentials, User};
use crate::error::PageError;

/// How long a session lasts without a page that its user has asked for.
const IDLE_MAX: Duration = Duration::from_secs(3_600);
/// How long a session lasts in all.
const AGE_MAX: Duration = Duration::from_secs(12 * 3_600);
/// The most sessions of all users; beyond it the idlest ends.
const SESSIONS_MAX: usize = 1_024;
/// The most sessions of a user; beyond it the idlest of them ends.
const SESSIONS_OF_USER_MAX: usize = 16;
/// The random bytes of an id.
const ID_BYTES: usize = 32;

/// The hash of an id. The ids themselves are in cookies only.
type Key = [u8; 32];

/// The sessions of a dashboard, in memory: they end with its process.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<Key, Session>>);

#[derive(Debug)]
struct Session {
    /// What was entered: it is checked again for each page.
    credentials: Credentials,
    /// Whom it was of then: several users may enter the same name.
    user: String,
    began: Instant,
    used: Instant,
}

impl Session {
    fn has_ended(&self, now: Instant) -> bool {
        now >= self.used + IDLE_MAX || now >= self.began + AGE_MAX
    }
}

impl Sessions {
    /// Begins a session of a user, and returns its id.
    pub(crate) fn begin(&self, credentials: Credentials, user: &User) -> Result<String, PageError> {
        let id = random_id::<ID_BYTES>()?;
        let now = Instant::now();
        let mut sessions = self.lock();
        sessions.retain(|_, session| !session.has_ended(now));
        let is_own = |session: &Session| session.user == user.name;
        if sessions.values().filter(|it| is_own(it)).count() >= SESSIONS_OF_USER_MAX {
            end_idlest(&mut sessions, is_own);
        }
        if sessions.len() >= SESSIONS_MAX {
            end_idlest(&mut sessions, |_| true);
        }
        let session = Session {
            credentials,
            user: user.name.clone(),
            began: now,
            used: now,
        };
        sessions.insert(key(&id), session);
        Ok(id)
    }

    /// Returns what was entered at the begin of a session, if it lasts. `is_use`: the user has asked
    /// for something, so it is not idle.
    pub(crate) fn credentials(&self, id: &str, is_use: bool) -> Option<Credentials> {
        let now = Instant::now();
        let key = key(id);
        let mut sessions = self.lock();
        let session = sessions.get_mut(&key)?;
        if session.has_ended(now) {
            sessions.remove(&key);
            return None;
        }
        if is_use {
            session.used = now;
        }
        Some(session.credentials.clone())
    }

    /// Ends a session.
    pub(crate) fn end(&self, id: &str) {
        self.lock().remove(&key(id));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Session>> {
        self.0.lock()
    }
}

fn end_idlest(sessions: &mut HashMap<Key, Session>, of: impl Fn(&Session) -> bool) {
    let those = sessions.iter().filter(|(_, session)| of(session));
    let idlest = those.min_by_key(|(_, session)| session.used);
    if let Some(key) = idlest.map(|(key, _)| *key) {
        sessions.remove(&key);
    }
}

fn key(id: &str) -> Key {
    Sha256::digest(id.as_bytes()).into()
}

/// Returns so many random bytes, as text.
pub(crate) fn random_id<const BYTES: usize>() -> Result<String, PageError> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| PageError::failed(format!("no random numbers: {error}")))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Role;

    /// Begins a session of a user who has entered a name that others enter as well.
    fn begin(sessions: &Sessions, user: &str) -> String {
        let credentials = Credentials {
            name: "shop".to_owned(),
            secret: format!("the secret of {user}"),
        };
        let user = User::new(user, Role::View);
        sessions.begin(credentials, &user).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_idle_and_old() {
        let sessions = Sessions::default();
        let begin = |name| begin(&sessions, name);
        let lasts = |id: &str, is_use| sessions.credentials(id, is_use).is_some();
        let (idle, watched, used) = (begin("ann"), begin("ann"), begin("ann"));
        let minutes = |minutes: u64| tokio::time::advance(Duration::from_secs(60 * minutes));
        minutes(59).await;
        assert!(lasts(&watched, false) && lasts(&used, true));
        minutes(1).await;
        // What only keeps a page current is no use.
        assert!(!lasts(&idle, true) && !lasts(&watched, true) && lasts(&used, true));
        for _ in 0..10 {
            minutes(59).await;
            assert!(lasts(&used, true));
        }
        minutes(59).await;
        minutes(59).await;
        assert!(!lasts(&used, true), "it is twelve hours old");
        let ended = begin("ann");
        sessions.end(&ended);
        assert!(!lasts(&ended, true) && !lasts("", true) && !lasts("x", true));
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_are_bounded_and_the_idlest_goes() {
        let sessions = Sessions::default();
        let others = begin(&sessions, "bob");
        let mut own = Vec::new();
        for _ in 0..=SESSIONS_OF_USER_MAX {
            tokio::time::advance(Duration::from_secs(1)).await;
            own.push(begin(&sessions, "ann"));
        }
        assert!(sessions.credentials(&own[0], true).is_none());
        assert!(sessions.credentials(&own[1], true).is_some());
        assert!(sessions.credentials(&others, true).is_some());
        for name in 0..2 * SESSIONS_MAX {
            begin(&sessions, &name.to_string());
        }
        assert_eq!(sessions.lock().len(), SESSIONS_MAX);
    }
}
