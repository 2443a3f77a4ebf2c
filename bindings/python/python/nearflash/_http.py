"""HTTP/1.1 to a node, with the standard library alone: over its Unix socket, or over TLS with a
token.

Each request has a connection of its own, so threads share nothing, and a connection that the node
has closed in the meantime disturbs no request. Knows the documents of errors, and no resource.
"""

import functools
import http.client
import json
import os
import socket
import ssl
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints
from urllib.parse import quote, urlencode, urlsplit

from nearflash._resources import ApiError, Subject

PORT = 4423
"""The port of a URL that names none."""

ANSWER_LEN_MAX = 64 << 20
"""The maximum length of an answer in bytes, against a peer that is no node."""

EVENT_LINE_MAX = 1 << 20
"""The maximum length of a line of an event, for the same reason."""

BROKEN = (ConnectionError, http.client.IncompleteRead)
"""The errors of a connection that ends before the answer does."""


class AdminError(Exception):
    """A request that the node refused, or that did not reach it.

    The text is `message`. `code` is stable. It is one of the node's codes, for example
    `volume-not-found`, or one of these:

    - `unreachable`: the node did not answer, and nothing has changed.
    - `outcome-unknown`: the connection broke, and the change may have been made.
    - `invalid-answer`: the peer is not a nearflash node.
    - `cancelled` and `timeout`: `Admin.job_wait` raises these.
    """

    code: str
    """The kind of error, as in the table of docs/control-socket.md."""

    message: str
    """The failure and its cause, in one line."""

    remedy: str
    """The general remedy for errors of this code."""

    subject: Subject | None
    """The affected resource. None if there is none."""

    status: int | None
    """The HTTP status. None if the node did not answer."""

    def __init__(self, error: ApiError, status: int | None = None) -> None:
        """`error` has the fields, and `status` is the HTTP status if there is one."""
        super().__init__(error.message)
        self.code = error.code
        self.message = error.message
        self.remedy = error.remedy
        self.subject = error.subject
        self.status = status


def failure(code: str, message: str, remedy: str) -> AdminError:
    """An error of this side."""
    return AdminError(ApiError(code=code, message=message, remedy=remedy))


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request: a method, and the segments of a path."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, str | int | bool | None] | None = None
    body: Mapping[str, Any] | None = None
    generation: int | None = None
    """The generation of `If-Match`."""

    wait: float = 0.0
    """The time in seconds for which the node may wait before it answers."""

    is_repeatable: bool = False
    """Whether a second request has no further effect."""

    def target(self) -> str:
        """The target of the request line."""
        path = "/" + "/".join(quote(segment, safe="") for segment in self.path)
        given = {name: _in_query(it) for name, it in (self.query or {}).items() if it is not None}
        return path + ("?" + urlencode(given, quote_via=quote) if given else "")


def _in_query(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class _UnixConnection(http.client.HTTPConnection):
    """A connection over a Unix socket. The name of the host has no meaning there."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("node", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Door:
    """The address of a node, and the right to use it."""

    def __init__(
        self,
        address: str | os.PathLike[str],
        token: str | None,
        ca_file: str | None,
        timeout: float,
    ) -> None:
        self.address = os.fspath(address)
        self._timeout = timeout
        self._token = token.strip() if token is not None else None
        if self._token is not None and not (self._token.isascii() and self._token.isprintable()):
            raise ValueError("the token has characters of no token: give it as it was printed")
        self._tls: ssl.SSLContext | None = None
        self._host, self._port = "", PORT
        if "://" in self.address:
            self._use_url(ca_file)
        elif token is not None or ca_file is not None:
            raise ValueError("the Unix socket needs no token and no ca_file: leave both out")

    def _use_url(self, ca_file: str | None) -> None:
        url = urlsplit(self.address)
        if url.scheme != "https" or not url.hostname or url.path not in ("", "/"):
            remedy = "write https://HOST:PORT, or the path of http.sock"
            raise ValueError(f"'{self.address}' is not an address: {remedy}")
        if self._token is None:
            raise ValueError("HTTP over the network needs a token: give token or token_file")
        self._host, self._port = url.hostname, url.port or PORT
        self._tls = ssl.create_default_context(cafile=ca_file)

    def _connection(self, wait: float) -> http.client.HTTPConnection:
        timeout = self._timeout + wait
        if self._tls is None:
            return _UnixConnection(self.address, timeout)
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=timeout, context=self._tls
        )

    def read(self, request: Request) -> bytes:
        """Sends a request. Returns the body of the answer. Sends a repeatable request a second time
        if its connection breaks."""
        try:
            return self._read(request)
        except AdminError as error:
            if not (request.is_repeatable and isinstance(error.__cause__, BROKEN)):
                raise
        return self._read(request)

    def _read(self, request: Request) -> bytes:
        with self.opened(request) as response:
            body = response.read(ANSWER_LEN_MAX + 1)
            if len(body) > ANSWER_LEN_MAX:
                raise invalid(f"the answer of {self.address} has more than {ANSWER_LEN_MAX} bytes")
            # With a maximum, `read` does not say that the end is missing.
            if response.length:
                raise http.client.IncompleteRead(body, response.length)
        return body

    @contextmanager
    def opened(self, request: Request) -> Iterator[http.client.HTTPResponse]:
        """Sends a request. The answer is not read yet."""
        connection = self._connection(request.wait)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise unreachable(self.address, error) from error
        try:
            response = self._answered(connection, request)
            if response.status >= 300:
                raise refused(response.status, response.read(ANSWER_LEN_MAX))
            yield response
        except (OSError, http.client.HTTPException) as error:
            raise broken(self.address, request, error) from error
        finally:
            connection.close()

    def _answered(
        self, connection: http.client.HTTPConnection, request: Request
    ) -> http.client.HTTPResponse:
        headers = {"Connection": "close"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if request.generation is not None:
            headers["If-Match"] = f'"{request.generation}"'
        body = None
        if request.body is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps({key: it for key, it in request.body.items() if it is not None})
        connection.request(request.method, request.target(), body, headers)
        return connection.getresponse()


def unreachable(address: str, error: OSError) -> AdminError:
    """No connection could be made."""
    remedy = "start the node, or correct the address"
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = "name the certificate of the node, or of its issuer, as ca_file"
    elif isinstance(error, PermissionError):
        remedy = "run this program as the user that runs the node, or as root"
    return failure("unreachable", f"cannot connect to {address}: {error}", remedy)


def broken(address: str, request: Request, error: Exception) -> AdminError:
    """The connection broke, or the peer was silent, before the end of the answer."""
    message = f"{address} did not answer {request.method} {request.target()}: {error or 'closed'}"
    if not isinstance(error, (OSError, *BROKEN)):
        return invalid(message)
    if request.method == "GET":
        return failure("unreachable", message, "try again")
    return failure("outcome-unknown", message, "read the resource, and repeat the change if needed")


def invalid(message: str) -> AdminError:
    """The peer does not speak this interface."""
    return failure("invalid-answer", message, "check that the address is that of a nearflash node")


def refused(status: int, body: bytes) -> AdminError:
    """The error of a document."""
    try:
        error = parsed(ApiError, json.loads(body)["error"])
    except (ValueError, KeyError, TypeError) as cause:
        raise invalid(f"the answer has status {status}, and is no document") from cause
    return AdminError(error, status)


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def parsed(kind: Any, value: Any) -> Any:
    """A value of a document, as its type says. Fields that the type does not have are left out.

    Raises `TypeError` if it has another shape.
    """
    if is_dataclass(kind) and isinstance(kind, type):
        known = {name: name.removesuffix("_") for name in _hints(kind)}
        given = {name: key for name, key in known.items() if key in value}
        return kind(**{name: parsed(_hints(kind)[name], value[key]) for name, key in given.items()})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        [inner] = [it for it in arguments if it is not types.NoneType]
        return None if value is None else parsed(inner, value)
    if origin is list:
        return [parsed(arguments[0], it) for it in value]
    return value


def sent_events(response: http.client.HTTPResponse) -> Iterator[tuple[str, str]]:
    """The names and the data of server-sent events, whose data are one line each."""
    name = ""
    while line := response.readline(EVENT_LINE_MAX):
        if not line.endswith(b"\n"):
            raise invalid(f"an event has a line of more than {EVENT_LINE_MAX} bytes")
        key, _, value = line.decode(errors="replace").strip("\r\n").partition(": ")
        if key == "event":
            name = value
        elif key == "data":
            yield name, value
