-- Library: of a script that shows or changes events, and cannot take leases back: it is refused while
-- any is past its own deadline, and its caller ends them first. The script counts as one of the time at
-- which its caller began, as in `unexpired`. Where the caller cannot end them, or the key is no index of
-- leases, it goes on beside them.
-- Each call:
local since = tonumber(ARGV.now)
since = math.min(since and math.abs(since) or now, now)
local past_deadline = redis.pcall("ZRANGE", LEASE, "-inf", math.floor(since / 1000), "BYSCORE", "LIMIT", 0, 1)
if #past_deadline > 0 and byte(ARGV.now, -1) ~= 32 then
  error({ err = "DULY EXPIRED leases of this bucket are past their deadline and are to be ended first" })
end
