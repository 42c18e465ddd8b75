-- Takes of one or more buckets, or of none.
-- KEYS, ARGV: as above, then of each bucket its limit, 1 for that of a value, and the amount, which is at most the limit.
-- Returns {"taken", now in ms, of each bucket: 1 where it is the shared one, the end of its line} or
-- {"none", place of the bucket that has room last, 1 where it is the shared one, ms until then}.
local buckets, last, last_shared, longest = {}, 0, 0, 0
for place = 1, (#ARGV - 4) / 3 do
  local limit, amount = tonumber(ARGV[3 * place + 2]), tonumber(ARGV[3 * place + 4])
  local key, index, shared = find(ARGV[3 * place + 3] == "1")
  local level, passed = read(key, limit)
  local wait = math.ceil((level - (limit - amount) * window) / limit)
  if wait > longest then last, last_shared, longest = place, shared, wait end
  buckets[place] = {key, level + amount * window, passed, limit, index or false, shared}
end
if last > 0 then return {"none", last, last_shared, longest} end

local answer = {"taken", now}
for _, bucket in ipairs(buckets) do
  local key, level, passed, limit, index, shared = unpack(bucket)
  write(key, level, passed, limit, index)
  answer[#answer + 1] = shared
  answer[#answer + 1] = level + passed
end
return answer
