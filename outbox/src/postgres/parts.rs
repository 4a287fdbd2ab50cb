//! The query of the parts that the tables need.

/// Lists the keys, indexes, partitions and routines that there are, by their names; see
/// [`missing_parts`](crate::schema::missing_parts).
pub(crate) const PARTS: &str = "\
    select 'primary key of ' || of_table.relname from pg_index \
        join pg_class as of_table on of_table.oid = indrelid \
        where indisprimary and pg_table_is_visible(indrelid) and of_table.relname like 'duly%' \
    union all select 'index ' || it.relname from pg_index join pg_class as it on it.oid = indexrelid \
        where indisvalid and pg_table_is_visible(indrelid) and it.relname like 'duly%' \
    union all select 'partition ' || relname from pg_class \
        where relispartition and pg_table_is_visible(oid) and relname like 'duly%' \
    union all select name from (values \
        ('sequence duly_outbox_n', to_regclass('duly_outbox_n')::oid), \
        ('function duly_new_id', to_regprocedure('duly_new_id()')::oid), \
        ('function duly_push', to_regprocedure('duly_push(text,json,interval,json)')::oid), \
        ('function duly_push_at', to_regprocedure('duly_push_at(text,json,timestamptz,json)')::oid), \
        ('function duly_outbox_is_utf8', to_regprocedure('duly_outbox_is_utf8(text)')::oid), \
        ('function duly_outbox_retry', to_regprocedure('duly_outbox_retry(bigint,boolean)')::oid) \
    ) as others (name, oid) where oid is not null";

/// Those of them that the SQL of the tables says nothing of by which they could be listed.
pub(crate) const OTHERS: [&str; 6] = [
    "sequence duly_outbox_n",
    "function duly_new_id",
    "function duly_push",
    "function duly_push_at",
    "function duly_outbox_is_utf8",
    "function duly_outbox_retry",
];
