#!lua
-- Returns why the state of a workspace is missing, and registers a workspace that is new.
-- KEYS: the state of all, workspaces.  ARGV: state id, workspace.
-- Returns "empty", "other", "lost", or "new" if it may be created.
local state = redis.call("GET", KEYS[1])
if not state then return "empty" end
if state ~= ARGV[1] then return "other" end
if redis.call("HSETNX", KEYS[2], ARGV[2], "new") == 1 or redis.call("HGET", KEYS[2], ARGV[2]) == "new" then
  return "new"
end
return "lost"
