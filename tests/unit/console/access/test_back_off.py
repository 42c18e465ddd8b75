"""How long attempts to log in must wait."""

import pytest

from addon.console.access.back_off import BURST, FORGET_S, LONGEST_WAIT_S, MAX_REMEMBERED, BackOff, network_of


def fail(back_off: BackOff, who: str, now_s: float, *, known: bool = False) -> float:
    """Try as soon as allowed, and fail. Return the time of the attempt."""
    now_s += back_off.wait_s(who, now_s, known=known)
    assert back_off.wait_s(who, now_s, known=known) == 0
    back_off.begin(who, now_s, known=known)
    return now_s


def test_the_wait_grows_with_each_failure_to_its_bound() -> None:
    back_off, waits, now_s = BackOff(), [], 1000.0
    for _ in range(12):
        now_s = fail(back_off, "a", now_s, known=True)
        waits.append(back_off.wait_s("a", now_s, known=True))
    assert waits[:6] == [0, 0, 1, 2, 4, 8]
    assert waits[-1] == LONGEST_WAIT_S


def test_attempts_at_the_same_time_count_each() -> None:
    back_off, tried = BackOff(), 0
    for _ in range(100):
        if back_off.wait_s("a", 1000.0, known=True) == 0:
            back_off.begin("a", 1000.0, known=True)
            tried += 1
    assert tried == 3


def test_a_success_forgets_the_failures_and_so_does_time() -> None:
    back_off = BackOff()
    for who in ("a", "b"):
        for _ in range(9):
            back_off.begin(who, 1000.0, known=True)
    back_off.succeed("a")
    assert back_off.wait_s("a", 1000.0, known=True) == 0
    later_s = 1000.0 + FORGET_S
    back_off.begin("b", later_s, known=True)
    assert back_off.wait_s("b", later_s, known=True) == 0


def test_many_addresses_together_are_slow_and_someone_known_does_not_wait_for_them() -> None:
    back_off, tried = BackOff(), 0
    for tenth in range(600):
        now_s = 1000.0 + tenth / 10
        if back_off.wait_s(f"10.0.0.{tenth}", now_s, known=False) == 0:
            back_off.begin(f"10.0.0.{tenth}", now_s, known=False)
            tried += 1
        assert back_off.wait_s("owner", now_s, known=True) == 0
    assert tried <= BURST + 60
    assert back_off.wait_s("owner", 1060.0, known=False) <= 1


def test_the_memory_is_bounded() -> None:
    back_off = BackOff()
    for number in range(MAX_REMEMBERED + 100):
        back_off.begin(f"{number}", 1000.0, known=True)
    assert len(back_off._failures) == MAX_REMEMBERED


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3::9", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("", ""),
    ],
)
def test_one_client_is_an_ipv4_address_or_an_ipv6_network(address: str, network: str) -> None:
    assert network_of(address) == network
