#!lua
-- Proves that Redis can be written, returns its state, and increases its pulse.
-- KEYS: the state of all, the ledger's id, the pulse.
-- Returns the state and the ledger's id (or nil), the epoch of the pulse, and its beat.
local state, ledger = unpack(redis.call("MGET", KEYS[1], KEYS[2]))
local beat = redis.call("HINCRBY", KEYS[3], "beat", 1)
return {state, ledger, redis.call("HGET", KEYS[3], "epoch") or "0", beat}
