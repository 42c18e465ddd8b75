#!lua flags=allow-oom
-- Removes entries of an outbox that the ledger has.
-- KEYS: outbox.  ARGV: the consumer group, then the ids of the entries.  Returns "done".
redis.call("XACK", KEYS[1], unpack(ARGV))
redis.call("XDEL", KEYS[1], unpack(ARGV, 2))
return "done"
