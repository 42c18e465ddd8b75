#!lua
-- Takes a token and then, when there was one, places a hold: take_checked_token.lua and hold.lua in one step.
-- KEYS: takes, then as hold.lua.  ARGV: as take_checked_token.lua, then as hold.lua without the state id.
-- Returns what take_checked_token.lua returns when there is no token, else what hold.lua returns.
local function take_token(KEYS, ARGV)
  -- include take_checked_token.lua
end
local function hold(KEYS, ARGV)
  -- include hold.lua
end
local taken = take_token({KEYS[2], KEYS[1]}, {unpack(ARGV, 1, 5)})
if taken[1] ~= "taken" then return taken end
return hold({unpack(KEYS, 2)}, {ARGV[1], unpack(ARGV, 6)})
