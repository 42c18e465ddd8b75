#!lua
-- Checks a call's limits and places its hold, or moves it: the rule of policies/spend.py, `place_hold`.
-- KEYS: state, holds, ended, then the counters that the hold counts in, the wallet's last, then others that are looked at.
-- ARGV: state id, call id, owner, end of the owner's lease in µs, the interrupted row, prompt in nano-USD, token in
-- pico-USD, cap in tokens, "1" where overage protection is on, "1" where the call's hold is to be moved, how many
-- counters it counts in, for each of them the seconds it lives after its last change (0: for ever), then for each limit
-- its kind, the index of its counter in KEYS, and the most.
-- Returns {"held", amount, cap}, {"denied", reason}, {"missing"}, {"ended"}, {"lease"}, or {"nothing"} where there is no
-- hold to move.
--
-- A hold that is moved is taken away first, so that the call is not counted against itself, and comes back if its next
-- attempt is denied. One that bears the same row was moved before.
--
-- Numbers are doubles here. The caller sends no amount beyond 2^53, and no product below passes it; what a counter has
-- beyond it is only compared.
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return {"missing"} end
local id, owner, lease_end, row = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local prompt, token, cap = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local is_protected, is_moved, counters = ARGV[9] == "1", ARGV[10] == "1", tonumber(ARGV[11])

local placed, placed_amount = redis.call("HGET", KEYS[2], id), nil
if placed then
  local amount, tokens, placed_row = string.match(placed, "^(%d+):(%d+):[^:]*:(.*)$")
  if not is_moved or placed_row == row then return {"held", amount, tokens} end
  placed_amount = amount
end
if redis.call("EXISTS", KEYS[3]) == 1 then return {"ended"} end
if is_moved and not placed then return {"nothing"} end
local time = redis.call("TIME")
if time[1] * 1000000 + time[2] >= lease_end then return {"lease"} end

local LARGEST = 9007199254740992  -- 2^53; the room in a wallet that has more counts as so much.
local function used(key)
  local found = redis.call("HMGET", key, "spent", "requests", "held", "in_flight")
  return tonumber(found[1] or 0), tonumber(found[2] or 0), tonumber(found[3] or 0), tonumber(found[4] or 0)
end

-- The whole part of a / b, exactly: the difference is a multiple of b.
local function divide(a, b) return (a - math.fmod(a, b)) / b end

-- Returns the room that the limits leave, nil where no limit is one of money; then why there is none.
local function find_room()
  local room
  for i = 12 + counters, #ARGV, 3 do
    local kind, most = ARGV[i], tonumber(ARGV[i + 2])
    local spent, requests, held, in_flight = used(KEYS[tonumber(ARGV[i + 1])])
    if kind == "request_cap" then
      if requests + in_flight >= most then return nil, kind end
    else
      if spent + (is_protected and 0 or held) >= most then return nil, kind end
      local left = math.min(most - spent, LARGEST) - held
      room = math.min(room or left, left)
    end
  end
  return room
end

-- Lowers the cap to what fits into the room; returns why it does not.
local function lower_cap(room)
  room = room - prompt
  if room < 0 then return "budget_of_prompt" end
  if token > 0 then
    -- room × 1000 / token digit by digit, until it is known to be no less than the cap.
    local tokens, rest = divide(room, token), math.fmod(room, token)
    for _ = 1, 3 do
      if tokens >= cap then break end
      tokens = tokens * 10 + divide(rest * 10, token)
      rest = math.fmod(rest * 10, token)
    end
    if tokens < 1 then return "budget" end
    cap = math.min(cap, tokens)
  end
end

local function count(sign, amount)
  for i = 1, counters do
    redis.call("HINCRBY", KEYS[3 + i], "held", amount == "0" and "0" or sign .. amount)
    redis.call("HINCRBY", KEYS[3 + i], "in_flight", sign .. "1")
  end
end

if placed then count("-", placed_amount) end
local room, reason = find_room()
if is_protected and room then reason = lower_cap(room) end
if reason then
  if placed then count("", placed_amount) end
  return {"denied", reason}
end

local amount = prompt
if is_protected then
  amount = amount + cap * divide(token, 1000) + math.ceil(cap * math.fmod(token, 1000) / 1000)
end
amount = string.format("%.0f", amount)
cap = string.format("%.0f", cap)
redis.call("HSET", KEYS[2], id, table.concat({amount, cap, owner, row}, ":"))
count("", amount)
for i = 1, counters do
  if ARGV[11 + i] ~= "0" then redis.call("EXPIRE", KEYS[3 + i], ARGV[11 + i]) end
end
return {"held", amount, cap}
