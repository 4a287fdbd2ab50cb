-- Script: ends what has expired.
--
-- ARGV[4]  limit, at most 1000
--
-- Returns {now, 1 if there is more, how many had expired, how many were too late}.
call("LLEN", READY) -- one of a wrong type fails it here, before it writes
local ids = call("ZRANGE", EXPIRY, "-inf", now, "BYSCORE", "LIMIT", 0, tonumber(ARGV[4]))
local gone, late = 0, 0
for _, id in ipairs(ids) do
  if is_spent() then
    break
  end
  local is_ended, is_expiry = end_if_expired(id)
  gone, late = gone + (is_ended and is_expiry and 1 or 0), late + (is_ended and not is_expiry and 1 or 0)
end
drop_stale(gone + late)
keep_counts()
return { now, #call("ZRANGE", EXPIRY, "-inf", now, "BYSCORE", "LIMIT", 0, 1), gone, late }
