-- Replaces what a call took of buckets by what it used.
-- KEYS, ARGV: as above, then of each bucket its limit, 1 for that of a value, what was used, what was taken, the end of
-- its line then, the time of the take in ms.
for place = 1, (#ARGV - 4) / 6 do
  local limit, used, taken = tonumber(ARGV[6 * place - 1]), tonumber(ARGV[6 * place + 1]), tonumber(ARGV[6 * place + 2])
  local line_end, taken_at = tonumber(ARGV[6 * place + 3]), tonumber(ARGV[6 * place + 4])
  local key, index = find(ARGV[6 * place] == "1")
  local level, passed = read(key, limit)
  local more = (used - taken) * window
  if more >= 0 then
    level = math.min(level + more, math.max(level, most_windows * limit * window))
  elseif line_end <= passed + level and now - taken_at < window then
    local credit = math.min(-more, taken * window, math.max(0, line_end - passed))
    level, passed = level - credit, passed + credit
  end
  write(key, level, passed, limit, index)
end
return "settled"
