#!lua flags=allow-oom
-- Reads the circuits, or one of them.
-- KEYS: circuits.  ARGV: the name of one, or nothing for all.
-- Returns Redis's time, and the value of the one (or nil), or all names and values in turn.
if ARGV[1] then return {redis.call("TIME"), redis.call("HGET", KEYS[1], ARGV[1])} end
return {redis.call("TIME"), redis.call("HGETALL", KEYS[1])}
