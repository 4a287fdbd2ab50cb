-- Lists ids of one kind, a part at a time.
--
-- ARGV[2]  what: "S" scheduled, "R" ready, "L" leased, "D" dead, "F" over
-- ARGV[3]  from which place on; for dead ones the id after which, or ""
-- ARGV[4]  most ids, or batches of them
--
-- Returns {now, ids or texts that begin with them; those that are leased or over in batches, the
-- leased ones all at once}. As many as the most means that there are more.
local kind, from, most = ARGV[2], ARGV[3], tonumber(ARGV[4])
local found
if kind == "D" then
  found = call("ZRANGE", DEAD, from == "" and "-" or "(" .. from, "+", "BYLEX", "LIMIT", 0, most)
elseif kind == "S" then
  found = call("ZRANGE", DELAY, from, from + most - 1)
elseif kind == "R" then
  found = call("LRANGE", READY, from, from + most - 1)
elseif kind == "F" then
  found = call("LRANGE", PAST, from, from + most - 1)
else
  found = {}
  for _, field in ipairs(call("HKEYS", HELD)) do
    if #field == 16 then
      found[#found + 1] = call("HGET", HELD, field)
    end
  end
end
leave()
return { now, unpack(found) }
