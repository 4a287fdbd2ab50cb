-- Script: replaces the body of an event, if it is still the one that was read; a dead event leaves
-- a record.
local id, read, new = ARGV.id, ARGV.read, ARGV.new
local it = state_alone(id)
local body = call("HGET", BODY, id)
local kind = it and it.kind or (body and "S" or "")
local due, recorded = 0, 0
if body and kind ~= "L" and (kind == "D" or ARGV.dead_only ~= "1") then
  due = kind == "S" and tonumber(call("ZSCORE", DELAY, id)) or number_at(it.due, 1)
  if body:sub(1, #read) == read then
    if kind == "D" then
      note_end(id, "\10", it.due, ZERO, new, ARGV.by ~= "" and sub(ARGV.by, 2) or nil)
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
return REPLY { now = now, change = kind, due = due, recorded = recorded }
