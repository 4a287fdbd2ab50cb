//! The audit of the state of one process.

use rusqlite::{Connection, params};

use super::file::failed;
use super::local::LocalState;
use super::{AUDIT_MAX, AuditLine, Result, Trail};

/// After how many lines of the audit the oldest ones are removed: they have to be counted.
const AUDIT_PRUNED_EVERY: i64 = 1_000;

/// The number of the next line: one row of numbers for all trails, by which their lines are in order.
const NEXT_LINE: &str = "1 + max(
     coalesce((SELECT max(number) FROM audit), 0),
     coalesce((SELECT max(number) FROM audit_of_namespaces), 0))";
/// Removes what is more than so many lines of operators, the oldest first.
const PRUNE_OPERATORS: &str = "DELETE FROM audit WHERE number <=
     (SELECT number FROM audit ORDER BY number DESC LIMIT 1 OFFSET ?1)";
/// Removes what is more than so many lines of tokens, the oldest first of namespaces that have more than
/// an equal share.
const PRUNE_TOKENS: &str = "DELETE FROM audit_of_namespaces WHERE number IN (
     SELECT number FROM (
         SELECT number, row_number() OVER (PARTITION BY namespace ORDER BY number DESC) AS place
         FROM audit_of_namespaces)
     WHERE place > ?1 / (SELECT count(DISTINCT namespace) FROM audit_of_namespaces)
     ORDER BY number
     LIMIT max(0, (SELECT count(*) FROM audit_of_namespaces) - ?1))";

impl LocalState {
    pub(super) async fn audit(&self, trail: Trail<'_>, line: &str) -> Result<()> {
        let line = line.to_owned();
        let namespace = match trail {
            Trail::Operators => None,
            Trail::Tokens(namespace) => Some(namespace.to_owned()),
        };
        let add = move |file: &Connection| {
            match &namespace {
                None => {
                    let add = format!("INSERT INTO audit SELECT {NEXT_LINE}, ?1");
                    file.execute(&add, [&line]).map_err(failed)?;
                }
                Some(namespace) => {
                    let add = format!("INSERT INTO audit_of_namespaces SELECT {NEXT_LINE}, ?1, ?2");
                    file.execute(&add, [namespace, &line]).map_err(failed)?;
                }
            }
            if file.last_insert_rowid() % AUDIT_PRUNED_EVERY != 0 {
                return Ok(());
            }
            let kept = i64::try_from(AUDIT_MAX).unwrap_or(i64::MAX);
            for prune in [PRUNE_OPERATORS, PRUNE_TOKENS] {
                file.execute(prune, [kept]).map_err(failed)?;
            }
            Ok(())
        };
        self.file.run(None, add).await
    }

    pub(super) async fn audit_lines(
        &self,
        before: Option<&str>,
        limit: u32,
    ) -> Result<Vec<AuditLine>> {
        let before = before.and_then(|before| before.parse().ok());
        let before: i64 = before.unwrap_or(i64::MAX);
        let lines = move |file: &Connection| {
            let select = "SELECT CAST(number AS TEXT), line FROM (
                     SELECT number, line FROM audit
                     UNION ALL SELECT number, line FROM audit_of_namespaces)
                 WHERE number < ?1 ORDER BY number DESC LIMIT ?2";
            let mut select = file.prepare_cached(select).map_err(failed)?;
            let rows =
                select.query_map(params![before, limit], |row| Ok((row.get(0)?, row.get(1)?)));
            rows.and_then(Iterator::collect).map_err(failed)
        };
        self.file.run(None, lines).await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn what_tokens_do_pushes_no_line_of_others_out_of_the_audit() {
        let state = LocalState::in_memory().unwrap();
        let quiet = Trail::Tokens("default/quiet");
        state.audit(Trail::Operators, "first").await.unwrap();
        state.audit(quiet, "second").await.unwrap();
        for _ in 0..=AUDIT_MAX / 1_000 {
            let lines = (0..1_000).map(|_| state.audit(Trail::Tokens("default/loud"), "more"));
            assert!(join_all(lines).await.iter().all(Result::is_ok));
        }
        state.audit(Trail::Operators, "last").await.unwrap();
        let all = state.audit_lines(None, u32::MAX).await.unwrap();
        let [(_, newest), .., (_, second), (_, oldest)] = all.as_slice() else {
            panic!("{} lines", all.len());
        };
        let kept = [newest, oldest, second].map(String::as_str);
        assert_eq!(kept, ["last", "first", "second"]);
        let many = AUDIT_MAX..AUDIT_MAX + 1_004;
        assert!(many.contains(&all.len()), "{}", all.len());
        // One that becomes loud, too, has as many lines as the other.
        for _ in 0..60 {
            let lines = (0..1_000).map(|_| state.audit(quiet, "again"));
            assert!(join_all(lines).await.iter().all(Result::is_ok));
        }
        let all = state.audit_lines(None, u32::MAX).await.unwrap();
        let count = |text: &str| all.iter().filter(|(_, line)| line == text).count();
        let half = AUDIT_MAX / 2;
        assert!(half <= count("more"), "{}", count("more"));
        assert!(
            (half..half + 1_001).contains(&count("again")),
            "{}",
            count("again")
        );
        assert!(all.len() < AUDIT_MAX + 1_004, "{}", all.len());
    }
}
