#!lua flags=allow-oom
-- Renews an owner's leases, and returns the leases that have ended.
-- KEYS: leases, of "owner workspace" by the end of the lease in µs.
-- ARGV: owner, how long a lease is in µs, "all" or "ended", then the workspaces in which the owner has calls in flight.
-- Returns the end of the renewed leases, then the leases that ended (or all), each followed by its end.
local time = redis.call("TIME")
local now = time[1] * 1000000 + time[2]
local lease_end = string.format("%.0f", now + tonumber(ARGV[2]))
for i = 4, #ARGV do redis.call("ZADD", KEYS[1], lease_end, ARGV[1] .. " " .. ARGV[i]) end
local upto = ARGV[3] == "all" and "+inf" or string.format("%.0f", now)
local found = redis.call("ZRANGE", KEYS[1], "-inf", upto, "BYSCORE", "WITHSCORES")
table.insert(found, 1, lease_end)
return found
