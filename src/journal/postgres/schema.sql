-- Records, partitioned by the week in which they finished: dropping a week is dropping a table.
CREATE TABLE records (
    finished bigint NOT NULL, -- microseconds since the epoch, as the four below
    number   bigint NOT NULL, -- in its outbox
    event    uuid   NOT NULL,
    due      bigint NOT NULL, -- milliseconds since the epoch
    moved    bigint NOT NULL,
    fetched  bigint NOT NULL,
    started  bigint NOT NULL,
    node     bigint NOT NULL,
    attempt  integer NOT NULL,
    trace    uuid,
    queue    text COLLATE "C" NOT NULL,
    outcome  text COLLATE "C" NOT NULL,
    cause    text COLLATE "C",
    key      text COLLATE "C",
    error    text COLLATE "C",
    done_by  text COLLATE "C",
    payload  bytea
) PARTITION BY RANGE (finished);

-- Identifies a record; also the whole history of an event, in order.
CREATE UNIQUE INDEX records_event ON records (event, finished, number);

-- Without the number: half the size to write. Records of one microsecond are sorted as they are
-- read. Index entries are not deduplicated, as they are unique.
CREATE INDEX records_time ON records (finished) WITH (deduplicate_items = off);
CREATE INDEX records_queue ON records (queue, finished) WITH (deduplicate_items = off);
CREATE INDEX records_node ON records (node, finished) WITH (deduplicate_items = off);
CREATE INDEX records_key ON records (key, finished) WITH (deduplicate_items = off)
    WHERE key IS NOT NULL;
CREATE INDEX records_trace ON records (trace, finished) WITH (deduplicate_items = off)
    WHERE trace IS NOT NULL;
CREATE INDEX records_not_acked ON records (finished) WITH (deduplicate_items = off)
    WHERE outcome <> 'acked';
CREATE INDEX records_error ON records (finished) WITH (deduplicate_items = off)
    WHERE error IS NOT NULL;

-- The watermark of each outbox: its records up to this number are here. A load locks the row.
CREATE TABLE outboxes (
    outbox text COLLATE "C" PRIMARY KEY,
    mark   bigint NOT NULL
) WITH (fillfactor = 50);

-- The number of records in a week, by loader; pruning decrements a row of its own.
CREATE TABLE weeks (
    week    integer NOT NULL,
    outbox  text COLLATE "C" NOT NULL,
    records bigint NOT NULL,
    PRIMARY KEY (week, outbox)
) WITH (fillfactor = 50);

-- Records that finished in a minute, by outcome; `start` in milliseconds since the epoch.
CREATE TABLE minutes (
    start   bigint NOT NULL,
    queue   text COLLATE "C" NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    records bigint NOT NULL,
    PRIMARY KEY (queue, start, outcome)
) WITH (fillfactor = 70);
CREATE INDEX minutes_time ON minutes (start, queue);

-- The lateness of a queue's handlers, one row a minute: a load adds to hundreds of slots.
CREATE TABLE lateness (
    start   bigint NOT NULL,
    queue   text COLLATE "C" NOT NULL,
    slots   smallint[] NOT NULL,
    records bigint[] NOT NULL, -- how many, for each of `slots`
    PRIMARY KEY (start, queue)
) WITH (fillfactor = 70);

-- The pace of pruning records and minutes: since when the limit is in force, its start, and the
-- bound of the last step, in microseconds.
CREATE TABLE pruned (
    what    text PRIMARY KEY,
    since   bigint NOT NULL,
    begun   bigint NOT NULL,
    through bigint NOT NULL
);

-- An event id as its 26 letters.
CREATE FUNCTION event_id(event uuid) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT string_agg(
        substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', substring(bits FROM n * 5 + 1 FOR 5)::integer + 1, 1),
        '' ORDER BY n)
    FROM generate_series(0, 25) AS n,
        (SELECT B'00' || ('x' || replace(event::text, '-', ''))::bit(128) AS bits) AS b
$$;

-- The creation time of an event: the first 48 bits of its id, in milliseconds since the epoch.
CREATE FUNCTION event_created(event uuid) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT ('x' || substr(replace(event::text, '-', ''), 1, 12))::bit(48)::bigint
$$;

-- Microseconds since the epoch as a time; null beyond the year 9999.
CREATE FUNCTION time_of_us(us bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT CASE WHEN us BETWEEN 0 AND 253402300799999999
        THEN timestamptz '1970-01-01 00:00:00+00' + (us / 1000000) * interval '1 second'
            + (us % 1000000) * interval '1 microsecond' END
$$;

-- Milliseconds since the epoch as a time; null beyond the year 9999.
CREATE FUNCTION time_of_ms(ms bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT CASE WHEN ms BETWEEN 0 AND 253402300799999
        THEN timestamptz '1970-01-01 00:00:00+00' + (ms / 1000) * interval '1 second'
            + (ms % 1000) * interval '1 millisecond' END
$$;

-- A payload as text; null if it is none.
CREATE FUNCTION text_of(payload bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    RETURN convert_from(payload, 'UTF8');
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END
$$;

CREATE VIEW history AS
SELECT
    event_id(event) AS id,
    queue,
    key,
    attempt,
    outcome,
    cause,
    time_of_ms(due) AS due,
    time_of_us(nullif(moved, 0)) AS moved,
    time_of_us(nullif(fetched, 0)) AS fetched,
    time_of_us(nullif(started, 0)) AS started,
    time_of_us(finished) AS finished,
    CASE WHEN started > 0 AND due BETWEEN 0 AND 9000000000000000
        THEN greatest(started - due * 1000, 0) END AS late_us,
    CASE WHEN node <> 0 THEN lpad(to_hex(node), 16, '0') END AS node,
    error,
    replace(trace::text, '-', '') AS trace,
    text_of(payload) AS payload,
    done_by AS by,
    number,
    event
FROM records;

-- Each event once, by its last record.
CREATE VIEW tasks AS
SELECT
    event_id(event) AS id,
    time_of_ms(event_created(event)) AS created,
    time_of_us(finished) AS modified,
    key AS business_id,
    queue AS business_type,
    CASE
        WHEN outcome = 'acked' THEN 'processed'
        WHEN outcome IN ('cancelled', 'expired', 'discarded', 'dropped') THEN 'cancelled'
        ELSE 'pending'
    END AS status,
    time_of_ms(due) AS action_time,
    text_of(payload) AS attributes,
    event
FROM records AS r
WHERE NOT EXISTS (
    SELECT 1 FROM records AS later
    WHERE later.event = r.event
        AND later.queue = r.queue
        AND (later.finished, later.number) > (r.finished, r.number)
);
