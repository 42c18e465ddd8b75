#!lua
-- Changes a circuit, unless somebody else did since it was read.
-- KEYS: circuits.  ARGV: its name, as it was read ("": it was not there), as it shall be ("": not there), how long all of
-- them are kept from now on in s.  Returns "done" or "other".
if (redis.call("HGET", KEYS[1], ARGV[1]) or "") ~= ARGV[2] then return "other" end
if ARGV[3] == "" then redis.call("HDEL", KEYS[1], ARGV[1]) else redis.call("HSET", KEYS[1], ARGV[1], ARGV[3]) end
redis.call("EXPIRE", KEYS[1], ARGV[4])
return "done"
