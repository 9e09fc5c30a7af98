"""The handler `send` as an ASGI application: `size` bytes of text in `writes` writes, filled as `fill` says."""

from random import randrange
from urllib.parse import parse_qs


def parsed(query):
    """Size, writes and fill of a query."""
    values = {name: texts[0] for name, texts in parse_qs(query, keep_blank_values=True).items()}
    numbers = [values.get("size", "10240"), values.get("writes", "1")]
    fill = values.get("fill", "random")
    if not all(text.isascii() and text.isdigit() for text in numbers) or fill not in ("random", "pattern", "none"):
        raise ValueError
    size, writes = map(int, numbers)
    if not 1 <= writes <= max(size, 1):
        raise ValueError
    return size, writes, fill


def piece(begin, end, fill):
    """Bytes of a body, from one offset to another."""
    if fill == "none":
        return b"?" * (end - begin)
    if fill == "pattern":
        return bytes(63 + index % 26 for index in range(begin, end))
    # One call of the generator for each byte, as in WebStone's own handlers.
    return bytes(63 + randrange(26) for _ in range(begin, end))


async def app(scope, receive, send):
    """Answers one request."""
    try:
        size, writes, fill = parsed(scope["query_string"].decode())
        status, pieces = 200, writes
    except ValueError:
        status, size, pieces = 400, 0, 0
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(size).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    begin = 0
    for write in range(1, pieces + 1) if scope["method"] != "HEAD" else ():
        end = size * write // pieces
        await send({"type": "http.response.body", "body": piece(begin, end, fill), "more_body": write < pieces})
        begin = end
    if begin == 0 and (pieces == 0 or scope["method"] == "HEAD"):
        await send({"type": "http.response.body", "body": b""})
