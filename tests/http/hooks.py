"""The limits of a run of schemathesis against a node, and checks of its own.

`OWN` is the token of the run, which must outlive it.
"""

import json
import os
import re

import schemathesis

OWN = os.environ["NODE_TOKEN_NAME"]
CONDITION = "If-Match"
TAG = re.compile(r'\*|"[0-9]{1,19}"')
ROUNDED = re.compile(r"floating point `([0-9.e+]+)`")
# The parameters with which an answer waits, and their maxima.
WAITS = {"wait": 2**64 - 1, "seconds": 60}


@schemathesis.hook
def filter_case(context, case):
    """Without the token, everything after it would be refused."""
    parameters = case.path_parameters or {}
    return not (case.path == "/v1/tokens/{name}" and parameters.get("name") == OWN)


@schemathesis.hook
def map_query(context, query):
    """A valid time to wait becomes a second; everything else is sent as it is."""
    for name, maximum in WAITS.items():
        value = (query or {}).get(name)
        if isinstance(value, int) and 1 < value <= maximum:
            query[name] = 1
    return query


def is_valid(case):
    """Whether the document permits the request."""
    return case.meta is not None and case.meta.generation.mode.is_positive


@schemathesis.hook
def before_call(context, case, kwargs):
    """The coverage phase makes headers of letters and digits alone: no valid `If-Match`."""
    given = (case.headers or {}).get(CONDITION)
    if is_valid(case) and isinstance(given, str) and not TAG.fullmatch(given):
        del case.headers[CONDITION]


def error_of(response):
    """The error of a document, or None if the document is not an error."""
    try:
        return json.loads(response.content)["error"]
    except (ValueError, KeyError, TypeError):
        return None


@schemathesis.check
def valid_requests_are_understood(ctx, response, case):
    """A request that the document permits may have a value that the node refuses, but not a form
    that the node does not know."""
    if is_valid(case) and response.status_code == 400:
        error = error_of(response)
        assert error, "400 without a document"
        # An integer with a point may be one that its sender has rounded, from 2^53 on.
        large = ROUNDED.search(error["message"])
        if not (large and float(large[1]) >= 2**53):
            assert error["code"] != "invalid-request", f"not understood: {error}"


@schemathesis.check
def errors_have_a_message_of_one_line_and_a_remedy(ctx, response, case):
    if response.status_code >= 400 and response.status_code != 431:
        error = error_of(response)
        assert error, f"{response.status_code} without a document"
        assert error["message"].strip(), error
        assert "\n" not in error["message"], error
        assert error["remedy"].strip(), error
        assert response.headers["cache-control"] == ["no-store"]


@schemathesis.check
def answers_have_their_headers(ctx, response, case):
    """`ETag` for a query, `Location` for a new resource or a job, and for a refusal its own."""
    path, status, headers = case.path, response.status_code, response.headers
    if case.operation.method == "get" and status == 200 and path.startswith("/v1/"):
        assert path == "/v1/events" or "etag" in headers
    needed = {201: "location", 202: "location", 401: "www-authenticate", 405: "allow"}
    needed[503] = "retry-after"
    if status in needed:
        assert needed[status] in headers, f"{status} without {needed[status]}"
