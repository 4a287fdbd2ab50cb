-- Script: replaces the body of an event, if it is still the one that was read; a dead event leaves
-- a record.
--
-- ARGV[4]  id
-- ARGV[5]  the first bytes of the body that was read, which identify it
-- ARGV[6]  the new body
-- ARGV[7]  "", or "=" and the actor
-- ARGV[8]  1 to change only a dead one
--
-- Returns {now, "changed" or "after" (an attempt may still run) or "again" (its body has changed
-- since), or the kind of its state when it is too late, or "" for an unknown id; due time, 1 if a
-- record was written}.
local id, read, new = ARGV[4], ARGV[5], ARGV[6]
local it = state_alone(id)
local body = call("HGET", BODY, id)
local kind = it and it.kind or (body and "S" or "")
local due, recorded = 0, 0
if body and kind ~= "L" and (kind == "D" or ARGV[8] ~= "1") then
  due = kind == "S" and tonumber(call("ZSCORE", DELAY, id)) or number_at(it.due, 1)
  if body:sub(1, #read) == read then
    if kind == "D" then
      note_end(id, "\10", it.due, ZERO, new, ARGV[7] ~= "" and sub(ARGV[7], 2) or nil)
      recorded = #records
      write_records() -- first: a changed body no longer matches the one that was read
    end
    lengthen(#new)
    call("HSET", BODY, id, new)
    if it then -- its tombstone needs the fingerprint
      it.fingerprint = sub(new, 5, 12)
      call("HSET", STATE, id, write_state(it))
    end
    kind = it and it.lost and "after" or "changed"
  else
    kind = "again"
  end
end
keep_counts()
return { now, kind, due, recorded }
