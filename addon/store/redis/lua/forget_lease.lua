#!lua flags=allow-oom
-- Forgets a lease that ended, unless it was renewed meanwhile.
-- KEYS: leases.  ARGV: "owner workspace", the end that was seen.
if redis.call("ZSCORE", KEYS[1], ARGV[1]) == ARGV[2] then redis.call("ZREM", KEYS[1], ARGV[1]) end
return "done"
