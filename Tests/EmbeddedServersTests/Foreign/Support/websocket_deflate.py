"""Python's websockets with parameters of permessage-deflate, as the server of an echo or as the client of one.
Arguments: "server" or the URL, the parameters as JSON. Prints the negotiated parameters."""

import asyncio
import json
import random
import sys

import websockets
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory, ServerPerMessageDeflateFactory

TIMEOUT = 30
role, parameters = sys.argv[1], json.loads(sys.argv[2])


def side(bits, forgets):
    return f"{bits} {'forgets' if forgets else 'remembers'}"


def agreed(connection, is_server):
    """The negotiated parameters of the client's and of the server's messages."""
    if not connection.protocol.extensions:
        return "no compression"
    (deflate,) = connection.protocol.extensions
    local = side(deflate.local_max_window_bits, deflate.local_no_context_takeover)
    remote = side(deflate.remote_max_window_bits, deflate.remote_no_context_takeover)
    return f"client {remote}, server {local}" if is_server else f"client {local}, server {remote}"


async def serve():
    async def echo(connection):
        print(agreed(connection, True), flush=True)
        async for message in connection:
            await connection.send(message)

    factories = [ServerPerMessageDeflateFactory(**parameters)]
    async with websockets.serve(echo, "127.0.0.1", 0, compression=None, extensions=factories) as server:
        print("port", server.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().create_future()


async def talk():
    factories = [ClientPerMessageDeflateFactory(**parameters)]
    async with websockets.connect(role, compression=None, extensions=factories, proxy=None) as connection:
        letters = random.Random(1)
        # Each message is longer than the small windows, so its repetition refers to older bytes.
        for size in [100, 600, 1500, 5000, 40_000]:
            message = "".join(letters.choices("abcdefgh", k=size))
            for _ in range(3):
                await connection.send(message)
                assert await connection.recv() == message, f"{size} letters came back changed"
        print(agreed(connection, False), flush=True)


asyncio.run(serve() if role == "server" else asyncio.wait_for(talk(), TIMEOUT))
