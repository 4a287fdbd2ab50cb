-- Library: of a script that shows or changes events, and cannot take leases back: it is refused while
-- any is past its own deadline, and its caller ends them first. The script counts as one of the time at
-- which its caller began, as in `unexpired`.
-- Each call:
local since = tonumber(ARGV.now)
since = math.min(since and math.abs(since) or now, now)
if #call("ZRANGE", LEASE, "-inf", math.floor(since / 1000), "BYSCORE", "LIMIT", 0, 1) > 0 then
  error({ err = "DULY EXPIRED leases of this bucket are past their deadline and are to be ended first" })
end
