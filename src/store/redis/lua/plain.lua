-- Library: in the place of `body` and `ending`, where no event has a key or a unique key. What a
-- script needs for those is not there, and never called.
local function has_extras()
  return false
end
