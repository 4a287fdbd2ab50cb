-- Library: of a script that takes leases back because of the time: what it looks at before, and what others
-- have taken back. It needs `take_back`.
--
-- Keys of a wrong type fail the call here, before it writes.
local function check_lease_keys()
  check_keys()
  call("ZCARD", LEASE)
  call("HLEN", NODES)
  call("HLEN", HELD)
  call("ZCARD", REQUESTS)
  call("XLEN", OUTBOX)
end

-- Returns how many leases past their deadline were ended since the last reap: how many events wait for
-- it, and how many are dead.
local function taken_earlier()
  local packed = call("HGET", META, "taken")
  if packed and #packed == 16 then
    return unpack_from(">dd", packed)
  end
  return 0, 0
end
