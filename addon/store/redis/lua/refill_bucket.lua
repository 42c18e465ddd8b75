#!lua
-- Starts a lost bucket with the calls of the last minute, so that its limit still holds. Their tokens are back a minute
-- from now.
-- KEYS: takes.  ARGV: how many calls, window in µs.
if redis.call("EXISTS", KEYS[1]) == 0 and ARGV[1] ~= "0" then
  local time = redis.call("TIME")
  local now = string.format("%.0f", time[1] * 1000000 + time[2])
  redis.call("ZADD", KEYS[1], now, string.format("%015.0f:%s:%s", ARGV[1], ARGV[1], now))
  redis.call("PEXPIRE", KEYS[1], string.format("%.0f", ARGV[2] / 1000 + 1000))
end
return "done"
