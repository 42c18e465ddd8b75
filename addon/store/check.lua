#!lua
-- Proves that Redis can be written, as any script does that is not declared to only read; returns what the names hold.
-- KEYS: any.
return redis.call("MGET", unpack(KEYS))
