-- The outbox of duly in PostgreSQL 13 or later, version 1. It may be run again at any time.

-- The version of these tables.
create table if not exists duly_outbox_version (
    version integer primary key
);

-- Events that wait for the relay. A row is written once and read by its transaction id; a relay
-- truncates a partition all of whose rows are accepted. A transaction writes into one partition,
-- chosen by the time of its begin; which one it is decides nothing.
create sequence if not exists duly_outbox_n;
create table if not exists duly_outbox (
    part smallint not null default (extract(epoch from now())::bigint / 10 % 3)::smallint,
    xid xid8 not null default pg_current_xact_id(),
    n bigint not null default nextval('duly_outbox_n'),
    at timestamptz not null default clock_timestamp(),
    repeated boolean not null default false, -- it may have been accepted already
    anew boolean not null default false, -- it was put back, and handling it twice does no harm
    event bytea, -- by a program in Rust; otherwise the rest, by plain SQL
    queue text,
    payload json,
    due timestamptz,
    id text,
    options json,
    check (event is not null or queue is not null and payload is not null and id is not null)
) partition by list (part);
create table if not exists duly_outbox_0 partition of duly_outbox for values in (0);
create table if not exists duly_outbox_1 partition of duly_outbox for values in (1);
create table if not exists duly_outbox_2 partition of duly_outbox for values in (2);

-- What the relays have done: the newest row counts, and each step is a row, since a row that is
-- updated grows slow under a long transaction. The partitions are truncated in turn.
create table if not exists duly_outbox_step (
    n bigint not null,
    part smallint not null,
    at timestamptz not null default clock_timestamp(),
    cluster text not null, -- which database this is, and not a copy elsewhere
    done pg_snapshot not null, -- what is visible in it is settled
    reading pg_snapshot, -- what is visible in it, and not in the former, is being pushed
    passed_xid xid8 not null, -- up to this row
    passed_n bigint not null,
    repeated boolean not null, -- whether the next rows may have been pushed already
    holder text not null, -- the relay that works
    until timestamptz not null, -- and how long others leave it alone
    primary key (n, part)
) partition by list (part);
create table if not exists duly_outbox_step_0 partition of duly_outbox_step for values in (0);
create table if not exists duly_outbox_step_1 partition of duly_outbox_step for values in (1);

-- Events that the store did not take when their turn came, by queue and bucket: they are tried again
-- while the others go on.
create table if not exists duly_outbox_deferred (
    key bigint generated always as identity primary key,
    at timestamptz not null,
    repeated boolean not null, -- it may have been accepted already
    anew boolean not null default false, -- it was put back, and handling it twice does no harm
    event bytea not null,
    bucket text not null,
    tries integer not null default 0, -- how often it was given back
    holder text not null default '', -- the relay that pushes it
    until timestamptz not null default 'epoch' -- and how long others leave it alone
);

-- Events that can never be accepted, each with the reason.
create table if not exists duly_outbox_refused (
    n bigint not null,
    at timestamptz not null,
    refused timestamptz not null default clock_timestamp(),
    reason text not null,
    repeated boolean not null default true, -- it may have been accepted already
    event bytea,
    queue text,
    payload json,
    due timestamptz,
    id text,
    options json
);

-- Events whose effect has been committed in this database.
create table if not exists duly_done (
    event text primary key,
    attempt integer not null,
    lease text not null,
    at timestamptz not null default clock_timestamp()
);

-- From before which time ends may be deleted, and how long that stands: a clock that jumps ahead makes
-- all of them look old. In milliseconds since 1970.
create table if not exists duly_done_limit (
    only_row integer primary key,
    ends_before bigint not null,
    stands_until bigint not null
);

-- What these tables lack: columns, in an earlier form of them, and indexes. Each is looked for here, since
-- `if not exists` first waits for all transactions that have written into the table, and every later one
-- waits behind it.
do $$ declare lacking record; begin
    for lacking in
        select * from (values
            ('duly_outbox'::regclass, 'anew', 'boolean not null default false'),
            ('duly_outbox_deferred'::regclass, 'anew', 'boolean not null default false'),
            ('duly_outbox_refused'::regclass, 'repeated', 'boolean not null default true')
        ) as needed (of_table, name, form)
        where not exists (select from pg_attribute where attrelid = of_table and attname = name)
    loop
        execute format('alter table %s add column %I %s', lacking.of_table, lacking.name, lacking.form);
    end loop;
    for lacking in
        select * from (values
            ('duly_outbox'::regclass, 'duly_outbox_by_xid', 'xid, n'),
            ('duly_outbox_deferred'::regclass, 'duly_outbox_deferred_by_bucket', 'bucket, key'),
            ('duly_outbox_refused'::regclass, 'duly_outbox_refused_by_n', 'n'),
            ('duly_done'::regclass, 'duly_done_by_at', 'at')
        ) as needed (of_table, name, columns)
        where not exists (
            select from pg_index join pg_class as it on it.oid = indexrelid
            where indrelid = of_table and it.relname = name
        )
    loop
        execute format('create index %I on %s (%s)', lacking.name, lacking.of_table, lacking.columns);
    end loop;
    -- Without a replica identity PostgreSQL refuses updates and deletes of a table that is published,
    -- as all may be; these have no key.
    for lacking in
        select oid::regclass as of_table from pg_class where relreplident in ('d', 'n') and oid in (
            'duly_outbox'::regclass, 'duly_outbox_0'::regclass, 'duly_outbox_1'::regclass,
            'duly_outbox_2'::regclass, 'duly_outbox_refused'::regclass
        )
        order by oid -- the parent first, as an insert locks them
    loop
        execute format('alter table %s replica identity full', lacking.of_table);
    end loop;
end $$;

-- Returns a new id of an event: a ULID.
create or replace function duly_new_id() returns text language sql volatile as $$
    select string_agg(
        substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', substring(bits from i * 5 + 1 for 5)::bit(5)::integer + 1, 1),
        '' order by i
    )
    from (
        select b'00' || ('x' || lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0')
            || substr(md5(gen_random_uuid()::text), 1, 20))::bit(128) as bits
    ) as made, generate_series(0, 25) as i
$$;

-- Returns whether a text can be sent to a relay: the encoding of this database may take any bytes, or
-- characters that have no equivalent.
create or replace function duly_outbox_is_utf8(value text) returns boolean
language plpgsql immutable strict as $$
begin
    perform convert_to(value, 'UTF8');
    return true;
exception when character_not_in_repertoire or untranslatable_character then
    return false;
end $$;

-- Pushes an event that is due at a time, when this transaction commits. Returns its id; null where
-- a key decides on the id, and the event is found by that key.
create or replace function duly_push_at(
    queue text, payload json, due timestamptz, options json default '{}'
) returns text language sql volatile as $$
    with made as (select coalesce(options ->> 'id', duly_new_id()) as id),
    pushed as (
        insert into duly_outbox (queue, payload, due, id, options)
        select $1, $2, $3, made.id, coalesce($4, '{}') from made
    )
    select id from made
    where $4 ->> 'id' is not null or coalesce($4 ->> 'key', $4 ->> 'unique') is null
$$;

-- Pushes an event that is due after a delay, when this transaction commits; returns the same.
create or replace function duly_push(
    queue text, payload json, delay interval default '0', options json default '{}'
) returns text language sql volatile as $$
    select duly_push_at(
        $1, $2, case when delay > interval '0' then clock_timestamp() + delay end, $4
    )
$$;

-- Puts refused events back into the outbox, once what was wrong is right; returns how many. Anew means
-- that handling one twice does no harm: it gets a new id if its own is too old, or was chosen.
drop function if exists duly_outbox_retry(bigint);
create or replace function duly_outbox_retry(
    row_number bigint, anew boolean default false
) returns bigint language sql volatile as $$
    with taken as (delete from duly_outbox_refused where n = row_number returning *),
    put as (
        insert into duly_outbox (at, repeated, anew, event, queue, payload, due, id, options)
        select at, repeated and not $2, $2, event, queue, payload, due, id, options from taken
    )
    select count(*) from taken
$$;

insert into duly_outbox_version values (1) on conflict do nothing;
