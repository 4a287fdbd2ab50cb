-- Script: ends what has expired.
call("LLEN", READY) -- one of a wrong type fails it here, before it writes
local ids = call("ZRANGE", EXPIRY, "-inf", now, "BYSCORE", "LIMIT", 0, tonumber(ARGV.limit))
local gone = 0
for _, id in ipairs(ids) do
  if is_spent() then
    break
  end
  gone = gone + (end_if_expired(id) and 1 or 0)
end
drop_stale(gone)
keep_counts()
local more = #call("ZRANGE", EXPIRY, "-inf", now, "BYSCORE", "LIMIT", 0, 1)
return REPLY { now = now, more = more, ended = gone }
