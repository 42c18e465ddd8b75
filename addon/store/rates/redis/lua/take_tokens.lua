-- Takes tokens of one or more buckets, or of none.
-- KEYS: buckets.  ARGV: window in ms, tokens, then the limit of each bucket. The tokens are at most each limit.
-- Returns {"taken", now in ms, the end of each line} or {"none", place of the bucket that has room last, ms until then}.
local tokens = tonumber(ARGV[2])
local buckets, last, longest = {}, 0, 0
for place, key in ipairs(KEYS) do
  local limit = tonumber(ARGV[2 + place])
  local level, passed = read(key, limit)
  local wait = math.ceil((level - (limit - tokens) * window) / limit)
  if wait > longest then last, longest = place, wait end
  buckets[place] = {level + tokens * window, passed, limit}
end
if last > 0 then return {"none", last, longest} end

local answer = {"taken", now}
for place, key in ipairs(KEYS) do
  local level, passed, limit = unpack(buckets[place])
  write(key, level, passed, limit)
  answer[2 + place] = level + passed
end
return answer
