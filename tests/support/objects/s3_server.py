"""A real server that speaks the protocol of S3, for the tests: moto's, in a thread of this process."""

import importlib
import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from turnbuckle.objects.s3 import S3Objects
from turnbuckle.objects.settings import S3Address

MISSING = "there is no S3 server for the tests: scripts/set-up-clients gets one"


@cache
def endpoint() -> str:
    """The address of one server for all tests of a process; it ends with it."""
    try:
        moto = importlib.import_module("moto.server")
    except ModuleNotFoundError:
        raise AssertionError(MISSING) from None
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}"


def new_bucket() -> S3Address:
    """An address with a bucket of its own."""
    at, name = endpoint(), f"bucket-{uuid.uuid4().hex}"
    importlib.import_module("moto.s3.models").s3_backends["123456789012"]["aws"].create_bucket(
        name, "us-east-1"
    )
    return S3Address(name, "", at, "us-east-1", "AKIDEXAMPLE", "a-secret-that-nobody-may-see")


@contextmanager
def failing(status: int, code: str = "") -> Iterator[str]:
    """The address of a server that answers everything with an error."""

    class Failing(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            sent = self.headers.get("authorization", "")
            body = f"<Error><Code>{code}</Code><Message>{sent}</Message></Error>".encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Failing) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def store_at(address: S3Address, timeout: float = 60.0) -> S3Objects:
    return S3Objects(address, timeout)
