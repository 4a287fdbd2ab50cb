-- Library: the fields of a body that scripts need; src/codec/body defines every byte.
local FORMAT = 1 -- the newest that this version reads

-- Returns whether a newer duly has written the body in a form that this version cannot read. Every
-- such form begins with 15 in the high four bits and its number, and has its fingerprint where
-- format 1 has it. Nothing else of it is reliable here, and only its own version may end its event.
local function is_newer(body)
  return (byte(body) or 0) >= 240 and (byte(body, 2) or 0) > FORMAT
end

local PAYLOAD_KEPT_MAX = RUST.PAYLOAD_KEPT_MAX -- longer payloads are not kept in records

-- The format is in the high four bits; flags above that of extras are only set with it.
local function has_extras(body)
  return (byte(body) or 0) % 16 >= 2
end

-- Returns whether the event's records need data that only the body has: its trace or payload.
local function tells(body)
  return (byte(body) or 0) % 16 >= 4
end

-- Returns the text at a place in a body, and where it ends.
local function text_at(body, at)
  local after = at + 2 + byte(body, at) * 256 + byte(body, at + 1)
  return sub(body, at + 2, after - 1), after
end

local guarded = pcall
local function read_extras(body)
  local flags, at = byte(body, 17), 20
  local attempts = byte(body, 18) * 256 + byte(body, 19)
  local expires, late, late_us, key, unique
  if math.floor(flags / 4) % 2 == 1 then
    expires = number_at(body, at)
    at = at + 8
  end
  if math.floor(flags / 8) % 4 > 0 then
    late = math.floor(flags / 8) % 2 == 1 and "expire" or "bury"
    late_us = number_at(body, at) * 1000000 + math.floor((unpack_from(">I4", body, at + 8)) / 1000)
    at = at + 12
  end
  at = at + math.floor(flags / 32) % 2 * 8 + math.floor(flags / 64) % 2 * 4
  if flags % 2 == 1 then
    key, at = text_at(body, at)
  end
  if math.floor(flags / 2) % 2 == 1 then
    unique, at = text_at(body, at)
  end
  return attempts, expires, late, late_us, key, unique, at
end

-- Returns attempts, expiry in ms, "expire" or "bury", lateness in us, key, unique key. Of a damaged
-- body it returns only attempts, so that the event is leased and the node that decodes it reports
-- the damage; an error here would fail every other event of the call, again and again.
local function extras_of(body)
  local is_read, attempts, expires, late, late_us, key, unique = guarded(read_extras, body)
  if not is_read or (unpack_from(">I4", body, 13)) + 16 > #body then
    return ATTEMPTS
  end
  return attempts, expires, late, late_us, key, unique
end

-- Returns whether the expiry of an event has passed, whatever its due time.
local function has_expired(body)
  local _, expires = extras_of(body)
  return expires and expires * 1000 <= now
end

-- Returns the index entry of an event that has a key.
local function key_entry(key, id)
  return pack(">I2", #key) .. key .. id
end

-- Returns key and unique key of a body that this version reads, and behind them the expiry and lateness.
local function keys_of(body)
  if body and not is_newer(body) and has_extras(body) then
    local _, expires, late, late_us, key, unique = extras_of(body)
    return key, unique, expires, late, late_us
  end
end

local UNIQUE_FOR_MAX = RUST.UNIQUE_FOR_MAX_MS

local function read_unique_for(body)
  local at = select(7, read_extras(body)) + 1
  for _ = 1, byte(body, 17) < 128 and 0 or byte(body, at - 1) do -- the headers
    local name, words
    name, at = text_at(body, at)
    words, at = text_at(body, at)
    if name == "duly-unique-for" then
      return #words <= 11 and words:find("^%d+$") and math.min(tonumber(words), UNIQUE_FOR_MAX) or nil
    end
  end
end

-- Returns how long, ms, the unique key of a body stays reserved once its event is done; nil if it
-- is free at once. The same rule as in src/event/unique.rs.
local function unique_for(body)
  local is_read, period = guarded(read_unique_for, body)
  return is_read and period or nil
end

-- Returns the extras of a record, encoded: trace and payload of a body that carries them, and the
-- actor; nil without any. A damaged body contributes nothing.
local function more_of(body, by)
  local flags, more = 0, ""
  if body and #body >= 16 and not is_newer(body) and tells(body) then
    local said, len = math.floor(byte(body) % 16 / 4), (unpack_from(">I4", body, 13))
    local payload_len = #body - len - 16
    if said >= 2 and len >= 19 and payload_len >= 0 then
      flags, more = 1, sub(body, len + 1, len + 16)
    end
    if said % 2 == 1 and payload_len >= 0 and payload_len <= PAYLOAD_KEPT_MAX then
      flags, more = flags + 2, more .. pack(">I4", payload_len) .. sub(body, len + 17)
    end
  end
  if by then
    flags, more = flags + 4, more .. pack(">I2", #by) .. by
  end
  return flags > 0 and char(flags) .. more or nil
end
