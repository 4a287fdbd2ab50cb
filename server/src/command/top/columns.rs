//! The part of a table or a line that fits into a width: whole columns and whole parts, as a number of
//! which a part is missing is another number.

/// The least width of the first column, unless its cells need less.
const NAME_WIDTH_MIN: usize = 12;
/// The columns after the first, the most important first.
const IMPORTANCE: [usize; 7] = [3, 1, 5, 2, 4, 6, 7];

/// Returns the columns that fit, each with its width, in their order; the first is a name, which may
/// be cut. `widths` are those of the longest cells.
pub(super) fn fitting(widths: [usize; 8], width: usize) -> Vec<(usize, usize)> {
    let name_min = widths[0].min(NAME_WIDTH_MIN).min(width);
    let mut left = width - name_min;
    let mut columns = Vec::new();
    for column in IMPORTANCE {
        let Some(rest) = left.checked_sub(widths[column] + 1) else {
            break;
        };
        left = rest;
        columns.push((column, widths[column]));
    }
    columns.push((0, widths[0].min(name_min + left)));
    columns.sort_unstable();
    columns
}

/// Joins the first parts as far as they fit.
pub(super) fn joined(parts: &[String], gap: &str, width: usize) -> String {
    let mut line = String::new();
    for part in parts {
        let gap = if line.is_empty() { "" } else { gap };
        if line.chars().count() + gap.chars().count() + part.chars().count() > width {
            break;
        }
        line = line + gap + part;
    }
    line
}

/// Cuts a name, and says so.
pub(super) fn cut(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        name.to_owned()
    } else {
        let kept = name.chars().take(width.saturating_sub(1));
        kept.chain(['…']).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_whole_or_not_at_all() {
        let widths = [30, 5, 9, 12, 6, 4, 9, 8];
        for width in 0..120 {
            let columns = fitting(widths, width);
            let used: usize = columns.iter().map(|(_, width)| width + 1).sum();
            assert!(used <= width + 1, "{width}: {columns:?}");
            assert!(
                columns
                    .iter()
                    .skip(1)
                    .all(|(it, width)| *width == widths[*it])
            );
        }
        assert_eq!(fitting(widths, 26), [(0, 13), (3, 12)]);
        assert_eq!(fitting(widths, 120).len(), 8);
    }

    #[test]
    fn parts_fit_whole_or_not_at_all() {
        let parts = ["12350 ready".to_owned(), "7 dead".to_owned()];
        assert_eq!(joined(&parts, "  ", 10), "");
        assert_eq!(joined(&parts, "  ", 18), "12350 ready");
        assert_eq!(joined(&parts, "  ", 19), "12350 ready  7 dead");
        assert_eq!(
            (cut("close", 5), cut("close", 4)),
            ("close".into(), "clo…".into())
        );
    }
}
