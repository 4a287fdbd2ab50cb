-- How events are told of. At most 1000 ids.
--
-- Appends four for each to `answer`: state or false, body or false, due time of the delay set or
-- false, deadline of a lease that has one of its own or false. If `named`, its id before these.
local function look_up(ids, answer, named, bodies)
  if #ids == 0 then
    return
  end
  local states = call("HMGET", STATE, unpack(ids))
  bodies = bodies or call("HMGET", BODY, unpack(ids))
  local dues, deadlines = call("ZMSCORE", DELAY, unpack(ids)), call("ZMSCORE", LEASE, unpack(ids))
  for i, id in ipairs(ids) do
    if named then
      answer[#answer + 1] = id
    end
    local n = #answer
    answer[n + 1], answer[n + 2], answer[n + 3] = states[i], bodies[i], dues[i]
    answer[n + 4] = deadlines[i]
  end
end
