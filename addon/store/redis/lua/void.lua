#!lua flags=allow-oom
-- Releases the hold of a call that was not sent, and prevents one that would be placed later.
-- KEYS: state, holds, ended, then the counters that the hold counts in.
-- ARGV: state id, call id, how many seconds an id is remembered.  Returns "done" or "missing".
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return "missing" end
redis.call("SET", KEYS[3], "voided", "NX", "EX", ARGV[3])
local hold = redis.call("HGET", KEYS[2], ARGV[2])
if hold then
  redis.call("HDEL", KEYS[2], ARGV[2])
  local released = string.match(hold, "^[1-9]%d*")
  released = released and "-" .. released or "0"
  for i = 4, #KEYS do
    redis.call("HINCRBY", KEYS[i], "held", released)
    redis.call("HINCRBY", KEYS[i], "in_flight", -1)
  end
end
return "done"
