"""Requests that have the key of their client in a wrong place."""

import json
from typing import Any
from urllib.parse import quote

from rig.canary_scene import CHAT, KEYS, PROMPT, STRANGER

KEY = KEYS["solo"]
ITS_KEY = {"client key solo"}


SAID: dict[str, dict[str, Any]] = {
    "user": {"user": KEY},
    "a part of user": {"user": f"me:{KEY}"},
    "model": {"model": KEY},
    "model at a provider": {"model": f"alpha/{KEY}"},
    "role": {"messages": [{"role": KEY, "content": PROMPT}]},
    "name": {"messages": [{"role": "user", "name": KEY, "content": PROMPT}]},
    "content's type": {"messages": [{"role": "user", "content": [{"type": KEY, "text": PROMPT}]}]},
    "message's field": {"messages": [{"role": "user", "content": PROMPT, KEY: KEY}]},
    "field": {KEY: KEY},
    "stop": {"stop": [KEY]},
    "temperature": {"temperature": KEY},
    "n": {"n": KEY},
    "tool": {"tools": [{"type": "function", "function": {"name": KEY, "parameters": {KEY: KEY}}}]},
    "tool's type": {"tools": [{"type": KEY}]},
    "tool choice": {"tool_choice": KEY},
    "response format": {"response_format": {"type": KEY}},
    "logit bias": {"logit_bias": {KEY: KEY}},
    "effort": {"reasoning_effort": KEY},
}


SAID_IN: dict[str, dict[str, dict[str, Any]]] = {
    "messages": {
        "user": {"metadata": {"user_id": KEY}},
        "metadata": {"metadata": {KEY: KEY}},
        "model": {"model": KEY},
        "role": {"messages": [{"role": KEY, "content": PROMPT}]},
        "block's type": {"messages": [{"role": "user", "content": [{"type": KEY, "text": PROMPT}]}]},
        "field": {KEY: KEY},
        "stop": {"stop_sequences": [KEY]},
        "tool": {"tools": [{"name": KEY, "input_schema": {KEY: KEY}}]},
        "tool's type": {"tools": [{"type": KEY, "name": "f"}]},
        "tool choice": {"tool_choice": {"type": "tool", "name": KEY}},
        "thinking": {"thinking": {"type": KEY}},
        "effort": {"output_config": {"effort": KEY}},
        "format": {"output_config": {"format": {"type": KEY}}},
        "tier": {"service_tier": KEY},
        "edit": {"context_management": {"edits": [{"type": KEY}]}},
        "signature": {
            "messages": [
                {"role": "user", "content": PROMPT},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": KEY, "signature": KEY}]},
                {"role": "user", "content": PROMPT},
            ]
        },
    },
    "responses": {
        "user": {"user": KEY, "safety_identifier": KEY, "prompt_cache_key": KEY},
        "metadata": {"metadata": {"a": KEY}, "client_metadata": {KEY: KEY}},
        "model": {"model": KEY},
        "role": {"input": [{"role": KEY, "content": PROMPT}]},
        "item's type": {"input": [{"role": "user", "content": PROMPT}, {"type": KEY}]},
        "part's type": {"input": [{"role": "user", "content": [{"type": KEY, "text": PROMPT}]}]},
        "field": {KEY: KEY},
        "include": {"include": [KEY]},
        "tool": {"tools": [{"type": "function", "name": KEY, "parameters": {KEY: KEY}}]},
        "tool's type": {"tools": [{"type": KEY}]},
        "tool choice": {"tool_choice": {"type": "function", "name": KEY}},
        "effort": {"reasoning": {"effort": KEY, "summary": KEY}},
        "format": {"text": {"format": {"type": KEY}, "verbosity": KEY}},
        "tier": {"service_tier": KEY, "truncation": KEY},
        "conversation": {"previous_response_id": KEY, "conversation": KEY},
        "call": {"input": [{"type": "function_call_output", "call_id": KEY, "output": PROMPT}]},
    },
}
"""The same in other APIs."""

RAW = {
    "query": f"POST {CHAT}?api_key={KEY} HTTP/1.1\r\nHost: h\r\n\r\n",
    "path": f"POST {CHAT}/{KEY} HTTP/1.1\r\nHost: h\r\n\r\n",
    "percent-encoded path": f"GET /{quote(KEY, safe='')} HTTP/1.1\r\nHost: h\r\n\r\n",
    "method": f"{KEY} {CHAT} HTTP/1.1\r\nHost: h\r\n\r\n",
    "version": f"POST {CHAT} {KEY}\r\nHost: h\r\n\r\n",
    "first line": f"{KEY}\r\n\r\n",
    "no colon": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nBearer {KEY}\r\n\r\n",
    "header's name": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\n{KEY}: {KEY}\r\n\r\n",
    "bad header's name": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\n{KEY} : {KEY}\r\n\r\n",
    "host": f"POST {CHAT} HTTP/1.1\r\nHost: {KEY}\r\n\r\n",
    "URL": f"POST http://user:{KEY}@h{CHAT} HTTP/1.1\r\nHost: h\r\n\r\n",
    "CONNECT": f"CONNECT {KEY}:443 HTTP/1.1\r\nHost: h\r\n\r\n",
    "length": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nContent-Length: {KEY}\r\n\r\n",
    "transfer encoding": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: {KEY}\r\n\r\n",
    "basic": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nAuthorization: Basic {KEY}\r\n\r\n",
    "no scheme": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nAuthorization: {KEY}\r\n\r\n",
    "twice": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {KEY} {KEY}\r\n\r\n",
    "unknown": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {STRANGER}\r\n\r\n",
    "chunk": f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {KEY}\r\n"
    f"Transfer-Encoding: chunked\r\n\r\n{KEY}\r\n",
    "no HTTP/1": f"PRI * HTTP/2.0\r\n\r\n{KEY}\r\n\r\n",
}
AUTHORIZED = [("Authorization", f"Bearer {KEY}")]
JSON = ("Content-Type", "application/json")
BODIES = {
    "no JSON": ([*AUTHORIZED, JSON], KEY.encode()),
    "no whole JSON": ([*AUTHORIZED, JSON], b'{"model": "%s' % KEY.encode()),
    "a text": ([*AUTHORIZED, JSON], json.dumps(KEY).encode()),
    "twice": ([*AUTHORIZED, JSON], b'{"%(key)s": 1, "%(key)s": 2}' % {b"key": KEY.encode()}),
    "content type": ([*AUTHORIZED, ("Content-Type", KEY)], b"{}"),
    "content encoding": ([*AUTHORIZED, JSON, ("Content-Encoding", KEY)], b"{}"),
    "expect": ([*AUTHORIZED, JSON, ("Expect", KEY)], b"{}"),
}
