-- The lateness of a queue's handlers, one row a minute: a load adds to hundreds of slots.
LOCK TABLE lateness IN ACCESS EXCLUSIVE MODE;
ALTER TABLE lateness RENAME TO lateness_by_slot;
ALTER INDEX lateness_pkey RENAME TO lateness_by_slot_pkey;
CREATE TABLE lateness (
    start   bigint NOT NULL,
    queue   text COLLATE "C" NOT NULL,
    slots   smallint[] NOT NULL,
    records bigint[] NOT NULL, -- how many, for each of `slots`
    PRIMARY KEY (start, queue)
) WITH (fillfactor = 70);
INSERT INTO lateness (start, queue, slots, records)
SELECT start, queue, array_agg(slot ORDER BY slot), array_agg(records ORDER BY slot)
FROM lateness_by_slot GROUP BY start, queue;
DROP TABLE lateness_by_slot;
