"""Both stores and a plain model of the rules: the second third of the random examples."""

from rig.redis_server import RedisServer
from rig.store_comparison import compare_stores


def test_both_stores_and_the_model_agree_in_every_order_of_events(redis_server: RedisServer) -> None:
    compare_stores(redis_server)
