"""Connecting to a node, and authentication."""

import pytest
from conftest import MIB, Node

import nearflash


def test_a_client_opens_volumes_by_name_or_as_the_url_says(node):
    client = nearflash.connect(f"direct://{node.address}")
    assert client.volume_name is None
    with client.open("data") as volume:
        assert volume.size == 32 * MIB
    with pytest.raises(nearflash.InvalidUrl, match="names no volume"):
        client.open()
    client = nearflash.connect(node.url)
    assert client.volume_name == "data"
    with client.open() as volume:
        assert volume.name == "data"


def test_a_url_that_is_none_is_refused():
    for url in ["data", "http://127.0.0.1/data", "direct://:1/data", "direct://a:b/data"]:
        with pytest.raises(nearflash.InvalidUrl) as caught:
            nearflash.connect(url)
        assert isinstance(caught.value, ValueError)


def test_an_unknown_volume_is_a_file_that_is_not_found(node):
    with pytest.raises(FileNotFoundError) as caught:
        nearflash.connect(node.url).open("other")
    assert caught.type is nearflash.NoSuchVolume
    assert str(caught.value).startswith("cannot open volume 'other': ")


def test_where_nobody_listens_the_node_is_unreachable(tmp_path):
    with pytest.raises(nearflash.Unreachable) as caught:
        nearflash.connect(f"direct+local:{tmp_path}/none.sock/data")
    assert caught.value.is_transient


def test_options_are_spans_in_seconds(node):
    nearflash.connect(node.url, silence_max=1, reconnect_max=0.5, spin_max=0)
    for option in ["silence_max", "reconnect_max", "spin_max"]:
        with pytest.raises(ValueError, match=option):
            nearflash.connect(node.url, **{option: -1})


@pytest.fixture
def secured(tmp_path):
    """A node that requires TLS."""
    node = Node(tmp_path, "127.0.0.1:0,tls=required")
    yield node
    node.end()


def test_tls_is_used_with_the_key_of_the_credential(secured, tmp_path):
    key = secured.grant("app", "--rights", "rw")
    url = f"direct+tls://{secured.address}/files"
    with nearflash.open(url, key.key, key.secret) as volume:
        volume.write(4000, b"secret")
        assert volume.read(4000, 6) == b"secret"
    file = tmp_path / "secret"
    file.write_text(key.secret)
    client = nearflash.connect(f"{url}?key=app&secret-file={file}")
    with client.queue_pair() as pair:
        pair.post_read(4000, 6)
        while not (done := pair.poll()):
            pair.wait()
        assert done[0][1] == b"secret"
    assert "client connected with TLS" in (tmp_path / "node.log").read_text()
    with pytest.raises(nearflash.Error, match="secret is another one"):
        nearflash.connect(url, key.key, "00" * 32)
    with pytest.raises(nearflash.Error, match="credential"):
        nearflash.connect(url)
    with pytest.raises(nearflash.Error, match="direct\\+tls"):
        nearflash.connect(url.replace("+tls", ""), key.key, key.secret, reconnect_max=0)


def test_digests_are_asked_for_by_the_url(node):
    with nearflash.open(f"{node.url}?digest=header,data") as volume:
        volume.write(5, b"checked")
        assert volume.read(5, 7) == b"checked"


def test_a_key_without_its_secret_is_refused(node):
    with pytest.raises(ValueError, match="give both"):
        nearflash.connect(node.url, key="app")
    with pytest.raises(ValueError, match="give both"):
        nearflash.connect(node.url, secret="00" * 32)
    with pytest.raises(nearflash.InvalidCredentials):
        nearflash.connect(node.url, key="app", secret="short")


def test_a_secret_is_read_from_its_file(start, tmp_path):
    node = start()
    secret = node.run("credential", "create", "app")["secret"]
    node.run("grant", "add", "app", "data", "--rights", "rw")
    file = tmp_path / "secret"
    file.write_text(f"{secret}\n")
    for path in [file, str(file)]:
        with nearflash.open(node.url, "app", secret_file=path) as volume:
            assert volume.write(0, b"flash") == 5
    with pytest.raises(nearflash.InvalidCredentials, match=r"cannot read .*/none: "):
        nearflash.connect(node.url, "app", secret_file=tmp_path / "none")
    with pytest.raises(ValueError, match="give both"):
        nearflash.connect(node.url, secret_file=file)
    with pytest.raises(ValueError, match="give only one"):
        nearflash.connect(node.url, "app", secret, secret_file=file)


def test_grants_are_kept_to(start):
    node = start()
    secret = node.run("credential", "create", "app")["secret"]
    node.run("grant", "add", "app", "data", "--range", "0..16MiB", "--rights", "rw")
    with pytest.raises(nearflash.AuthenticationFailed):
        nearflash.connect(node.url, "app", "00" * 32)
    client = nearflash.connect(node.url, key="app", secret=secret)
    with client.open() as volume:
        volume.write(16 * MIB - 1, b"x")
        with pytest.raises(PermissionError) as caught:
            volume.write(16 * MIB, b"x")
        assert caught.type is nearflash.NotGranted
        assert caught.value.name == "NOT_GRANTED"


def test_a_seal_gives_a_range_of_a_volume_without_a_credential(start):
    node = start()
    node.run("credential", "create", "app")
    made = node.run("grant", "seal", "data", "--range", "1MiB..2MiB", "--rights", "rw")
    url = f"{node.url}?seal={made['token']}"
    with nearflash.open(url) as volume:
        assert volume.size == MIB
        volume.write(0, b"sealed")
        assert volume.read(0, 6) == b"sealed"
        with pytest.raises(nearflash.NotGranted):
            nearflash.connect(url).open("files")
        node.run("grant", "revoke", str(made["grant"]["number"]))
        with pytest.raises(nearflash.NotGranted):
            volume.read(0, 6)
    with pytest.raises(nearflash.InvalidUrl, match="copy the whole URL"):
        nearflash.connect(url[:-1])


def test_a_seal_is_opened_from_its_bytes(node):
    made = node.run("grant", "seal", "data", "--range", "1MiB..2MiB", "--rights", "rw")
    # The bearer stands before the seal.
    seal = bytes.fromhex(made["token"])[40:]
    with nearflash.connect(node.url).open_sealed(seal) as volume:
        assert volume.size == MIB
        volume.write(100, b"from bytes")
    with nearflash.open(node.url) as volume:
        assert volume.read(MIB + 100, 10) == b"from bytes"
    with pytest.raises(ValueError, match="no seal"):
        nearflash.connect(node.url).open_sealed(seal[:-1])
