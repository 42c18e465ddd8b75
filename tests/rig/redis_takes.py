"""The takes of workspaces and their buckets in Redis, moved in time, so that no clock has to change."""

import struct
from collections.abc import Mapping

import redis

from addon.store.rates.redis.keys import takes_of
from policies.token_rate import Bucket

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


_BUCKETS = "tollgate:{*}:tpm:*"


def read_buckets(client: redis.Redis) -> Mapping[str, Bucket]:
    """Return the buckets of tokens a minute by their scope."""
    found = {}
    for key in client.scan_iter(_BUCKETS):
        packed = client.eval('return {string.byte(redis.call("GET", KEYS[1]) or "", 1, -1)}', 1, key)
        if not packed:
            continue  # It was over just now.
        level, passed, at_ms = struct.unpack("<ddd", bytes(packed))
        found[key.partition(":tpm:")[2]] = Bucket(int(level), int(passed), int(at_ms))
    return found


_MOVE_BUCKET = """
local left = redis.call("PTTL", KEYS[1]) + ARGV[1]
if left <= 0 then return redis.call("DEL", KEYS[1]) end
local level, passed, at = struct.unpack("<ddd", redis.call("GET", KEYS[1]))
redis.call("SET", KEYS[1], struct.pack("<ddd", level, passed, at + ARGV[1]), "PX", string.format("%.0f", left))
"""
_MOVE_INDEX = """
for _, key in ipairs(redis.call("ZRANGE", KEYS[1], 0, -1)) do redis.call("ZINCRBY", KEYS[1], ARGV[1], key) end
"""


def move_buckets(client: redis.Redis, by_ms: int) -> None:
    """Move all buckets of tokens a minute by ``by_ms``, as if Redis's clock had moved the other way."""
    for key in client.scan_iter(_BUCKETS):
        client.eval(_MOVE_BUCKET, 1, key, by_ms)
    for key in client.scan_iter("tollgate:{*}:values:*"):
        client.eval(_MOVE_INDEX, 1, key, by_ms)
