#!lua
-- Makes these the rates of a ledger, unless they are another one's.
-- KEYS: identity.  ARGV: the ledger's id, the fleet's name, how many seconds the identity is kept from now on.
-- Returns "ours", or the name of the other fleet in a list.
local ledger, fleet = unpack(redis.call("HMGET", KEYS[1], "ledger", "fleet"))
if ledger and ledger ~= ARGV[1] then return {fleet or ""} end
redis.call("HSET", KEYS[1], "ledger", ARGV[1], "fleet", ARGV[2])
redis.call("EXPIRE", KEYS[1], ARGV[3])
return "ours"
