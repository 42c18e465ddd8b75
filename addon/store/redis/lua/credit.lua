#!lua
-- Puts money into a wallet. Each entry counts once.
-- KEYS: state, ids of the entries, outbox, the wallet's counter.
-- ARGV: state id, entry id, negated amount, the entry for the outbox.  Returns "new", "known" or "missing".
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return "missing" end
if redis.call("SADD", KEYS[2], ARGV[2]) == 0 then return "known" end
redis.call("HINCRBY", KEYS[4], "spent", ARGV[3])
redis.call("XADD", KEYS[3], "*", "entry", ARGV[4])
return "new"
