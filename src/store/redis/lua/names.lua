-- Library: the functions that scripts call most, as locals of the whole chunk.
local call, pack, unpack_from = redis.call, struct.pack, struct.unpack
local byte, char, sub = string.byte, string.char, string.sub
