"""The URLs of one Redis, of Sentinels and of a cluster."""

import pytest
from pydantic import SecretStr
from redis.asyncio.connection import parse_url

from addon.settings.redis_topology import Address, RedisTopology, parse_redis_topology
from addon.settings.redis_url import has_bare_password, hide_credentials

PASSWORD = "obviously-fake-password"


def parse(url: str) -> RedisTopology:
    return parse_redis_topology(SecretStr(url))


def options(url: SecretStr) -> dict[str, object]:
    """Return what redis-py makes of the URL of one node."""
    found: dict[str, object] = dict(parse_url(url.get_secret_value()))
    kind = found.pop("connection_class", None)
    return found | ({"tls": True} if kind else {})


@pytest.mark.parametrize("url", ["redis://:word@h:1/2?ssl=x", "rediss://h", "unix:///run/redis.sock?db=1"])
def test_one_server_keeps_its_url(url: str) -> None:
    found = parse(url)
    assert (found.kind, len(found.addresses)) == ("alone", 1)
    assert found.node_url(found.addresses[0]).get_secret_value() == url


def test_sentinels_have_their_own_user_and_the_server_has_the_one_of_the_url() -> None:
    found = parse(
        f"rediss+sentinel://gate%40way:{PASSWORD}%2F@s1,[::1]:5/tolls/2"
        "?sentinel_username=watch&sentinel_password=a%26b&ssl_ca_certs=/ca.pem"
    )
    assert (found.kind, found.service) == ("sentinel", "tolls")
    assert found.addresses == (Address("s1", 26379), Address("::1", 5))
    assert options(found.node_url(Address("10.0.0.1", 6380))) == {
        **{"host": "10.0.0.1", "port": 6380, "db": 2, "tls": True, "ssl_ca_certs": "/ca.pem"},
        **{"username": "gate@way", "password": f"{PASSWORD}/"},
    }
    assert options(found.sentinel_url(found.addresses[1])) == {
        **{"host": "::1", "port": 5, "tls": True, "ssl_ca_certs": "/ca.pem"},
        **{"username": "watch", "password": "a&b"},
    }
    assert hide_credentials(found.url.get_secret_value()) == "rediss+sentinel://s1:26379,[::1]:5/tolls/2"


@pytest.mark.parametrize("path", ["", "/", "/0"])
def test_all_nodes_of_a_cluster_have_the_user_of_the_url(path: str) -> None:
    found = parse(f"redis+cluster://:{PASSWORD}@n1:7000,n2{path}")
    assert (found.kind, found.addresses) == ("cluster", (Address("n1", 7000), Address("n2", 6379)))
    expected = {"host": "n9", "port": 1, "db": 0, "password": PASSWORD}
    assert options(found.node_url(Address("n9", 1))) == expected
    assert found.shown == "redis+cluster://n1:7000,n2:6379"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (
            f"http://:{PASSWORD}@h",
            "must begin with redis://, rediss://, unix://, redis.sentinel://, .* or rediss",
        ),
        (PASSWORD, "must begin with"),
        (f"redis+sentinel://:{PASSWORD}@h:1", "service: its name must follow the addresses"),
        (f"redis+sentinel://:{PASSWORD}@h:1/", "service: "),
        (f"redis+sentinel://:{PASSWORD}@h:1/tolls/{PASSWORD}", "database: must be a number"),
        (f"redis+sentinel://:{PASSWORD}@h:{PASSWORD}/tolls", "address 1: must be HOST or HOST:PORT"),
        (f"redis+sentinel://:{PASSWORD}@h:1,/tolls", "address 2: must be HOST or HOST:PORT"),
        (f"redis+sentinel://:{PASSWORD}@::1/tolls", "address 1: .* IPv6"),
        (f"redis+sentinel://:{PASSWORD}@h,h:0/tolls", "address 2: the port must be from 1 to 65535"),
        (f"redis+cluster://:{PASSWORD}@h,h:65536", "address 2: the port"),
        (f"redis+cluster://:{PASSWORD}@h,h:6379", "addresses: one is there twice"),
        (f"redis+cluster://:{PASSWORD}@", "address 1: "),
        (f"redis+cluster://:{PASSWORD}@h/1", "database: a cluster has only database 0"),
        (f"redis+cluster://:{PASSWORD}@h?{PASSWORD}=1", "options: 1 of them are unknown"),
        (f"redis+cluster://h?sentinel_password={PASSWORD}", r"options: .* need redis\+sentinel://"),
        (f"redis+cluster://:a/{PASSWORD}@h", "user and password: write"),
        (f"redis+cluster://:a?{PASSWORD}@h", "user and password: write"),
        (f"redis+cluster://:a#{PASSWORD}@h", "user and password: write"),
        (f"redis+cluster://:a@{PASSWORD}@h", "user and password: write"),
    ],
)
def test_a_wrong_url_is_refused_by_the_name_of_its_field(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}") as refused:
        parse(url)
    assert PASSWORD not in str(refused.value)


def test_nothing_that_is_printed_has_a_password() -> None:
    found = parse(f"redis+sentinel://me:{PASSWORD}@h/tolls?sentinel_password={PASSWORD}")
    assert PASSWORD not in repr(found)
    assert PASSWORD not in found.shown
    assert hide_credentials(f"redis+cluster://:a/{PASSWORD}@h") == "a URL that is not shown"


@pytest.mark.parametrize(
    ("url", "has_password"),
    [
        (f"redis+sentinel://me:{PASSWORD}@[::1],[::2]/tolls", True),
        (f"redis+sentinel://h/tolls?sentinel_password={PASSWORD}", True),
        ("redis+cluster://me@h", False),
        (f"redis+cluster://:{PASSWORD}@h", True),
    ],
)
def test_a_password_in_the_url_is_found(url: str, has_password: bool) -> None:
    assert has_bare_password(SecretStr(url)) is has_password
