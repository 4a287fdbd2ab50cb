-- Library: the reply fields of an event. At most 1000 ids.
--
-- Appends four for each to `reply`: state or false, body or false, due time of the delay set or
-- false, deadline of a lease that has one of its own or false. If `named`, its id before these.
-- Without `bodies` it reads them, as many as fit into one call. Returns the number of events
-- appended.
local function look_up(ids, reply, named, bodies)
  if #ids == 0 then
    return 0
  end
  local states, inside = find_all(ids)
  local dues, deadlines = read_all("ZMSCORE", DELAY, ids), read_all("ZMSCORE", LEASE, ids)
  local before, read = 0, bodies and #ids or 0
  for i, id in ipairs(ids) do
    if i > read then
      if is_spent() then
        return read
      end
      before = read
      bodies, read = read_bodies(ids, i)
    end
    if named then
      reply[#reply + 1] = id
    end
    local n, it, body = #reply, states[i], bodies[i - before]
    if inside[i] then
      body = body or body_in_page(id)
      spent = spent + #(body or "")
    end
    reply[n + 1], reply[n + 2], reply[n + 3] = it and write_state(it) or false, body or false, dues[i]
    reply[n + 4] = deadlines[i]
  end
  return #ids
end
