"""Managing a node: the methods against the OpenAPI document, against a node, and against peers that
answer wrongly."""

import contextlib
import inspect
import json
import pathlib
import socket
import subprocess
import sys
import threading
import time

import pytest
from conftest import MIB, ROOT, Node

from nearflash.admin import Admin, AdminError, JobEvent, StateEvent, UnconfirmedWarning

DOCUMENT = json.loads((ROOT / "docs/openapi.json").read_text())
# These are not operations: the earlier name of a part of `volume-create`, and repeated `job-show`.
FURTHER = {"cluster_volume_create", "job_wait"}
HOST = "nqn.2014-08.org.nvmexpress:uuid:2bd1d8d6-8c56-4c4e-8ff1-0d7d1b1c0b01"


@pytest.fixture(scope="module")
def admin(node):
    """The node that most tests share, over its Unix socket."""
    return Admin(node.http)


@contextlib.contextmanager
def refused(code):
    """The block raises an error with this code."""
    with pytest.raises(AdminError) as caught:
        yield caught
    assert caught.value.code == code, caught.value
    assert str(caught.value) == caught.value.message
    assert caught.value.remedy


def operations():
    """Each operation of the document: its name, and its parameters with the fields of its body."""
    schemas = DOCUMENT["components"]["schemas"]
    for path in DOCUMENT["paths"].values():
        for operation in path.values():
            names = {it["name"] for it in operation.get("parameters", [])}
            if "requestBody" in operation:
                body = operation["requestBody"]["content"]["application/json"]["schema"]
                body = schemas[body["$ref"].split("/")[-1]] if "$ref" in body else body
                names |= set(body["properties"])
            yield operation["operationId"].replace("-", "_"), names


def methods():
    found = inspect.getmembers(Admin, inspect.isfunction)
    return {name: method for name, method in found if not name.startswith("_")}


def test_every_operation_of_the_document_has_a_method_and_there_are_no_others():
    assert {name for name, _ in operations()} | FURTHER == set(methods())


def test_the_arguments_of_a_method_are_the_fields_of_its_operation():
    for name, fields in operations():
        wanted = {"generation" if it == "If-Match" else it for it in fields}
        arguments = set(inspect.signature(methods()[name]).parameters) - {"self"}
        assert arguments == wanted, name


def test_the_types_of_answers_are_those_of_the_document():
    command = [sys.executable, ROOT / "scripts/python-resources", "--check"]
    subprocess.run(command, check=True)


def test_a_volume_is_created_resized_and_removed(admin):
    made = admin.volume_create("admin", 4 * MIB, "flash")
    assert (made.volume.name, made.volume.bytes) == ("admin", 4 * MIB)
    again = admin.volume_create("admin", 4 * MIB, "flash")
    assert again.volume.uuid == made.volume.uuid
    with refused("volume-exists") as caught:
        admin.volume_create("admin", 8 * MIB, "flash")
    assert caught.value.status == 409
    assert (caught.value.subject.kind, caught.value.subject.name) == ("volume", "admin")
    for job in admin.job_list():
        admin.job_wait(job.id)
    assert admin.volume_resize("admin", 8 * MIB).volume.bytes == 8 * MIB
    for job in admin.job_list():
        admin.job_wait(job.id)
    with refused("would-shrink"):
        admin.volume_resize("admin", 4 * MIB)
    admin.volume_resize("admin", 4 * MIB, shrink=True)
    shown = admin.volume_show("admin")
    assert (shown.volume.bytes, shown.layout) == (4 * MIB, None)
    assert "admin" in [volume.name for volume in admin.volume_list()]
    assert admin.volume_remove("admin").volume.name == "admin"
    with refused("volume-not-found"):
        admin.volume_show("admin")


def test_the_node_decides_where_a_volume_lies_and_refuses_what_does_not_fit(admin):
    made = admin.volume_create("placed", 4 * MIB)
    assert (made.volume.device, made.note) == ("flash", None)
    assert admin.volume_create("placed", 4 * MIB).volume.uuid == made.volume.uuid
    for job in admin.job_list():
        admin.job_wait(job.id)
    admin.volume_remove("placed")
    with refused("no-cluster"):
        admin.volume_create("admin", 4 * MIB, replicas=2)
    with refused("no-cluster"):
        admin.cluster_volume_create("admin", 4 * MIB, 2)
    with refused("invalid-value") as caught:
        admin.volume_create("admin", 4 * MIB, "flash", replicas=2)
    assert "2 replicas do not lie on one device" in caught.value.message
    with refused("invalid-value"):
        admin.volume_create("admin", 4 * MIB, "flash", width=1)


def test_names_are_not_parts_of_the_path(admin):
    for name in ["data/../data", "data?force=true", "data%", "größer"]:
        with refused("invalid-value") as caught:
            admin.volume_show(name)
        assert f"'{name}'" in caught.value.message


def test_a_change_that_was_decided_on_an_older_state_is_refused(admin):
    generation = admin.status().generation
    made = admin.credential_create("older", generation=generation)
    assert made.credential.id == "older"
    with refused("generation-differs") as caught:
        admin.credential_remove("older", generation=generation)
    assert caught.value.status == 412
    admin.credential_remove("older", generation=admin.status().generation)


def test_a_job_is_waited_for_with_its_progress(admin):
    admin.volume_create("jobs", 8 * MIB, "flash")
    # The job of a RAM device may be over before its volume is answered.
    [begun] = [it for it in admin.job_list() if it.volume == "jobs"]
    seen = []
    job = admin.job_wait(begun.id, progress=seen.append)
    assert (job.kind, job.volume, job.state) == ("volume-create", "jobs", "done")
    assert seen[-1] == job == admin.job_show(job.id, wait=1)
    assert job.done_bytes == job.total_bytes
    with refused("job-over"):
        admin.job_cancel(job.id)
    with refused("job-not-found"):
        admin.job_wait(999)
    admin.volume_remove("jobs")


def test_rights_of_direct_clients_are_given_and_taken(admin):
    made = admin.credential_create("app", expires_at=int(time.time()) + 600)
    assert made.secret
    assert made.secret not in repr(made)
    with refused("credential-exists"):
        admin.credential_create("app")
    grant = admin.grant_add("app", "data", "r", start=512, end=4096)
    assert (grant.rights, grant.start, grant.end) == ("r", 512, 4096)
    assert admin.grant_add("app", "data", "r", start=512, end=4096) == grant
    assert admin.grant_list("app") == [grant]
    assert admin.grant_revoke(grant.number) == grant
    seal = admin.grant_seal("data", "rw", int(time.time()) + 60, end=4096)
    assert seal.grant.seal
    assert seal.token not in repr(seal)
    admin.grant_revoke(seal.grant.number)
    assert admin.grant_list() == []
    assert [it.id for it in admin.credential_list()] == ["app"]
    assert admin.credential_remove("app").grants == 0


def test_accounts_hosts_and_tokens_are_added_listed_and_removed(admin):
    account = admin.chap_add("alice", mutual={"user": "node"}, initiators=["iqn.2026-11.test:a"])
    assert account.account.initiators == ["iqn.2026-11.test:a"]
    assert account.account.mutual_user == "node"
    assert account.secret
    assert account.secret not in repr(account)
    with refused("chap-account-exists"):
        admin.chap_add("alice")
    assert admin.chap_add("alice", secret="0123456789abcdef", replace=True).secret is None
    assert admin.chap_list() == [admin.chap_remove("alice").account]

    host = admin.host_add(HOST, controller={}, volumes={"data": "r"})
    assert host.host.mutual
    assert host.key not in repr(host)
    listed = admin.host_list()
    assert [it.nqn for it in listed.hosts] == [HOST]
    assert [(it.volume, it.rights) for it in listed.lists[0].volumes] == [("data", "r")]
    allowed = admin.host_allow(HOST, {"files": "rw"})
    assert [it.volume for it in allowed.volumes] == ["data", "files"]
    assert admin.host_allow(HOST, {"data": "rw"}, only=True).volumes[0].rights == "rw"
    assert admin.host_deny(HOST, ["data"]).volumes == []
    assert admin.host_unlist(HOST).host == HOST
    assert admin.host_remove(HOST).host.nqn == HOST
    assert admin.host_list().removed == [HOST]
    assert admin.host_remove(HOST, forget=True).host.nqn == HOST
    assert admin.host_list().removed == []

    token = admin.token_create("viewer", "read")
    assert token.secret not in repr(token)
    assert admin.token_list() == [token.token]
    assert admin.token_remove("viewer") == token.token


def test_the_node_is_seen_from_every_side(admin):
    assert admin.health()
    status = admin.status()
    assert (status.verdict.level, status.cluster) == ("ok", None)
    assert {volume.name for volume in status.volumes} >= {"data", "files"}
    assert [device.kind for device in admin.device_list()] == ["ram"]
    assert admin.device_clear("flash").name == "flash"
    assert admin.reservation_list() == []
    assert admin.reservation_show("data") == admin.reservation_list(volume="data")
    assert admin.activity().intervals == admin.activity(since=0).intervals
    events = admin.event_list()
    assert admin.event_list(after=events[-1].number - 1)[0] == events[-1]
    assert admin.trace(seconds=1, every=1).every == 1
    assert "nearflash_volume_size_bytes" in admin.metrics()
    assert admin.openapi()["openapi"].startswith("3.1")


def test_a_reservation_that_is_not_there_is_cleared_all_the_same(admin):
    assert admin.reservation_clear("data").registrants == []


def test_events_begin_with_the_present_and_tell_changes(admin):
    with contextlib.closing(admin.events()) as events:
        first = next(events)
        assert isinstance(first, StateEvent)
        admin.volume_create("events", 4 * MIB, "flash")
        later = [first]
        while not any(isinstance(it, JobEvent) and it.job.volume == "events" for it in later):
            later.append(next(events))
        generations = [it.generation for it in later if isinstance(it, StateEvent)]
        assert generations[-1] > first.generation
    admin.volume_remove("events")


def test_events_end_with_the_node(tmp_path):
    node = Node(tmp_path)
    events = Admin(node.http).events()
    assert isinstance(next(events), StateEvent)
    node.end()
    assert all(isinstance(it, JobEvent | StateEvent) for it in events)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A node with HTTP over TLS: its URL, its certificate, and files with two tokens."""
    folder = tmp_path_factory.mktemp("network")
    certificate, key = folder / "http.crt", folder / "http.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    options = ["--http", "127.0.0.1:0", "--http-cert", certificate, "--http-key", key]
    node = Node(folder, options=options)
    for scope in ["read", "admin"]:
        file = folder / f"{scope}.token"
        node.run("token", "create", scope, "--scope", scope, "--secret-file", file)
    url = f"https://{node.ready['http']}"
    yield url, certificate, folder / "read.token", folder / "admin.token"
    node.end()


def test_the_network_needs_a_certificate_that_is_trusted_and_a_token_that_permits_the_call(network):
    url, certificate, read, everything = network
    viewer = Admin(url, token_file=read, ca_file=certificate)
    assert viewer.health()
    assert viewer.status().verdict.level == "ok"
    with refused("scope-missing"):
        viewer.credential_create("app")
    operator = Admin(url, token=everything.read_text().strip(), ca_file=str(certificate))
    assert operator.credential_create("app").credential.id == "app"
    with refused("token-refused") as caught:
        Admin(url, token="nft_wrong", ca_file=certificate).status()
    assert caught.value.status == 401
    with refused("unreachable") as caught:
        Admin(url, token_file=read).status()
    assert "ca_file" in caught.value.remedy


def test_addresses_and_options_that_are_not_valid_are_refused(tmp_path):
    for address, options, message in [
        ("http://127.0.0.1:4423", {"token": "t"}, "write https://"),
        ("https://", {"token": "t"}, "write https://"),
        ("https://127.0.0.1/v1", {"token": "t"}, "write https://"),
        ("https://127.0.0.1", {}, "needs a token"),
        ("http.sock", {"token": "t"}, "needs no token"),
        ("https://127.0.0.1", {"token": "t", "token_file": "f"}, "give one"),
    ]:
        with pytest.raises(ValueError, match=message):
            Admin(address, **options)
    with pytest.raises(FileNotFoundError):
        Admin("https://127.0.0.1", token_file=tmp_path / "none")
    nobody = Admin(tmp_path / "none.sock")
    assert not nobody.health()
    with refused("unreachable"):
        nobody.status()
    with refused("unreachable"):
        nobody.credential_create("app")


def _line(request):
    return request.readline().decode().strip()


class Peer:
    """A peer that answers each request with the next of these bytes, and closes the connection."""

    def __init__(self, path, answers):
        self.requests = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, args=(answers,))
        self._thread.start()

    def _serve(self, answers):
        for answer in answers:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # the test has failed before
            with connection, connection.makefile("rb") as request:
                self.requests.append(_line(request))
                headers = dict(line.split(": ") for line in iter(lambda: _line(request), ""))
                request.read(int(headers.get("Content-Length", 0)))
                connection.sendall(answer)

    def end(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()


@pytest.fixture
def peer(tmp_path):
    """Starts a peer. Returns it, and an `Admin` of it."""
    with contextlib.ExitStack() as stack:

        def start(*answers):
            path = tmp_path / "peer.sock"
            peer = Peer(path, answers)
            stack.callback(pathlib.Path.unlink, path)
            stack.callback(peer.end)
            return peer, Admin(path)

        yield start


def answer(content, status="200 OK"):
    body = json.dumps({"schema": 1, **content}).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def job(state, error=None):
    return {
        "id": 7, "kind": "volume-create", "volume": "web", "state": state, "done_bytes": 0,
        "total_bytes": 1, "started_at": 1, "ended_at": None, "error": error,
    }  # fmt: skip


VOLUME = {
    "name": "web", "nqn": "nqn.2026-11.io.nearflash:web", "nsid": 1, "device": "flash",
    "uuid": "00000000-0000-0000-0000-000000000000", "bytes": 4096, "block_size": 512,
}  # fmt: skip


def test_a_request_whose_connection_breaks_is_sent_again_if_that_has_no_further_effect(peer):
    made = answer({"volume": VOLUME}, "201 Created")
    broken, admin = peer(b"", answer({"volumes": []}), made[:-9], made)
    assert admin.volume_list() == []
    assert admin.volume_create("web", 4096, "flash").volume.name == "web"
    assert broken.requests == ["GET /v1/volumes HTTP/1.1"] * 2 + ["POST /v1/volumes HTTP/1.1"] * 2


def test_another_change_whose_connection_breaks_has_an_unknown_outcome(peer):
    broken, admin = peer(b"", b"")
    with refused("outcome-unknown"):
        admin.volume_remove("web", force=True)
    with refused("outcome-unknown"):
        admin.volume_create("web", 4096, "flash", generation=3)
    assert broken.requests == [
        "DELETE /v1/volumes/web?force=true HTTP/1.1", "POST /v1/volumes HTTP/1.1"
    ]  # fmt: skip


def test_a_peer_that_is_no_node_is_named(peer):
    _, admin = peer(
        b"220 mail.example ESMTP\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbusy",
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\nbusy",
        answer({"volumes": [{"name": "web"}]}),
        answer({"volumes": 7}),
        answer({}),
    )
    for _ in range(6):
        with refused("invalid-answer"):
            admin.volume_list()


def test_fields_that_a_later_node_adds_are_left_out(peer):
    _, admin = peer(answer({"volumes": [{**VOLUME, "colour": "blue"}], "total": 1}))
    [volume] = admin.volume_list()
    assert (volume.provisioning, volume.job) == ("", None)


def test_nodes_that_have_not_confirmed_a_change_are_a_warning(peer):
    token = {"name": "ci", "scope": "read", "expired": False}
    _, admin = peer(answer({"token": token, "unconfirmed": ["n2", "n3"]}), answer({"token": token}))
    with pytest.warns(UnconfirmedWarning, match="n2, n3"):
        assert admin.token_remove("ci").name == "ci"
    assert admin.token_remove("ci").name == "ci"


def test_waiting_raises_the_error_of_a_job_that_fails_and_names_one_that_is_cancelled(peer):
    fault = {"code": "device-failed", "message": "it hangs", "remedy": "check the device"}
    _, admin = peer(answer({"job": job("failed", fault)}), answer({"job": job("cancelled")}))
    with refused("device-failed"):
        admin.job_wait(7)
    with refused("cancelled"):
        admin.job_wait(7)


def test_waiting_ends_at_its_limit_and_asks_for_no_longer_than_the_node_waits(peer):
    running = answer({"job": job("running")})
    waited, admin = peer(running, running, running, answer({"job": job("done")}))
    with refused("timeout"):
        admin.job_wait(7, timeout=0)
    assert admin.job_wait(7, timeout=3600).state == "done"
    assert waited.requests == [
        "GET /v1/jobs/7 HTTP/1.1", "GET /v1/jobs/7 HTTP/1.1",
        "GET /v1/jobs/7?wait=60 HTTP/1.1", "GET /v1/jobs/7?wait=60 HTTP/1.1",
    ]  # fmt: skip
