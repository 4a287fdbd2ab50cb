-- Gives an event another body, if its body is still the one that was read.
--
-- ARGV[2]  id
-- ARGV[3]  the first bytes of the body that was read, which tell it from every other
-- ARGV[4]  the new body
--
-- Returns {now, "changed" or "after" (an attempt may still run) or "again" (it has another body by
-- now) or the kind of its state, when that is too late, or "" when nobody knows it, due time}.
local id, read = ARGV[2], ARGV[3]
local state, body = call("HGET", STATE, id), call("HGET", BODY, id)
local kind = state and state:sub(1, 1) or (body and "S" or "")
local due = 0
if body and kind ~= "L" then
  due = kind == "S" and tonumber(call("ZSCORE", DELAY, id)) or number_at(state, 5)
  if body:sub(1, #read) == read then
    call("HSET", BODY, id, ARGV[4])
    if state then -- it tells the fingerprint on when it ends
      call("HSET", STATE, id, sub(state, 1, 20) .. sub(ARGV[4], 5, 12) .. sub(state, 29))
    end
    kind = state and byte(state, 2) % 2 == 1 and "after" or "changed"
  else
    kind = "again"
  end
end
leave()
return { now, kind, due }
