#!lua
-- Takes one token of a workspace's bucket: the rule of policies/token_bucket.py, by Redis's clock.
-- KEYS: takes.  ARGV: limit, window in µs, slice in µs, the most groups.
-- Returns {"taken"} or {"none", µs until a token is back}.
--
-- The takes are a list of groups, the newest last: the total of all takes with it, its count, and the times of its first
-- and of its last take. They are packed, because to format and parse texts would cost as much as all commands.
local FORM = "<dddd"
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local slice, most_groups = tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call("TIME")
local now = time[1] * 1000000 + time[2]

local total, count, began, ended = 0, 0, now, 0
local newest = redis.call("LINDEX", KEYS[1], -1)
if newest then total, count, began, ended = struct.unpack(FORM, newest) end

-- The clock went back: takes in the future happened before now. Their tokens are back in a minute, not earlier.
if ended > now then
  local groups, ahead = redis.call("LRANGE", KEYS[1], 0, -1), 0
  count, began = 0, now
  while ahead < #groups do
    local _, taken, _, at = struct.unpack(FORM, groups[#groups - ahead])
    if at <= now then break end
    count, ahead = count + taken, ahead + 1
  end
  redis.call("LTRIM", KEYS[1], 0, -ahead - 1)
  redis.call("RPUSH", KEYS[1], struct.pack(FORM, total, count, now, now))
end

local first_total, first_count, first_at
local oldest = newest and redis.call("LINDEX", KEYS[1], 0)
while oldest do
  local _
  first_total, first_count, _, first_at = struct.unpack(FORM, oldest)
  if first_at > now - window then break end
  redis.call("LPOP", KEYS[1])
  oldest = redis.call("LINDEX", KEYS[1], 0)
end
local groups = 0
if oldest then
  if total - first_total + first_count >= limit then
    -- A token is back with the first group that is followed by fewer takes than the limit: the oldest, unless the limit
    -- was lowered.
    if first_total > total - limit then return {"none", first_at + window - now} end
    for _, group in ipairs(redis.call("LRANGE", KEYS[1], 0, -1)) do
      local upto, _, _, at = struct.unpack(FORM, group)
      if upto > total - limit then return {"none", at + window - now} end
    end
  end
  groups = total - first_total + 1  -- At most: each group has a take.
  if groups >= most_groups then groups = redis.call("LLEN", KEYS[1]) end
else
  total, count, began = 0, 0, now
end

local is_same = oldest and now - began < slice
if is_same or groups >= most_groups then
  redis.call("LSET", KEYS[1], -1, struct.pack(FORM, total + 1, count + 1, began, now))
else
  redis.call("RPUSH", KEYS[1], struct.pack(FORM, total + 1, 1, now, now))
end
-- The takes are kept a second longer than they count, and a slice is shorter than that.
if not is_same then redis.call("PEXPIRE", KEYS[1], window / 1000 + 1000) end
return {"taken"}
