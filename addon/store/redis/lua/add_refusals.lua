#!lua
-- Adds counts of refused calls, unless this batch was added before.
-- KEYS: refusals, the mark of the batch.  ARGV: how many seconds the mark is kept, then groups and counts in turn.
-- Returns "done".
if redis.call("SET", KEYS[2], "1", "NX", "EX", ARGV[1]) then
  for place = 2, #ARGV, 2 do redis.call("HINCRBY", KEYS[1], ARGV[place], ARGV[place + 1]) end
end
return "done"
