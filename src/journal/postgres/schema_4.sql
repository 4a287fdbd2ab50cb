-- How far records and minutes were pruned: since when that limit stands, from where it counts, and
-- up to where a step was last allowed to remove, in microseconds.
CREATE TABLE pruned (
    what    text PRIMARY KEY,
    since   bigint NOT NULL,
    begun   bigint NOT NULL,
    through bigint NOT NULL
);
