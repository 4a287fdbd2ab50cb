-- Library: the functions that scripts call most. A server that loads a library has none of them yet,
-- so they get their values when it is first called.
local call, pack, unpack_from, byte, char, sub
-- Each call:
call, pack, unpack_from = redis.call, struct.pack, struct.unpack
byte, char, sub = string.byte, string.char, string.sub
