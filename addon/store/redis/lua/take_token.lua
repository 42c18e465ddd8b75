#!lua
-- Takes one token of a workspace's bucket: the rule of policies/token_bucket.py, by Redis's clock.
-- KEYS: state, takes.  ARGV: state id, limit, window in µs, slice in µs, the most groups.
-- Returns {"taken"}, {"none", µs until a token is back} or {"missing"}.
--
-- A group is a member "total:count:began" whose score is the time of its last take. The total is padded, so that groups
-- with equal scores are sorted.
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return {"missing"} end
local limit, window = tonumber(ARGV[2]), tonumber(ARGV[3])
local slice, most_groups = tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call("TIME")
local now = time[1] * 1000000 + time[2]

local function text(number) return string.format("%.0f", number) end
local function parse(member)
  local total, count, began = string.match(member, "^(%d+):(%d+):(%d+)$")
  return tonumber(total), tonumber(count), tonumber(began)
end
local function put(total, count, began)
  redis.call("ZADD", KEYS[2], text(now), string.format("%015.0f:%.0f:%.0f", total, count, began))
end

-- The clock went back: takes in the future happened before now. Their tokens are back in a minute, not earlier.
local ahead = redis.call("ZRANGE", KEYS[2], "(" .. text(now), "+inf", "BYSCORE")
if #ahead > 0 then
  local total, count = parse(ahead[#ahead]), 0
  for _, member in ipairs(ahead) do
    local _, taken = parse(member)
    count = count + taken
  end
  redis.call("ZREMRANGEBYSCORE", KEYS[2], "(" .. text(now), "+inf")
  put(total, count, now)
end

local oldest = redis.call("ZRANGE", KEYS[2], "(" .. text(now - window), "+inf", "BYSCORE", "LIMIT", 0, 1)[1]
local newest = redis.call("ZRANGE", KEYS[2], -1, -1)[1]
local total, count, began = 0, 0, now
if oldest then
  local first_total, first_count = parse(oldest)
  total, count, began = parse(newest)
  if total - first_total + first_count >= limit then
    -- A token is back with the first group that is followed by fewer takes than the limit.
    for _, member in ipairs(redis.call("ZRANGE", KEYS[2], "(" .. text(now - window), "+inf", "BYSCORE")) do
      if parse(member) > total - limit then
        return {"none", text(redis.call("ZSCORE", KEYS[2], member) + window - now)}
      end
    end
  end
end

redis.call("ZREMRANGEBYSCORE", KEYS[2], "-inf", text(now - window))
if oldest and (now - began < slice or redis.call("ZCARD", KEYS[2]) >= most_groups) then
  redis.call("ZREM", KEYS[2], newest)
  put(total + 1, count + 1, began)
else
  put(total + 1, 1, now)
end
redis.call("PEXPIRE", KEYS[2], text(window / 1000 + 1000))
return {"taken"}
