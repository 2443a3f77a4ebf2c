"""The requests that all methods of `nearflash.admin.Admin` are made of."""

import json
import warnings
from collections.abc import Mapping
from typing import Any, TypeVar

from nearflash import _http
from nearflash._http import Request

__all__ = ["Calls", "UnconfirmedWarning", "change"]

T = TypeVar("T")
Query = Mapping[str, str | int | bool | None]


class UnconfirmedWarning(UserWarning):
    """A change of access is made, and some nodes of the cluster have not confirmed it within 5 s.

    They may still go by the rights before it. See docs/access.md.
    """


class Calls:
    """A node that answers with documents."""

    _door: _http.Door

    def _get(
        self,
        kind: type[T],
        *path: str,
        field: str | None = None,
        query: Query | None = None,
        wait: float = 0.0,
    ) -> T:
        request = Request(
            method="GET", path=("v1", *path), query=query, wait=wait, is_repeatable=True
        )
        return self._answer(kind, field, request)

    def _list(
        self,
        kind: type[T],
        field: str,
        *path: str,
        query: Query | None = None,
    ) -> list[T]:
        return self._get(list[kind], *path, field=field, query=query)  # type: ignore[valid-type]

    def _create(
        self,
        kind: type[T],
        path: str,
        *,
        field: str | None = None,
        body: Mapping[str, Any],
        generation: int | None,
    ) -> T:
        """A change that the node answers with the resource if it has been made already."""
        # A repetition of a change that took effect would differ in the generation.
        request = Request(
            method="POST", path=("v1", path), body=body, generation=generation,
            is_repeatable=generation is None,
        )  # fmt: skip
        return self._answer(kind, field, request)

    def _answer(self, kind: type[T], field: str | None, request: Request) -> T:
        return self._parsed(kind, field, self._door.read(request))

    def _parsed(self, kind: type[T], field: str | None, text: bytes) -> T:
        """The content of a document, or of one of its fields."""
        try:
            document = json.loads(text)
            content: T = _http.parsed(kind, document if field is None else document[field])
            nodes = document.get("unconfirmed", [])
        except (ValueError, KeyError, TypeError) as error:
            message = f"the answer of {self._door.address} is not a document: {error}"
            raise _http.invalid(message) from error
        if nodes:
            message = f"nodes that may not serve by this change yet: {', '.join(nodes)}"
            warnings.warn(message, UnconfirmedWarning, stacklevel=4)
        return content


def change(
    method: str,
    *path: str,
    body: Mapping[str, Any] | None = None,
    query: Query | None = None,
    generation: int | None = None,
) -> Request:
    """A change that is made once."""
    return Request(method=method, path=("v1", *path), body=body, query=query, generation=generation)
