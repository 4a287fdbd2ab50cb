-- Library: of a script that shows or changes events, and cannot end those that have expired: it is
-- refused while there are any, and its caller ends them first. The script counts as one of the time at
-- which its caller began, as it knows the server's: others expire meanwhile, and without end. Where the
-- caller cannot end them, or the key is no index of events that expire, it goes on beside them.
-- Each call:
local began = tonumber(ARGV.now)
began = began and began < 0 and -began or now
local expired = redis.pcall("ZRANGE", EXPIRY, "-inf", math.min(began, now), "BYSCORE", "LIMIT", 0, 1)
if #expired > 0 and byte(ARGV.now, -1) ~= 32 then
  error({ err = "DULY EXPIRED events of this bucket have expired and are to be ended first" })
end
