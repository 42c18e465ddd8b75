#!lua
-- Buckets of tokens a minute, by Redis's clock: what take_tokens.lua and settle_tokens.lua begin with.
-- ARGV: window in ms, then their own.  The rule is in policies/token_rate.py.
--
-- A bucket is packed: its level, what has passed, and the time in ms.
local FORM = "<ddd"
local window = tonumber(ARGV[1])
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Returns the level of a bucket now, and what has passed.
local function read(key, limit)
  local packed = redis.call("GET", key)
  if not packed then return 0, 0 end
  local level, passed, at = struct.unpack(FORM, packed)
  local elapsed = math.max(0, now - at)
  local drained = math.min(level, elapsed * limit)
  if drained == level and elapsed >= window then return 0, 0 end
  return level - drained, passed + drained
end

-- A bucket is kept until it has been empty for a window, and a second longer.
local function write(key, level, passed, limit)
  local kept = math.ceil(level / limit) + window + 1000
  redis.call("SET", key, struct.pack(FORM, level, passed, now), "PX", string.format("%.0f", kept))
end
