-- Records by the week in which they finished: dropping a week is dropping a table.
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

-- What tells a record from every other one; also the whole history of an event, in order.
CREATE UNIQUE INDEX records_event ON records (event, finished, number);
CREATE INDEX records_time ON records (finished, number);
CREATE INDEX records_queue ON records (queue, finished, number);
CREATE INDEX records_node ON records (node, finished, number);
CREATE INDEX records_key ON records (key, finished, number) WHERE key IS NOT NULL;
CREATE INDEX records_trace ON records (trace, finished, number) WHERE trace IS NOT NULL;
CREATE INDEX records_not_acked ON records (finished, number) WHERE outcome <> 'acked';
CREATE INDEX records_error ON records (finished, number) WHERE error IS NOT NULL;

-- Up to which number the records of an outbox are here. Whoever loads holds the row.
CREATE TABLE outboxes (
    outbox text COLLATE "C" PRIMARY KEY,
    mark   bigint NOT NULL
) WITH (fillfactor = 50);

-- How many records a week has, by who loaded them; pruning counts down in a row of its own.
CREATE TABLE weeks (
    week    integer NOT NULL,
    outbox  text COLLATE "C" NOT NULL,
    records bigint NOT NULL,
    PRIMARY KEY (week, outbox)
) WITH (fillfactor = 50);

-- How many records finished in a minute, by outcome; `start` in milliseconds since the epoch.
CREATE TABLE minutes (
    start   bigint NOT NULL,
    queue   text COLLATE "C" NOT NULL,
    outcome text COLLATE "C" NOT NULL,
    records bigint NOT NULL,
    PRIMARY KEY (queue, start, outcome)
) WITH (fillfactor = 70);
CREATE INDEX minutes_time ON minutes (start, queue);

-- How late their handlers started, by slot.
CREATE TABLE lateness (
    start   bigint NOT NULL,
    queue   text COLLATE "C" NOT NULL,
    slot    smallint NOT NULL,
    records bigint NOT NULL,
    PRIMARY KEY (start, queue, slot)
) WITH (fillfactor = 70);
