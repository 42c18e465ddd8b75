"""The takes of a workspace in Redis, moved in time, so that no clock has to change."""

import redis

from addon.store.rates.redis.keys import takes_of

_MOVE = """
for at, group in ipairs(redis.call("LRANGE", KEYS[1], 0, -1)) do
  local total, count, began, ended = struct.unpack("<dddd", group)
  redis.call("LSET", KEYS[1], at - 1, struct.pack("<dddd", total, count, began + ARGV[1], ended + ARGV[1]))
end
"""
_FILL = """
local time = redis.call("TIME")
local now = time[1] * 1000000 + time[2]
redis.call("DEL", KEYS[1])
for group = 0, ARGV[1] - 1 do
  local at = now - 59000000 + group * ARGV[2]
  redis.call("RPUSH", KEYS[1], struct.pack("<dddd", 1e11 + group * 250, 250, at, at))
end
"""


def move_takes(client: redis.Redis, workspace: str, by_us: int) -> None:
    """Move all takes by ``by_us``, as if Redis's clock had moved the other way."""
    client.eval(_MOVE, 1, takes_of(workspace), by_us)


def fill_takes(client: redis.Redis, workspace: str, groups: int, every_us: int) -> None:
    """Fill a bucket with ``groups`` of takes that began 59 s ago, one after the other."""
    client.eval(_FILL, 1, takes_of(workspace), groups, every_us)
