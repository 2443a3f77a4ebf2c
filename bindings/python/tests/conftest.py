"""A node for the tests: the program that `make build` builds, on a RAM device and free ports."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
from typing import NamedTuple

import pytest

import nearflash

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINARY = os.environ.get("NEARFLASH_BIN", ROOT / "target" / "release" / "nearflash")
MIB = 1 << 20


def format_files(url):
    """Formats a volume for files, without those of an earlier test."""
    command = [BINARY, "files", "format", "--force", url]
    subprocess.run(command, check=True, capture_output=True)


class Key(NamedTuple):
    """A credential of a node."""

    key: str
    secret: str


class Node:
    """A running node, whose volume `data` has 32 MiB, as has `files`."""

    def __init__(self, folder, address="127.0.0.1:0", device="ram:96MiB", options=()):
        self.folder = folder
        self.socket = folder / "direct.sock"
        command = [
            BINARY, "serve", "--device", f"flash={device}", "--volume", "data=32MiB@flash",
            "--volume", "files=32MiB@flash",
            "--direct", address, "--direct-local", self.socket, "--nvme-tcp", "127.0.0.1:0",
            # Tests remove the last credential and the last list.
            "--anonymous", "direct", "--unlisted-hosts", "all",
            "--data-dir", folder / "state", *options,
        ]  # fmt: skip
        with open(folder / "node.log", "a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        line = self.process.stdout.readline()
        assert line, (folder / "node.log").read_text()
        self.ready = json.loads(line)
        self.address = self.ready["direct"][0]

    @property
    def url(self):
        return f"direct://{self.address}/data"

    @property
    def local_url(self):
        return f"direct+local:{self.socket}/data"

    @property
    def http(self):
        """The path of the Unix socket for HTTP."""
        return self.folder / "state" / "http.sock"

    def run(self, *arguments):
        """Runs a command on the node. Returns its output, parsed as JSON."""
        command = [BINARY, *arguments, "--json", "--data-dir", self.folder / "state"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout or "null")

    def grant(self, name, *grant):
        """Creates a credential with this grant on the volume `files`."""
        secret = self.run("credential", "create", name)["secret"]
        self.run("grant", "add", name, "files", *grant)
        return Key(name, secret)

    def stop(self):
        """Stops the process with SIGSTOP."""
        self.process.send_signal(signal.SIGSTOP)
        # The process is stopped only once the system reports it.
        os.waitpid(self.process.pid, os.WUNTRACED)

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def start(tmp_path):
    """Starts nodes for one test, on a file that outlives them."""
    with contextlib.ExitStack() as stack:

        def start_node(address="127.0.0.1:0"):
            node = Node(tmp_path, address, f"file:{tmp_path / 'flash.img'},size=96MiB")
            stack.callback(node.end, signal.SIGKILL)
            return node

        yield start_node


@pytest.fixture(scope="session")
def node(tmp_path_factory):
    """The node that most tests share."""
    node = Node(tmp_path_factory.mktemp("node"))
    format_files(f"direct://{node.address}/files")
    yield node
    node.end()


@pytest.fixture(scope="session")
def owning_node(tmp_path_factory):
    """A node that owns the files of its volume `files`."""
    node = Node(tmp_path_factory.mktemp("owning"), options=["--files", "files"])
    format_files(f"direct://{node.address}/files")
    yield node
    node.end()


@pytest.fixture(scope="session")
def granting_node(tmp_path_factory):
    """A node that owns the files of its volume `files`, and asks for a credential."""
    node = Node(tmp_path_factory.mktemp("granting"), options=["--files", "files"])
    format_files(f"direct://{node.address}/files")
    yield node
    node.end()


@pytest.fixture(params=["tcp", "local"])
def url(request, node):
    """The URL of the volume, over TCP and over the Unix socket."""
    return node.url if request.param == "tcp" else node.local_url


@pytest.fixture
def volume(url):
    """The volume, with zeroes in the range that the tests use."""
    with nearflash.open(url) as volume:
        volume.write(0, bytes(MIB))
        yield volume
