#!lua
-- Buckets of tokens and requests a minute, by Redis's clock: what take_tokens.lua and settle_tokens.lua begin with.
-- KEYS: of each limit its bucket; of a value of a budget also the bucket that it may have to share, and the index of
-- the budget's values.  ARGV: window in ms, how long an empty bucket is kept in ms, the most windows of a debt, the most
-- values of a budget, then their own.  The rule is in policies/token_rate.py.
--
-- A bucket is packed: its level, what has passed, and the time in ms. An index has the keys of buckets, by when each
-- is over in ms.
local FORM = "<ddd"
local window, kept_empty = tonumber(ARGV[1]), tonumber(ARGV[2])
local most_windows, most_values = tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Returns the key of the next limit's bucket, its index (nil without one), and 1 where the bucket is the shared one.
local next_key = 1
local function find(is_value)
  local key, shared, index = KEYS[next_key], KEYS[next_key + 1], KEYS[next_key + 2]
  next_key = next_key + (is_value and 3 or 1)
  if not is_value then return key, nil, 0 end
  redis.call("ZREMRANGEBYSCORE", index, "-inf", now)
  if redis.call("ZSCORE", index, key) or redis.call("ZCARD", index) < most_values then return key, index, 0 end
  return shared, nil, 1
end

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

-- A bucket is kept until it has been empty for a window, and a second longer. One that is as if there were none is not.
local function write(key, level, passed, limit, index)
  if level == 0 and passed == 0 then
    if index then redis.call("ZREM", index, key) end
    return redis.call("DEL", key)
  end
  local kept = math.ceil(level / limit) + kept_empty
  redis.call("SET", key, struct.pack(FORM, level, passed, now), "PX", string.format("%.0f", kept))
  if not index then return end
  redis.call("ZADD", index, string.format("%.0f", now + kept), key)
  -- A debt is the longest that any bucket is kept for.
  redis.call("PEXPIRE", index, string.format("%.0f", (most_windows + 1) * window + kept_empty))
end
