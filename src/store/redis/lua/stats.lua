-- Counts events by state.
--
-- Returns {now, scheduled, ready, leased, dead}.
local counts = { call("ZCARD", DELAY), ready_len(), leased, call("ZCARD", DEAD) }
leave()
return { now, unpack(counts) }
