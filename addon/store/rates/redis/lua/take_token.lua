#!lua
-- Takes one token of a workspace's bucket: the rule of policies/token_bucket.py, by Redis's clock.
-- KEYS: takes.  ARGV: limit, window in µs, slice in µs, the most groups.
-- Returns {"taken"} or {"none", µs until a token is back}.
--
-- A group is a member "total:count:began" whose score is the time of its last take. The total is padded, so that groups
-- with equal scores are sorted.
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local slice, most_groups = tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call("TIME")
local now = time[1] * 1000000 + time[2]

local function text(number) return string.format("%.0f", number) end
local function parse(member)
  local total, count, began = string.match(member, "^(%d+):(%d+):(%d+)$")
  return tonumber(total), tonumber(count), tonumber(began)
end
local function put(total, count, began)
  redis.call("ZADD", KEYS[1], text(now), string.format("%015.0f:%.0f:%.0f", total, count, began))
end

-- The clock went back: takes in the future happened before now. Their tokens are back in a minute, not earlier.
local newest = redis.call("ZRANGE", KEYS[1], -1, -1, "WITHSCORES")
if newest[1] and tonumber(newest[2]) > now then
  local ahead = redis.call("ZRANGE", KEYS[1], "(" .. text(now), "+inf", "BYSCORE")
  local total, count = parse(ahead[#ahead]), 0
  for _, member in ipairs(ahead) do
    local _, taken = parse(member)
    count = count + taken
  end
  redis.call("ZREMRANGEBYSCORE", KEYS[1], "(" .. text(now), "+inf")
  put(total, count, now)
  newest = redis.call("ZRANGE", KEYS[1], -1, -1)
end

local oldest = redis.call("ZRANGE", KEYS[1], 0, 0, "WITHSCORES")
if oldest[1] and tonumber(oldest[2]) <= now - window then
  redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", text(now - window))
  oldest = redis.call("ZRANGE", KEYS[1], 0, 0, "WITHSCORES")
end
local total, count, began, groups = 0, 0, now, 0
if oldest[1] then
  local first_total, first_count = parse(oldest[1])
  total, count, began = parse(newest[1])
  if total - first_total + first_count >= limit then
    -- A token is back with the first group that is followed by fewer takes than the limit: the oldest, unless the limit
    -- was lowered.
    if first_total > total - limit then return {"none", text(oldest[2] + window - now)} end
    for _, member in ipairs(redis.call("ZRANGE", KEYS[1], 0, -1)) do
      if parse(member) > total - limit then
        return {"none", text(redis.call("ZSCORE", KEYS[1], member) + window - now)}
      end
    end
  end
  groups = total - first_total + 1  -- At most: each group has a take.
  if groups >= most_groups then groups = redis.call("ZCARD", KEYS[1]) end
end

if oldest[1] and (now - began < slice or groups >= most_groups) then
  redis.call("ZREM", KEYS[1], newest[1])
  put(total + 1, count + 1, began)
else
  put(total + 1, 1, now)
end
redis.call("PEXPIRE", KEYS[1], text(window / 1000 + 1000))
return {"taken"}
