"""Half-sent requests of strangers hold no place for long, and never all of them."""

import asyncio

import pytest
import uvicorn

from api.door import LARGEST_HEAD, ImpatientProtocol


class Hurried(ImpatientProtocol):
    most_open = 20
    head_within_s = 0.3


async def answer(scope, receive, send):
    if scope["type"] == "http":
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
async def port():
    options = {"http": Hurried, "h11_max_incomplete_event_size": LARGEST_HEAD, "lifespan": "off", "log_level": "error"}
    server = uvicorn.Server(uvicorn.Config(answer, port=0, **options))
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - the server has no event for it
        await asyncio.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await running
    assert Hurried.open_now == 0


async def say(port: int, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    line = await asyncio.open_connection("127.0.0.1", port)
    line[1].write(sent)
    return line


async def rest_of(line: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bytes:
    """All that is answered until the other side hangs up."""
    try:
        return await asyncio.wait_for(line[0].read(), 3.0)
    except ConnectionError:
        return b""
    finally:
        line[1].close()


WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nA: b", WHOLE + b"GET / HT"])
async def test_a_request_that_is_never_whole_is_hung_up_on(port, sent):
    assert (await rest_of(await say(port, sent))).count(b"200 OK") == sent.count(b"\r\n\r\n")


async def test_a_head_that_never_ends_is_refused(port):
    assert b"400" in await rest_of(await say(port, b"GET / HTTP/1.1\r\nA: " + b"b" * 2 * LARGEST_HEAD))


async def test_a_slow_body_and_later_requests_on_one_line_are_served(port):
    line = await say(port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na")
    await asyncio.sleep(0.6)
    line[1].write(b"b" + LAST)
    assert (await rest_of(line)).count(b"200 OK") == 2


async def test_while_strangers_fill_all_places_the_next_is_closed_and_places_are_free_again_soon(port):
    held = [await say(port, b"POST / HTTP/1.1\r\nHo") for _ in range(60)]
    await asyncio.sleep(0.1)
    assert Hurried.open_now <= Hurried.most_open
    assert [await rest_of(one) for one in held] == [b""] * 60
    assert b"200 OK" in await rest_of(await say(port, LAST))
