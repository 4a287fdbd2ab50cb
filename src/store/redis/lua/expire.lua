-- Script: ends what has expired.
--
-- ARGV[4]  limit, at most 1000
--
-- Returns {now, 1 if there is more, how many it has ended}.
call("LLEN", READY) -- one of a wrong type fails it here, before it writes
local ids = call("ZRANGE", EXPIRY, "-inf", now, "BYSCORE", "LIMIT", 0, tonumber(ARGV[4]))
local gone = 0
for _, id in ipairs(ids) do
  if is_spent() then
    break
  end
  gone = gone + (end_if_expired(id) and 1 or 0)
end
drop_stale(gone)
keep_counts()
return { now, #call("ZRANGE", EXPIRY, "-inf", now, "BYSCORE", "LIMIT", 0, 1), gone }
