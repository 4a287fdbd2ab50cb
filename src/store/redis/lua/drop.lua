-- Removes dead events for good; each leaves a record that it was discarded.
--
-- ARGV[4..] ids
--
-- Returns {now, how many}.
local dropped = 0
for i = 4, #ARGV do
  local id = ARGV[i]
  local state = call("HGET", STATE, id)
  if state and byte(state) == 68 then
    call("ZREM", DEAD, id)
    finish(id, "c", "\5", state, sub(state, 5, 12), ZERO, call("HGET", BODY, id))
    dropped = dropped + 1
  end
end
write_records()
leave()
return { now, dropped }
