#!lua flags=allow-oom
-- Removes a lease that ended, unless it was renewed in the meantime.
-- KEYS: leases.  ARGV: "owner workspace", the end that the caller saw.
if redis.call("ZSCORE", KEYS[1], ARGV[1]) == ARGV[2] then redis.call("ZREM", KEYS[1], ARGV[1]) end
return "done"
