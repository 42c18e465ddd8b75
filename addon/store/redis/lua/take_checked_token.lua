#!lua
-- Takes one token of a workspace's bucket, if the state is the right one.
-- KEYS: state, takes.  ARGV: state id, then as take_token.lua.
-- Returns what take_token.lua returns, or {"missing"}.
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return {"missing"} end
local function take_token(KEYS, ARGV)
  -- include take_token.lua
end
return take_token({KEYS[2]}, {unpack(ARGV, 2)})
