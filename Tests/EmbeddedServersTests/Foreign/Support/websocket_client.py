"""Python's websockets as a client of an echo. Arguments: URL, the client's compression (deflate or none), tests."""

import asyncio
import sys

import websockets

TIMEOUT = 30
SIZES = [0, 1, 125, 126, 127, 65535, 65536, 1 << 20]


def text(size):
    """A text of `size` bytes."""
    cut = ("Grüße, 早 👋 " * (size // 10 + 1)).encode()[:size].decode(errors="ignore")
    return cut + "." * (size - len(cut.encode()))


async def echo(connection, message):
    await connection.send(message)
    answer = await connection.recv()
    assert type(answer) is type(message) and answer == message, f"{message[:50]!r} came back as {answer[:50]!r}"


async def sizes(connection):
    for size in SIZES:
        await echo(connection, text(size))
        await echo(connection, bytes(index * 31 & 0xFF for index in range(size)))
        await echo(connection, bytes(size))
    # Many concurrent messages keep their order.
    for number in range(500):
        await connection.send(f"message {number}")
    for number in range(500):
        assert await connection.recv() == f"message {number}"


async def fragments(connection):
    async def parts(*all_parts):
        for part in all_parts:
            yield part
            # A ping may come between the fragments of a message (RFC 6455, section 5.4).
            await (await connection.ping())

    await connection.send(parts("one ", "two ", "", "three"))
    assert await connection.recv() == "one two three"
    # A frame ends inside a character.
    await connection.send(parts(b"\xf0\x9f", b"\x91\x8b"), text=True)
    assert await connection.recv() == "👋"
    await connection.send(parts(*[bytes([number]) * 1000 for number in range(256)]))
    assert await connection.recv() == b"".join(bytes([number]) * 1000 for number in range(256))
    await connection.send(parts(b"", b"", b""))
    assert await connection.recv() == b""


async def pings(connection):
    waits = [await connection.ping(payload) for payload in [b"", b"\x00", b"x" * 125]]
    for wait in waits:
        await wait
    await connection.pong(b"unsolicited")
    await echo(connection, "alive")


async def close_codes(connect):
    for code, reason in [(1000, ""), (1001, "going"), (3000, "library"), (4999, "Grüße"), (1000, "x" * 123)]:
        async with connect() as connection:
            await echo(connection, "hello")
            await connection.close(code, reason)
            received = connection.protocol.close_rcvd
            assert received is not None and received.code == code, f"{code} was answered by {received}"


async def mistakes(connect):
    async def code_after(break_it):
        async with connect() as connection:
            await echo(connection, "hello")
            break_it(connection.protocol)
            connection.send_data()
            await connection.wait_closed()
            return connection.protocol.close_rcvd and connection.protocol.close_rcvd.code

    found = [
        await code_after(lambda protocol: protocol.send_text(b"\xff\xfe")),
        await code_after(lambda protocol: protocol.send_binary(bytes(2_000_001))),
        await code_after(lambda protocol: protocol.writes.append(b"\x83\x80\x00\x00\x00\x00")),
        await code_after(lambda protocol: protocol.writes.append(b"\x81\x01x")),
    ]
    # RFC 6455, section 7.4.1: not UTF-8, too large, an unknown opcode, an unmasked frame.
    assert found == [1007, 1009, 1002, 1002], found


async def served_until_interrupted(connection):
    await echo(connection, "hello")
    print("ready", flush=True)
    try:
        await connection.recv()
    except websockets.ConnectionClosedOK as closed:
        assert closed.rcvd.code in (1000, 1001), closed


async def main(url, compression, test):
    def connect():
        wanted = None if compression == "none" else compression
        return websockets.connect(url, max_size=None, compression=wanted, ping_interval=None, proxy=None)

    if test in (close_codes, mistakes):
        return await test(connect)
    async with connect() as connection:
        extensions = connection.response.headers.get("Sec-WebSocket-Extensions", "")
        offered = compression != "none" and "deflate=" in url and "deflate=off" not in url
        assert ("permessage-deflate" in extensions) == offered, f"extensions: {extensions}"
        await test(connection)


for name in sys.argv[3:]:
    asyncio.run(asyncio.wait_for(main(sys.argv[1], sys.argv[2], globals()[name]), TIMEOUT))
    print(f"{name}: ok", flush=True)
