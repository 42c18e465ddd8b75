#!lua
-- Takes some counts of refused calls out of the hash, and keeps them as a batch until the ledger has them. While there
-- is such a batch, returns that one.
-- KEYS: refusals, the batch.  ARGV: the id of a new batch, the most groups in it.
-- Returns the id of the batch, then its groups and counts in turn; an empty id if there are none.
local taken = redis.call("HGETALL", KEYS[2])
if #taken > 0 then
  local answer = { "" }
  for place = 1, #taken, 2 do
    if taken[place] == "id" then
      answer[1] = taken[place + 1]
    else
      answer[#answer + 1] = taken[place]
      answer[#answer + 1] = taken[place + 1]
    end
  end
  return answer
end
local found = redis.call("HRANDFIELD", KEYS[1], ARGV[2], "WITHVALUES")
if #found == 0 then return { "" } end
redis.call("HSET", KEYS[2], "id", ARGV[1], unpack(found))
for place = 1, #found, 2 do redis.call("HDEL", KEYS[1], found[place]) end
table.insert(found, 1, ARGV[1])
return found
