#!lua flags=allow-oom
-- Ends a call: its hold becomes its cost, and its row goes to the outbox, once.
-- KEYS: state, holds, ended, outbox, then the counters of the call, the wallet's last.
-- ARGV: state id, call id, "settled" or "interrupted", cost, what the wallet pays, the entry for the outbox, how many
-- seconds an id is remembered, then for each counter how many seconds it is kept after its last change (0: forever).
-- Returns "done", "again" if the call had ended before, or "missing".
--
-- Allowed when memory is full: it frees memory, and a call that was sent must be recorded.
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return "missing" end
local id, outcome, cost, from_wallet, entry = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local hold = redis.call("HGET", KEYS[2], id)
local ended = redis.call("GET", KEYS[3])
if ended == "settled" then return "again" end
if outcome == "interrupted" and not hold then return "again" end

if hold then
  redis.call("HDEL", KEYS[2], id)
  local released = string.match(hold, "^[1-9]%d*")
  released = released and "-" .. released or "0"
  for i = 5, #KEYS do
    redis.call("HINCRBY", KEYS[i], "held", released)
    redis.call("HINCRBY", KEYS[i], "in_flight", -1)
  end
end
-- The call counted as interrupted but lived: its request was counted, its cost was not.
local calls = ended == "interrupted" and 0 or 1
for i = 5, #KEYS - 1 do
  redis.call("HINCRBY", KEYS[i], "spent", cost)
  redis.call("HINCRBY", KEYS[i], "requests", calls)
  if ARGV[i + 3] ~= "0" then redis.call("EXPIRE", KEYS[i], ARGV[i + 3]) end
end
if from_wallet ~= "0" then redis.call("HINCRBY", KEYS[#KEYS], "spent", from_wallet) end
redis.call("XADD", KEYS[4], "*", "booking", entry)
redis.call("SET", KEYS[3], outcome, "EX", ARGV[7])
return "done"
