"""How does a worker in Python lease, settle and extend, with nothing but its standard library?

    duly serve & python3 server/examples/worker.py
"""

import base64
import json
import os
import urllib.request
import uuid

API = os.environ.get("DULY_API", "http://127.0.0.1:7777")
ADMIN = os.environ.get("DULY_ADMIN", "http://127.0.0.1:7778")


def call(method, url, body=None, token=None):
    request = urllib.request.Request(url, method=method)
    request.add_header("Content-Type", "application/json")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(request, data, timeout=60) as response:
        text = response.read()
    return json.loads(text) if text else None


token = call("POST", f"{ADMIN}/token/shop?description=python")["token"]
queue = f"{API}/v1/shop/queues/python"
# The same key again means the same event, for a minute at least after its end: another run has
# another one.
key = f"close:{uuid.uuid4()}"
event = {"payload": {"order": 7}, "delay_ms": 200, "attempts": 5, "idempotency_key": key}
[pushed] = call("POST", f"{queue}/events", {"events": [event]}, token)
[leased] = call("POST", f"{queue}/leases", {"max": 1, "ttr_ms": 30_000, "wait_ms": 10_000}, token)
assert leased["id"] == pushed["id"]
payload = json.loads(base64.b64decode(leased["payload_base64"]))
assert payload == {"order": 7}, payload
lease = f"{API}/v1/shop/leases/{leased['token']}"
call("POST", f"{lease}/extend", {"ttr_ms": 60_000}, token)
call("POST", f"{lease}/settle", {"outcome": "ack"}, token)
print("closed order", payload["order"])
