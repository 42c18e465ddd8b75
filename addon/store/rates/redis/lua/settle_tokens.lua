-- Replaces what a call took of buckets by what it used.
-- KEYS: buckets.  ARGV: window in ms, the most windows of a debt, the tokens used, then of each bucket: its limit, the
-- tokens taken, the end of its line then, the time of the take in ms.
local most_windows, used = tonumber(ARGV[2]), tonumber(ARGV[3])
for place, key in ipairs(KEYS) do
  local limit, taken = tonumber(ARGV[4 * place]), tonumber(ARGV[4 * place + 1])
  local line_end, taken_at = tonumber(ARGV[4 * place + 2]), tonumber(ARGV[4 * place + 3])
  local level, passed = read(key, limit)
  local more = (used - taken) * window
  if more >= 0 then
    level = math.min(level + more, math.max(level, most_windows * limit * window))
  elseif line_end <= passed + level and now - taken_at < window then
    local credit = math.min(-more, taken * window, math.max(0, line_end - passed))
    level, passed = level - credit, passed + credit
  end
  write(key, level, passed, limit)
end
return "settled"
