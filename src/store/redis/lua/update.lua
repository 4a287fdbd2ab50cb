-- Gives an event another body, if its body is still the one that was read; a dead one leaves a
-- record of it.
--
-- ARGV[4]  id
-- ARGV[5]  the first bytes of the body that was read, which tell it from every other
-- ARGV[6]  the new body
-- ARGV[7]  "", or "=" and who does it
-- ARGV[8]  1 if only a dead one is changed
--
-- Returns {now, "changed" or "after" (an attempt may still run) or "again" (it has another body by
-- now) or the kind of its state, when that is too late, or "" when nobody knows it, due time, 1 if
-- a record was written}.
local id, read, new = ARGV[4], ARGV[5], ARGV[6]
local state, body = call("HGET", STATE, id), call("HGET", BODY, id)
local kind = state and state:sub(1, 1) or (body and "S" or "")
local due, recorded = 0, 0
if body and kind ~= "L" and (kind == "D" or ARGV[8] ~= "1") then
  due = kind == "S" and tonumber(call("ZSCORE", DELAY, id)) or number_at(state, 5)
  if body:sub(1, #read) == read then
    if kind == "D" then
      note_end(id, "\10", sub(state, 5, 12), ZERO, new, ARGV[7] ~= "" and sub(ARGV[7], 2) or nil)
      recorded = #records
      write_records() -- first, as what is changed is not the body that was read any more
    end
    lengthen(#new)
    call("HSET", BODY, id, new)
    if state then -- it tells the fingerprint on when it ends
      call("HSET", STATE, id, sub(state, 1, 20) .. sub(new, 5, 12) .. sub(state, 29))
    end
    kind = state and byte(state, 2) % 2 == 1 and "after" or "changed"
  else
    kind = "again"
  end
end
leave()
return { now, kind, due, recorded }
