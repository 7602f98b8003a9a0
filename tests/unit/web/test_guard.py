"""The page refuses foreign names, foreign origins, and changes without the token."""

import asyncio
import json
from typing import Any

import pytest

from tidelog.web.app import Page
from tidelog.web.guard import Guard

TOKEN = "s3cret"
HOST = "127.0.0.1:8080"


@pytest.fixture
def guard() -> Guard:
    return Guard(8080, TOKEN)


@pytest.mark.parametrize("host", [HOST, "localhost:8080", "[::1]:8080", "LOCALHOST:8080"])
def test_loopback_names_are_served(guard: Guard, host: str) -> None:
    assert guard.refuses("GET", {"host": host}) is None


@pytest.mark.parametrize(
    "host", ["", "evil.example:8080", "127.0.0.1:8081", "127.0.0.1", "127.0.0.1.evil.example:8080"]
)
def test_another_name_is_not(guard: Guard, host: str) -> None:
    refusal = guard.refuses("GET", {"host": host} if host else {})
    assert refusal is not None and refusal.status == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:8080", "http://127.0.0.1:9999"])
def test_another_origin_is_not(guard: Guard, origin: str) -> None:
    headers = {"host": HOST, "origin": origin, "x-tidelog-token": TOKEN}
    for method in ("GET", "POST"):
        refusal = guard.refuses(method, headers)
        assert refusal is not None and refusal.status == 403


def test_a_page_elsewhere_may_link_here_and_read_nothing(guard: Guard) -> None:
    headers = {"host": HOST, "sec-fetch-site": "cross-site"}
    assert guard.refuses("GET", {**headers, "sec-fetch-mode": "navigate"}) is None
    refusal = guard.refuses("GET", {**headers, "sec-fetch-mode": "cors"})
    assert refusal is not None and refusal.status == 403


@pytest.mark.parametrize("token", [None, "", "S3CRET", TOKEN + "x", "ü"])
def test_a_button_wants_the_token(guard: Guard, token: str | None) -> None:
    headers = {"host": HOST, "origin": f"http://{HOST}"} | ({} if token is None else {"x-tidelog-token": token})
    refusal = guard.refuses("POST", headers)
    assert refusal is not None and refusal.status == 401
    assert guard.refuses("POST", {**headers, "x-tidelog-token": TOKEN}) is None


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_else_is_answered(guard: Guard, method: str) -> None:
    refusal = guard.refuses(method, {"host": HOST, "x-tidelog-token": TOKEN})
    assert refusal is not None and refusal.status == 405


def ask(method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """One request to a page without a cluster."""
    sent: list[Any] = []
    names = {"host": HOST, "x-tidelog-token": TOKEN, **{name.replace("_", "-"): each for name, each in headers.items()}}
    scope = {
        "type": "http",
        "method": method,
        "path": path.partition("?")[0],
        "query_string": path.partition("?")[2].encode(),
        "headers": [(name.encode(), value.encode()) for name, value in names.items()],
    }

    told = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        for message in told:
            return message
        # A browser that stays.
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    async def exchange() -> None:
        await Page(None).application(Guard(8080, TOKEN))(scope, receive, send)

    asyncio.run(exchange())
    head = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], head, b"".join(each.get("body", b"") for each in sent[1:])


def test_every_answer_keeps_others_out() -> None:
    for status, headers, _ in (ask("GET", "/"), ask("GET", "/", host="evil.example"), ask("GET", "/nothing")):
        assert headers["content-security-policy"].startswith("default-src 'none'"), status
        assert "'unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


def test_the_page_is_whole_and_needs_nothing_from_elsewhere() -> None:
    _, _, page = ask("GET", "/")
    assert b"//" not in page.replace(b"<!doctype", b"").replace(b"http-equiv", b"")
    for name in ("main.js", "state.js", "style.css", "rules.json", "icon.svg"):
        status, _, body = ask("GET", f"/static/{name}")
        assert status == 200 and body
    assert ask("GET", "/static/../app.py")[0] == 404


def test_without_a_cluster_there_is_nothing_to_press() -> None:
    assert ask("POST", "/api/command", b'{"command":"heal"}')[0] == 404
    assert ask("POST", "/api/command", b'{"command":"heal"}', x_tidelog_token="wrong")[0] == 401
    assert ask("GET", "/api/stream")[0] == 503


def test_a_file_without_a_trace_is_refused_in_a_line() -> None:
    assert ask("POST", "/api/trace", b"not json")[0] == 400
    status, _, body = ask("POST", "/api/trace", b'{"t":0,"source":"run","event":"seed","format":99}')
    assert status == 400 and b"format 99" in body
    assert ask("GET", "/api/trace/7/frame?step=1")[0] == 404


def test_the_page_learns_whether_its_token_is_right_and_which_topics_are_internal() -> None:
    right, wrong = (json.loads(ask("GET", "/api/about", x_tidelog_token=token)[2]) for token in (TOKEN, "wrong"))
    assert right["has_token"] is True and wrong["has_token"] is False
    assert "__consumer_offsets" in right["internal_topics"] and "orders" not in right["internal_topics"]
