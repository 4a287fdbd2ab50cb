-- Library: how parts of pages are divided, and how events leave them, with which something happens
-- alone.
local PIECES_MAX = 8 -- a part that would fall into more is left by all its events

-- Returns a part of some of the events of another one.
local function piece(part, first, count)
  local its, at = {}, 8 * (first - part.first)
  for key, value in pairs(part) do
    its[key] = value
  end
  its.first, its.count, its.prints = first, count, sub(part.prints, at + 1, at + 8 * count)
  return its
end

-- Puts pieces of a part in its place.
local function replace(page, part, pieces)
  local parts = {}
  for _, it in ipairs(page.parts) do
    if it ~= part then
      parts[#parts + 1] = it
    else
      for _, its in ipairs(pieces) do
        parts[#parts + 1] = its
      end
    end
  end
  page.parts = parts
  change(page)
end

-- Divides a part. Returns a part of its first `most` events, and one of the others; of a scheduled part
-- the latter has its member in the delay set.
local function divide(page, part, most)
  local first, rest = piece(part, part.first, most), piece(part, part.first + most, part.count - most)
  replace(page, part, { first, rest })
  if part.kind == "S" then
    call("ZADD", DELAY, number_at(rest.times, 1), member_of(page, rest))
  end
  return first, rest
end

-- Returns whether a part that has not ended needs a body.
local function needs_body(page, body)
  for _, it in ipairs(page.parts) do
    if it.body == body and it.kind ~= "E" then
      return true
    end
  end
  return false
end

-- Returns the pieces of a part without some places, in their order.
local function pieces_without(part, places)
  local pieces, from, beyond = {}, part.first, part.first + part.count
  for _, place in ipairs(places) do
    if place > from then
      pieces[#pieces + 1] = piece(part, from, place - from)
    end
    from = place + 1
  end
  if from < beyond then
    pieces[#pieces + 1] = piece(part, from, beyond - from)
  end
  return pieces
end

-- Takes the events of a part at some places, in their order, out of it, or all. `becomes`: place ->
-- the state of an event that something has happened to. Writes bodies and members, which come first: an
-- event left half done is still in the page. Returns the parts of the others, and ids and states of
-- those that are alone.
local function take_out(page, part, places, becomes)
  local pieces = places and pieces_without(part, places)
  if not pieces or #pieces > PIECES_MAX then
    pieces, places = {}, {}
    for at = 1, part.count do
      places[at] = part.first + at - 1
    end
  end
  local states, bodies, delayed, wanted = {}, {}, {}, {}
  for _, place in ipairs(places) do
    local id, state = page.name .. char(PLACE + place), becomes and becomes[place]
    local is_known = has_bit(page.low, page.high, place)
    if is_known and not state and part.kind == "S" then
      delayed[#delayed + 1], delayed[#delayed + 2] = number_at(part.times, 1), id
      wanted[place] = id
    elseif is_known then
      state = state or write_state(own_state(part, place))
      states[#states + 1], states[#states + 2] = id, state
      wanted[place] = not has_ended(state) and id or nil
    end
  end
  local body, first = next(wanted) and body_of_part(page, part) or "", places[1]
  for place, begins, ends in each_in(body, part.body, first, places[#places] - first + 1) do
    if wanted[place] and ends <= #body then
      bodies[#bodies + 1], bodies[#bodies + 2] = wanted[place], sub(body, begins, ends)
    end
  end
  if part.kind == "S" then
    paged = paged - part.count + 1
    for _, it in ipairs(pieces) do
      delayed[#delayed + 1], delayed[#delayed + 2] = number_at(part.times, 1), member_of(page, it)
      paged = paged + it.count - 1
    end
  end
  if #bodies > 0 then
    call("HSET", BODY, unpack(bodies))
  end
  if #delayed > 0 then
    call("ZADD", DELAY, unpack(delayed))
  end
  replace(page, part, pieces)
  return pieces, states
end

-- The same, and writes all of it.
local function leave_part(page, part, places, becomes)
  local _, states = take_out(page, part, places, becomes)
  call("HSET", STATE, unpack(states, 1, add_pages(states, #states)))
  if not needs_body(page, part.body) then
    call("HDEL", BODY, field_of(page, part))
  end
  if part.kind == "S" then
    call("ZREM", DELAY, member_of(page, part))
  end
end

-- Makes an event one that is alone, with all of its part. Returns its state: nothing of one that is
-- unknown, or that was pushed alone with a delay and never touched since.
local function leave_page(id)
  local page, part = place_of(id)
  if page then
    leave_part(page, part)
  end
  return state_of(id)
end

-- Makes a waiting event one that is alone, and returns its state in the same way; that of one whose
-- attempt runs, or that has ended, wherever it is.
local function leave_waiting(id)
  local page, part, place = place_of(id)
  if page and part.kind == "S" then
    leave_part(page, part, { place })
  elseif page and part.kind ~= "R" then
    return own_state(part, place)
  end
  return leave_page(id)
end
