"""The rules of a pool of workers: when one that died is started again."""

from addon.serve.worker_pool import LONGEST_DELAY_S, restart_delay_s


def test_a_worker_that_keeps_dying_is_restarted_less_and_less_often() -> None:
    delays = [restart_delay_s(deaths) for deaths in range(200)]
    assert delays == sorted(delays)
    assert (delays[0], delays[-1]) == (0.1, LONGEST_DELAY_S)
