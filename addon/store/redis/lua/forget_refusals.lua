#!lua flags=allow-oom
-- Removes a batch of counts that the ledger has.
-- KEYS: the batch.  ARGV: its id.  Returns "done".
if redis.call("HGET", KEYS[1], "id") == ARGV[1] then redis.call("DEL", KEYS[1]) end
return "done"
