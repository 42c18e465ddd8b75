"""Which ``Host`` headers the console accepts, against DNS rebinding."""

import pytest

from addon.console.access.hosts import find_host_fault, split_port

KNOWN = {"gateway-7", "console.example.com"}

ACCEPTED = [
    *("127.0.0.1", "127.0.0.1:8081", "10.1.2.3:9", "0.0.0.0:8081"),
    *("[::1]", "[::1]:8081", "[fe80::1]:8081", "[::FFFF:127.0.0.1]:8081"),
    *("localhost", "localhost:8081", "LOCALHOST:8081", "localhost.", "localhost.:8081", " localhost "),
    *("gateway-7:8081", "GATEWAY-7", "console.example.com", "Console.Example.COM.:443"),
]
REFUSED = [
    *(
        "evil.example.com",
        "evil.example.com:8081",
        "localhost.evil.example.com",
        "127.0.0.1.evil.example.com",
    ),
    *("127.0.0.1.nip.io:8081", "notlocalhost", "console.example.com.evil.example.com", "example.com"),
    *("xconsole.example.com", "console.example.com..", "console.example.com@evil.example.com", "a.localhost"),
    *(
        "",
        ":8081",
        "localhost:",
        "localhost:x",
        "localhost:123456",
        "localhost:80:81",
        "127.0.0.1/",
        "127.0.0.1 x",
    ),
    *("127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1%00", "localhost\x00", "localhost,evil"),
    *("[::1", "::1", "[localhost]", "[127.0.0.1]", "[::1]evil", "[::1]:8081:9", "[fe80::1%25eth0]", "[:::]"),
    *("l\u00f6calhost", "loc\u0430lhost", "console.example.com\u3002"),
]


@pytest.mark.parametrize("host", ACCEPTED)
def test_an_address_and_a_known_name_are_accepted(host: str) -> None:
    assert find_host_fault([host], KNOWN) is None


@pytest.mark.parametrize("host", REFUSED)
def test_every_other_host_is_refused_without_its_name(host: str) -> None:
    fault = find_host_fault([host], KNOWN)
    assert fault is not None
    assert "evil" not in fault


def test_an_unknown_name_is_answered_with_the_key_that_allows_it() -> None:
    assert "[admin] console_hosts" in str(find_host_fault(["evil.example.com"], KNOWN))


@pytest.mark.parametrize("hosts", [[], ["localhost", "localhost"], ["localhost", "evil.example.com"]])
def test_no_host_and_two_hosts_are_refused(hosts: list[str]) -> None:
    assert find_host_fault(hosts, KNOWN) is not None


@pytest.mark.parametrize(
    ("host", "port"), [("a:81", "81"), ("[::1]:81", "81"), ("a", ""), ("[::81]", ""), ("10.0.0.1:443", "443")]
)
def test_the_port_of_a_host(host: str, port: str) -> None:
    assert split_port(host) == port
