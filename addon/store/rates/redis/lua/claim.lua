#!lua
-- Makes these the rates of a ledger and a fleet, unless they are another one's.
-- KEYS: identity.  ARGV: the ledger's id, the fleet's name, how many seconds the identity is kept from now on.
-- Returns "ours", or the id of the ledger and the name of the fleet that they belong to.
local ledger, fleet = unpack(redis.call("HMGET", KEYS[1], "ledger", "fleet"))
if ledger and (ledger ~= ARGV[1] or fleet ~= ARGV[2]) then return {ledger, fleet or ""} end
redis.call("HSET", KEYS[1], "ledger", ARGV[1], "fleet", ARGV[2])
redis.call("EXPIRE", KEYS[1], ARGV[3])
return "ours"
