#!lua
-- Checks the limits of a call, then places or moves its hold. The rule is `place_hold` in policies/spend.py.
-- KEYS: state, holds, ended, the counters that the hold adds to (the wallet's last), then other counters to check.
-- ARGV: state id, call id, owner, end of the owner's lease in µs, the interrupted row, prompt in nano-USD, token in
-- pico-USD, cap in tokens, "1" if overage protection is on, "1" if the client named a cap, the most room, the smallest
-- share in tokens, "1" if the call's hold is to be moved, how many counters the hold adds to, for each of them how many
-- seconds it is kept after its last change (0: forever), then for each limit its kind, the index of its counter in KEYS,
-- and its value.
-- Returns one of:
--   {"held", amount, cap}
--   {"denied", reason, number of the limit from 1, calls in flight that cause it or 0, the amount that they hold}
--   {"missing"}  the workspace has no state, or another one
--   {"ended"}    the call has ended
--   {"lease"}    the owner's lease has ended
--   {"nothing"}  there is no hold to move
--
-- To move a hold, the script removes it first, so that the call does not count against itself, and puts it back if the
-- next attempt is denied. A hold with the same row was already moved.
--
-- Numbers are doubles here. The caller sends no amount beyond 2^53, and no product below exceeds it. A counter may exceed
-- it, but is only compared.
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return {"missing"} end
local id, owner, lease_end, row = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local prompt, token, cap = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local is_protected, names_cap = ARGV[9] == "1", ARGV[10] == "1"
local max_room, min_share = tonumber(ARGV[11]), tonumber(ARGV[12])
local is_moved, counters = ARGV[13] == "1", tonumber(ARGV[14])
local first_limit = 15 + counters

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

local function used(key)
  local found = redis.call("HMGET", key, "spent", "requests", "held", "in_flight")
  return tonumber(found[1] or 0), tonumber(found[2] or 0), tonumber(found[3] or 0), tonumber(found[4] or 0)
end

-- The whole part of a / b, exactly: the difference is a multiple of b.
local function divide(a, b) return (a - math.fmod(a, b)) / b end

local function text(number) return string.format("%.0f", number) end

-- Returns how many tokens an amount pays for beyond the prompt, but at most `enough`.
local function tokens_within(amount, enough)
  amount = amount - prompt
  if amount < 0 then return -1 end
  if token == 0 then return enough end
  -- amount × 1000 / token digit by digit, until it is enough.
  local tokens, rest = divide(amount, token), math.fmod(amount, token)
  for _ = 1, 3 do
    if tokens >= enough then break end
    tokens = tokens * 10 + divide(rest * 10, token)
    rest = math.fmod(rest * 10, token)
  end
  return math.min(tokens, enough)
end

local function find_shortage(amount)
  if amount < prompt then return "budget_of_prompt" end
  if tokens_within(amount, 1) < 1 then return "budget" end
end

-- Checks each limit in turn. Returns a denial, or nil and the room. Without a limit on money the room is nil.
local function check_limits()
  local left, unspent  -- The smallest amounts, each with its limit.
  for i = first_limit, #ARGV, 3 do
    local kind, most, number = ARGV[i], tonumber(ARGV[i + 2]), (i - first_limit) / 3 + 1
    local spent, requests, held, in_flight = used(KEYS[tonumber(ARGV[i + 1])])
    if kind == "request_cap" then
      if requests + in_flight >= most then return {kind, number, 0, 0} end
    else
      if spent >= most then return {kind, number, 0, 0} end
      if not is_protected and spent + held >= most then return {kind, number, in_flight, held} end
      local amount = math.min(most - spent, max_room)
      if not unspent or amount < unspent.amount then unspent = {amount = amount, number = number} end
      if not left or amount - held < left.amount then
        left = {amount = amount - held, number = number, in_flight = in_flight, held = held}
      end
    end
  end
  if not left or not is_protected then return nil, left and left.amount end
  local reason = find_shortage(left.amount)
  if not reason then return nil, left.amount end
  if find_shortage(unspent.amount) then return {reason, unspent.number, 0, 0} end
  return {reason, left.number, left.in_flight, left.held}
end

-- Lowers the cap to what fits into the room, and to a share of it if the client named no cap.
local function lower_cap(room)
  local share = cap
  if not names_cap and token > 0 then
    share = math.max(tokens_within(divide(room, 4), cap), math.min(min_share, cap))
  end
  cap = math.min(tokens_within(room, cap), share)
end

local function count(sign, amount)
  for i = 1, counters do
    redis.call("HINCRBY", KEYS[3 + i], "held", amount == "0" and "0" or sign .. amount)
    redis.call("HINCRBY", KEYS[3 + i], "in_flight", sign .. "1")
  end
end

if placed then count("-", placed_amount) end
local denial, room = check_limits()
if denial then
  if placed then count("", placed_amount) end
  return {"denied", denial[1], text(denial[2]), text(denial[3]), text(denial[4])}
end
if is_protected and room then lower_cap(room) end

local amount = prompt
if is_protected then
  amount = amount + cap * divide(token, 1000) + math.ceil(cap * math.fmod(token, 1000) / 1000)
end
amount = string.format("%.0f", amount)
cap = string.format("%.0f", cap)
redis.call("HSET", KEYS[2], id, table.concat({amount, cap, owner, row}, ":"))
count("", amount)
for i = 1, counters do
  if ARGV[14 + i] ~= "0" then redis.call("EXPIRE", KEYS[3 + i], ARGV[14 + i]) end
end
return {"held", amount, cap}
