-- Script: deletes dead events for good; each leaves a record.
local by = ARGV.by ~= "" and sub(ARGV.by, 2) or nil
local dropped, seen = {}, {}
check_keys()
call("ZCARD", BY_KEY)
local looked = 0
for i = ARGV.rest, #ARGV do
  if is_spent() then
    break
  end
  looked = looked + 1
  local id = ARGV.id[i]
  local it = not seen[id] and state_of(id)
  seen[id] = true
  local body = it and it.kind == "D" and read_body(id)
  if body and not is_newer(body) then
    note_end(id, "\11", it.due, ZERO, body, by)
    dropped[#dropped + 1] = { id = id, state = it, body = body }
  elseif it and has_ended(it.kind) then -- left by a call that failed
    body = read_body(id)
    if body then
      finish_noted(id, it.kind, it, it.due, body)
    end
    call("ZREM", DEAD, id)
  end
end
-- First: an event that is dropped without a record could not be dropped again.
write_records()
for _, it in ipairs(dropped) do
  finish_noted(it.id, "c", it.state, it.state.due, it.body)
  call("ZREM", DEAD, it.id)
end
keep_counts()
return REPLY { now = now, changed = #dropped, looked = looked }
