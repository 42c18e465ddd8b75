"""The console's calls of a real gateway: the same rows as ``tollgate usage``."""

import json

import httpx
from rig.bounds import BOUND_S
from rig.commands import tollgate
from rig.gateway import Gateway


def test_the_calls_of_the_console_are_those_of_usage(gateway: Gateway) -> None:
    chat = {"model": "tester-large", "messages": [{"role": "user", "content": "hello"}], "user": "<b>ann</b>"}
    made = set()
    with httpx.Client(base_url=gateway.url, timeout=BOUND_S, trust_env=False) as client:
        for _ in range(3):
            headers = {"Authorization": f"Bearer {gateway.keys['ci']}"}
            answer = client.post("/v1/chat/completions", json=chat, headers=headers)
            assert answer.status_code == 200
            made.add(answer.headers["X-Request-Id"])
    gateway.wait_until(lambda: made <= {row["id"] for row in gateway.ledger_rows()})
    shown = json.loads(tollgate(gateway.folder, "usage", "--json", "--limit", "500", "--since", "1d").stdout)
    with httpx.Client(base_url=gateway.admin_url, timeout=BOUND_S, trust_env=False) as console:
        calls = console.get("/api/v1/calls?limit=500").json()
        assert calls["calls"] == shown["recent"]
        assert made <= {row["id"] for row in calls["calls"]}
        for call_id in made:
            one = console.get(f"/api/v1/calls/{call_id}").json()
            assert one["call"] == [row for row in shown["recent"] if row["id"] == call_id]
            assert "&lt;b&gt;ann&lt;/b&gt;" in console.get(f"/calls/{call_id}").text.replace("<wbr/>", "")
        new = console.get(f"/api/v1/calls/new?written_after={calls['written_until']}").json()
        assert new["new_calls"] == 0
        assert console.get("/calls/none").status_code == 404
