-- The outbox of duly in SQLite, version 1. It may be run again at any time.

-- The version of these tables.
create table if not exists duly_outbox_version (
    version integer primary key
) strict;

-- Events that wait for the relay. A row number is never used again, and since one connection writes
-- at a time, none that is smaller commits later.
create table if not exists duly_outbox (
    n integer primary key autoincrement,
    at integer not null default (cast((julianday('now') - 2440587.5) * 86400000 as integer)),
    repeated integer not null default 0, -- it may have been accepted already
    anew integer not null default 0, -- it was put back, and handling it twice does no harm
    event blob, -- by a program in Rust; otherwise the rest, by plain SQL
    queue text,
    payload text,
    due integer, -- milliseconds since 1970
    id text,
    options text,
    check (event is not null or queue is not null and payload is not null)
) strict;

-- Up to which row a relay may have pushed already, and how often one has begun.
create table if not exists duly_outbox_step (
    only_row integer primary key check (only_row = 1),
    pushed integer not null,
    claims integer not null
) strict;

-- What ids are derived from, of events by plain SQL without one; a copy of the file has the same.
create table if not exists duly_outbox_salt (
    only_row integer primary key check (only_row = 1),
    salt text not null
) strict;

-- Events that the store did not take when their turn came, by queue and bucket: they are tried again
-- while the others go on.
create table if not exists duly_outbox_deferred (
    key integer primary key autoincrement,
    at integer not null,
    repeated integer not null, -- it may have been accepted already
    anew integer not null default 0, -- it was put back, and handling it twice does no harm
    event blob not null,
    bucket text not null,
    tries integer not null default 0, -- how often it was given back
    holder text not null default '', -- the relay that pushes it
    until integer not null default 0 -- and how long others leave it alone
) strict;
create index if not exists duly_outbox_deferred_by_bucket on duly_outbox_deferred (bucket, key);

-- Events that can never be accepted, each with the reason.
create table if not exists duly_outbox_refused (
    n integer not null,
    at integer not null,
    refused integer not null default (cast((julianday('now') - 2440587.5) * 86400000 as integer)),
    reason text not null,
    repeated integer not null default 1, -- it may have been accepted already
    event blob,
    queue text,
    payload text,
    due integer,
    id text,
    options text
) strict;

-- Events whose effect has been committed in this database.
create table if not exists duly_done (
    event text primary key,
    attempt integer not null,
    lease text not null,
    at integer not null default (cast((julianday('now') - 2440587.5) * 86400000 as integer))
) strict;
create index if not exists duly_done_by_at on duly_done (at);

-- From before which time ends may be deleted, and how long that stands: a clock that jumps ahead makes
-- all of them look old. In milliseconds since 1970.
create table if not exists duly_done_limit (
    only_row integer primary key check (only_row = 1),
    ends_before integer not null,
    stands_until integer not null
) strict;

insert into duly_outbox_step values (1, 0, 0) on conflict do nothing;
insert into duly_outbox_salt values (1, hex(randomblob(16))) on conflict do nothing;
insert into duly_outbox_version values (1) on conflict do nothing;
