-- Library: pages. Up to 64 ready events of one push that are short and have no extras share a page:
-- one entry of the ready list, one body and one lease for all of them.
--
-- A page has a number of 8 bytes, which is its entry in the ready list, and its field where an event
-- that is alone has its id:
--
-- BODY   for each event its id, the length of its body (4 bytes) and its body
-- STATE  1      kind: R ready, L leased
--        2-3    how many events have their place in it, from `from` on
--        4-5    how many of these are still in it
--        6-9    `from`: where the body of the page begins; what is before it was leased
--        10-17  due time, ms    18-25  moved to the ready list, us
--        26-49  node, request, fetched, us (leased)
--        50-57  which of its events were acked under this lease, a bit for each (leased)
--
-- The state of an event in a page says only where it is, also when it was acked there:
--
--   1      P          2-9    the page
--   10-13  where the event begins in the body of the page
--   14     its bit    15-22  fingerprint
--
-- An event with which something happens alone leaves its page first. Of a ready page it keeps its
-- place: its own state says that the page is its entry.
local PAGE = 80
local page_states, page_bodies = {}, {} -- those read by this call
local left_pages = {} -- those that an event has left alone by this call

local function state_of_page(page)
  if page_states[page] == nil then
    page_states[page] = call("HGET", STATE, page)
  end
  return page_states[page]
end

local function body_of_page(page)
  if page_bodies[page] == nil then
    page_bodies[page] = call("HGET", BODY, page)
  end
  return page_bodies[page]
end

local function is_in_page(state)
  return state and byte(state) == PAGE
end

-- Returns the id of the event at `at` of a page, its body, and where the next one begins; nothing
-- at the end.
local function event_at(body, at)
  if at + 19 > #body then
    return nil
  end
  local from, len = at + 20, (unpack_from(">I4", body, at + 16))
  return sub(body, at, at + 15), sub(body, from, from + len - 1), from + len
end

local function page_from(of)
  return (unpack_from(">I4", of, 6))
end

-- Iterates over the events in the body of a page: their number, id and body, and where each begins.
local function each_in(body, from)
  local at, count = from, 0
  return function()
    local place = at
    local id, its, next_at = event_at(body or "", place)
    at, count = next_at, count + 1
    return id and count, id, its, place
  end
end

-- Iterates over the events that have their place in a page: their number, id and state, and where
-- each begins. Others have left it.
local function events_of(page, of)
  local next_event = each_in(body_of_page(page), page_from(of))
  return function()
    local count, id, _, place = next_event()
    return count, id, id and call("HGET", STATE, id), place
  end
end

-- Returns how many events have their place in a page, and how many of them are still in it.
local function page_counts(of)
  return unpack_from(">I2I2", of, 2)
end

-- Returns whether the event with this bit was acked in a leased page.
local function is_acked(of, place)
  local word = unpack_from(">i4", of, place < 32 and 50 or 54)
  return bit.band(word, bit.lshift(1, place % 32)) ~= 0
end

-- Returns the state that an event would have if it were alone; nothing if its page was deleted by
-- hand.
local function own_state(state)
  if not is_in_page(state) then
    return state
  end
  local page = sub(state, 2, 9)
  local of = state_of_page(page)
  if not of then
    return nil
  end
  local own = FRESH .. sub(of, 10, 25) .. sub(state, 15, 22)
  if byte(of) == 82 then
    return "R" .. own .. NEVER .. page
  elseif is_acked(of, byte(state, 14)) then
    return "d" .. own .. sub(of, 26, 41) .. "a"
  end
  return "L" .. own .. NEVER .. sub(of, 26, 49) .. u16(ATTEMPTS)
end

-- Returns whether an event is ready and this is its entry in the ready list.
local function is_placed(state, entry_of)
  local own = own_state(state)
  return own and byte(own) == 82 and sub(own, 46) == entry_of
end

-- Returns the body of an event in a page.
local function body_in_page(state)
  local body = body_of_page(sub(state, 2, 9))
  return body and select(2, event_at(body, (unpack_from(">I4", state, 10))))
end

-- Takes an event out of its page. Returns its own state. Its body is written first: an event left
-- half done is still in the page.
local function take_out(id, state)
  if not is_in_page(state) then
    return state
  end
  local page, own, body = sub(state, 2, 9), own_state(state), body_in_page(state)
  if body then
    call("HSET", BODY, id, body)
  end
  local of = page_states[page]
  local _, left = page_counts(of)
  of = sub(of, 1, 3) .. u16(left - 1) .. sub(of, 6)
  page_states[page] = of
  left_pages[page] = true
  call("HSET", STATE, id, own, page, of)
  return own
end

-- Takes a waiting event out of its page. Returns the state that it has, or would have if it were
-- alone.
local function take_out_waiting(id, state)
  local own = own_state(state)
  if own and byte(own) == 82 then
    take_out(id, state)
  end
  return own
end
