#!lua
-- Changes a circuit, unless another process changed it since it was read.
-- KEYS: circuits.  ARGV: its name, the value that was read ("": none), the new value ("": none), how many seconds all
-- circuits are kept from now on.  Returns "done" or "other".
if (redis.call("HGET", KEYS[1], ARGV[1]) or "") ~= ARGV[2] then return "other" end
if ARGV[3] == "" then redis.call("HDEL", KEYS[1], ARGV[1]) else redis.call("HSET", KEYS[1], ARGV[1], ARGV[3]) end
redis.call("EXPIRE", KEYS[1], ARGV[4])
return "done"
