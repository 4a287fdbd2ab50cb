-- The pace of pruning records and minutes: since when the limit is in force, its start, and the
-- bound of the last step, in microseconds.
CREATE TABLE pruned (
    what    text PRIMARY KEY,
    since   bigint NOT NULL,
    begun   bigint NOT NULL,
    through bigint NOT NULL
);
