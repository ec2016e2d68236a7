"""Python's websockets over TLS.

Arguments of a client: "client", the TLS version, the URL, and the file of the authority.
Arguments of a server: "server", the TLS version, the file of its certificate, and the file of its key.
"""

import asyncio
import ssl
import sys

import websockets

TIMEOUT = 30


def limited(context, version):
    context.minimum_version = context.maximum_version = getattr(ssl.TLSVersion, version.replace(".", "_"))
    return context


def version_of(connection):
    return connection.transport.get_extra_info("ssl_object").version()


async def serve(version, certificate, key):
    """Sends every message back. "close" makes the server close the connection. Prints how each connection ended."""

    async def echo(connection):
        version = version_of(connection)
        try:
            while (message := await connection.recv()) != "close":
                await connection.send(message)
            await connection.close(4002, "by the server")
        except websockets.ConnectionClosed:
            pass
        print(version, connection.close_code, connection.close_reason, flush=True)

    context = limited(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), version)
    context.load_cert_chain(certificate, key)
    async with websockets.serve(echo, "127.0.0.1", 0, ssl=context, max_size=None) as server:
        print("port", server.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().create_future()


async def connect(version, url, authority):
    """Expects every message back, and that the server closes the connection after "close"."""
    context = limited(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), version)
    context.load_verify_locations(authority)

    def open_connection():
        return websockets.connect(url, ssl=context, max_size=None, ping_interval=None, proxy=None)

    async with open_connection() as connection:
        assert version_of(connection) == version, version_of(connection)
        for message in ["", "Grüße 👋", b"", bytes(range(256)), b"\x5a\xa5" * (1 << 19), "x" * (1 << 20)]:
            await connection.send(message)
            assert await connection.recv() == message, f"{message[:20]!r} of {len(message)}"
        for number in range(500):
            await connection.send(f"message {number}")
        for number in range(500):
            assert await connection.recv() == f"message {number}"
        await connection.close(4001, "by the client")
        assert connection.close_code == 4001, connection.close_code
        await connection.wait_closed()
    async with open_connection() as connection:
        await connection.send("close")
        try:
            await connection.recv()
            raise AssertionError("the server has not closed the connection")
        except websockets.ConnectionClosed as closed:
            assert (closed.rcvd.code, closed.rcvd.reason) == (4002, "by the server"), closed
    print("ok", flush=True)


role, arguments = sys.argv[1], sys.argv[2:]
if role == "server":
    asyncio.run(serve(*arguments))
else:
    asyncio.run(asyncio.wait_for(connect(*arguments), TIMEOUT))
