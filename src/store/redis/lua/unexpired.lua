-- Library: of a script that shows or changes events, and cannot end those that have expired: it is
-- refused while there are any, and its caller ends them first.
-- Each call:
if #call("ZRANGE", EXPIRY, "-inf", now, "BYSCORE", "LIMIT", 0, 1) > 0 then
  error({ err = "DULY EXPIRED events of this bucket have expired and are to be ended first" })
end
