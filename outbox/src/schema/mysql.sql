-- The outbox of duly in MySQL 8.0.29 or MariaDB 10.6, or later; version 1. It may be run again at any
-- time. Times are milliseconds since 1970, whatever the time zone of a session is.

-- The version of these tables.
create table if not exists duly_outbox_version (
    version integer primary key
) engine = InnoDB;

-- Events that wait for a relay, which claims the committed ones and deletes those that are accepted.
create table if not exists duly_outbox (
    n bigint not null auto_increment primary key,
    at bigint not null default (timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000),
    repeated smallint not null default 0, -- how often it may have been accepted already
    anew tinyint not null default 0, -- it was put back, and handling it twice does no harm
    holder varchar(16) character set ascii collate ascii_bin not null default '', -- the relay that pushes it
    held_until bigint not null default 0, -- and how long others leave it alone
    event longblob, -- by a program in Rust; otherwise the rest, by plain SQL
    queue varchar(512) character set utf8mb4 collate utf8mb4_bin,
    payload longtext character set utf8mb4 collate utf8mb4_bin,
    due bigint,
    id varchar(64) character set ascii collate ascii_bin,
    options text character set utf8mb4 collate utf8mb4_bin,
    check (event is not null or queue is not null and payload is not null),
    check (payload is null or json_valid(payload)),
    check (options is null or json_valid(options))
) engine = InnoDB;

-- Of an earlier form of the table; MySQL adds no column only if there is none.
set @duly_outbox_add = if(
    exists (
        select * from information_schema.columns where table_schema = database()
        and table_name = 'duly_outbox' and column_name = 'anew'
    ),
    'do 0', 'alter table duly_outbox add column anew tinyint not null default 0'
);
prepare duly_outbox_add from @duly_outbox_add;
execute duly_outbox_add;
deallocate prepare duly_outbox_add;

-- Which database this is on each server on which a relay has seen it, and not a copy or a backup: it
-- goes by the time at which this table was made, so nothing may make it anew but a restore.
create table if not exists duly_outbox_server (
    server varchar(64) character set utf8mb4 collate utf8mb4_bin primary key,
    identity varchar(512) character set utf8mb4 collate utf8mb4_bin not null
) engine = InnoDB;
drop table if exists duly_outbox_identity; -- of an earlier form

-- What ids are derived from, of events by plain SQL without one; a copy of the database has the same.
create table if not exists duly_outbox_salt (
    only_row tinyint primary key,
    salt varchar(64) character set ascii collate ascii_bin not null
) engine = InnoDB;

-- Events that the store did not take when their turn came, by queue and bucket: they are tried again
-- while the others go on.
create table if not exists duly_outbox_deferred (
    n bigint not null auto_increment primary key,
    at bigint not null,
    repeated smallint not null, -- how often it may have been accepted already
    anew tinyint not null default 0, -- it was put back, and handling it twice does no harm
    holder varchar(16) character set ascii collate ascii_bin not null default '', -- the relay that pushes it
    held_until bigint not null default 0, -- and how long others leave it alone
    tries integer not null default 0, -- how often it was given back
    bucket varchar(600) character set utf8mb4 collate utf8mb4_bin not null,
    event longblob not null,
    key duly_outbox_deferred_by_bucket (bucket, n)
) engine = InnoDB;
-- Of an earlier form of the table, too.
set @duly_outbox_add = if(
    exists (
        select * from information_schema.columns where table_schema = database()
        and table_name = 'duly_outbox_deferred' and column_name = 'anew'
    ),
    'do 0', 'alter table duly_outbox_deferred add column anew tinyint not null default 0'
);
prepare duly_outbox_add from @duly_outbox_add;
execute duly_outbox_add;
deallocate prepare duly_outbox_add;

-- Events that can never be accepted, each with the reason.
create table if not exists duly_outbox_refused (
    n bigint not null auto_increment primary key,
    at bigint not null,
    refused bigint not null default (timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000),
    reason text character set utf8mb4 collate utf8mb4_bin not null,
    repeated smallint not null default 1, -- it may have been accepted already
    event longblob,
    queue varchar(512) character set utf8mb4 collate utf8mb4_bin,
    payload longtext character set utf8mb4 collate utf8mb4_bin,
    due bigint,
    id varchar(64) character set ascii collate ascii_bin,
    options text character set utf8mb4 collate utf8mb4_bin
) engine = InnoDB;
-- Of an earlier form of the table, too.
set @duly_outbox_add = if(
    exists (
        select * from information_schema.columns where table_schema = database()
        and table_name = 'duly_outbox_refused' and column_name = 'repeated'
    ),
    'do 0', 'alter table duly_outbox_refused add column repeated smallint not null default 1'
);
prepare duly_outbox_add from @duly_outbox_add;
execute duly_outbox_add;
deallocate prepare duly_outbox_add;

-- Events whose effect has been committed in this database.
create table if not exists duly_done (
    event varchar(600) character set utf8mb4 collate utf8mb4_bin primary key,
    attempt integer not null,
    lease varchar(255) character set utf8mb4 collate utf8mb4_bin not null,
    at bigint not null default (timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000),
    key duly_done_by_at (at)
) engine = InnoDB;

-- From before which time ends may be deleted, and how long that stands: a clock that jumps ahead makes
-- all of them look old. In milliseconds since 1970.
create table if not exists duly_done_limit (
    only_row tinyint primary key,
    ends_before bigint not null,
    stands_until bigint not null
) engine = InnoDB;

-- Pushes an event, when this transaction commits, that is due after a delay in seconds; null is none.
create procedure if not exists duly_push(
    in queue_name varchar(512) character set utf8mb4, in payload_text longtext character set utf8mb4,
    in delay_seconds decimal(20, 3), in event_options text character set utf8mb4
) sql security invoker
insert into duly_outbox (queue, payload, due, options) values (
    queue_name, payload_text,
    if(delay_seconds > 0,
        timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000 + delay_seconds * 1000, null),
    event_options
);

insert ignore into duly_outbox_salt values (1, uuid());
insert ignore into duly_outbox_version values (1);
