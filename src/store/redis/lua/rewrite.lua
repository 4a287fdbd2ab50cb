-- Script: replaces bodies by re-encoded ones, each if it is still the body that was read and the
-- event is not leased.
local done, looked = 0, 0
for i = ARGV.rest, #ARGV, ARGV.width do
  local id, read, new = ARGV.id[i], ARGV.read[i], ARGV.new[i]
  local page, part = place_of(id)
  if page then
    if is_spent() then
      break
    end
    spent = spent + OPENED * part.count
  end
  looked = looked + 1
  local it = state_alone(id)
  local body = call("HGET", BODY, id)
  if body and sub(body, 1, #read) == read and not (it and it.kind == "L") then
    lengthen(#new)
    call("HSET", BODY, id, new)
    if it then -- its tombstone needs the fingerprint
      it.fingerprint = sub(new, 5, 12)
      call("HSET", STATE, id, write_state(it))
    end
    done = done + 1
  end
end
keep_counts()
return REPLY { now = now, changed = done, looked = looked }
