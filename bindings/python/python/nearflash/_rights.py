"""The methods of `nearflash.admin.Admin` that give and take rights: credentials and grants of
direct clients, accounts of iSCSI initiators, keys and lists of hosts, and tokens of HTTP."""

from collections.abc import Mapping
from typing import Literal

from nearflash._calls import Calls, change
from nearflash._resources import (
    ChapInfo,
    CredentialInfo,
    GrantInfo,
    KeyedHosts,
    NewCredential,
    NewSeal,
    NewToken,
    OneAccount,
    OneKeyedHost,
    TokenInfo,
    TokenScope,
    VolumesOfHost,
)

__all__ = ["Rights", "RightsCalls"]

Rights = Literal["r", "rw"]
"""Reading, or reading and writing."""


class RightsCalls(Calls):
    """Gives and takes rights. `Admin` describes `generation`."""

    # Rights of direct clients.

    def credential_list(self) -> list[CredentialInfo]:
        """All credentials of direct clients, in the order of their key IDs."""
        return self._list(CredentialInfo, "credentials", "credentials")

    def credential_create(
        self, id: str, *, expires_at: int | None = None, generation: int | None = None
    ) -> NewCredential:
        """Creates a credential with the key ID `id`. Its secret is not shown again.

        `expires_at` is in seconds since 1970; by default it does not expire. Raises
        `credential-exists`.
        """
        body = {"id": id, "expires_at": expires_at}
        request = change("POST", "credentials", body=body, generation=generation)
        return self._answer(NewCredential, None, request)

    def credential_remove(self, id: str, *, generation: int | None = None) -> CredentialInfo:
        """Removes the credential with the key ID `id`, and its grants."""
        request = change("DELETE", "credentials", id, generation=generation)
        return self._answer(CredentialInfo, "credential", request)

    def grant_list(self, credential: str | None = None) -> list[GrantInfo]:
        """The grants of all credentials, or of `credential`, in the order of their numbers."""
        return self._list(GrantInfo, "grants", "grants", query={"credential": credential})

    def grant_add(
        self,
        credential: str,
        volume: str,
        rights: Rights,
        *,
        path: str | None = None,
        start: int = 0,
        end: int | None = None,
        expires_at: int | None = None,
        generation: int | None = None,
    ) -> GrantInfo:
        """Grants `credential` the `rights` to the bytes from `start` to `end` of `volume`.

        Without `end`, the range ends with the volume. With `path`, it is a grant on the files of
        this directory instead, and has no range. `expires_at` is in seconds since 1970. A grant
        that exists as asked is returned.
        """
        body = {
            "credential": credential, "volume": volume, "rights": rights, "path": path,
            "start": start, "end": end, "expires_at": expires_at,
        }  # fmt: skip
        return self._create(GrantInfo, "grants", field="grant", body=body, generation=generation)

    def grant_revoke(self, number: int, *, generation: int | None = None) -> GrantInfo:
        """Revokes the grant with this `number`, and voids its seal. It is in effect on return."""
        request = change("DELETE", "grants", str(number), generation=generation)
        return self._answer(GrantInfo, "grant", request)

    def grant_seal(
        self,
        volume: str,
        rights: Rights,
        expires_at: int,
        *,
        start: int = 0,
        end: int | None = None,
        generation: int | None = None,
    ) -> NewSeal:
        """Mints a token with `rights` to the bytes from `start` to `end` of `volume`.

        Who has the token needs no credential. By default, the range ends with the volume.
        `expires_at` is in seconds since 1970, within 24 hours.
        """
        body = {
            "volume": volume, "rights": rights, "start": start, "end": end,
            "expires_at": expires_at,
        }  # fmt: skip
        request = change("POST", "seals", body=body, generation=generation)
        return self._answer(NewSeal, None, request)

    # iSCSI initiators and NVMe hosts.

    def chap_list(self) -> list[ChapInfo]:
        """All CHAP accounts of iSCSI initiators, in the order of their user names."""
        return self._list(ChapInfo, "accounts", "chap-accounts")

    def chap_add(
        self,
        user: str,
        *,
        secret: str | None = None,
        mutual: Mapping[str, str] | None = None,
        initiators: list[str] | None = None,
        replace: bool = False,
        generation: int | None = None,
    ) -> OneAccount:
        """Adds a CHAP account for the initiator's user name `user`.

        The node generates a `secret` by default, and returns it once. `mutual` is the node's own
        account, `{"user": …}` or `{"user": …, "secret": …}`; without it, authentication is one-way.
        `initiators` are the iSCSI names that may use it; by default every initiator may.
        `replace` permits to replace an account. Raises `chap-account-exists`.
        """
        body = {
            "user": user, "secret": secret, "mutual": mutual, "initiators": initiators,
            "replace": replace,
        }  # fmt: skip
        request = change("POST", "chap-accounts", body=body, generation=generation)
        return self._answer(OneAccount, None, request)

    def chap_remove(self, user: str, *, generation: int | None = None) -> OneAccount:
        """Removes the CHAP account of `user`, and ends its sessions."""
        request = change("DELETE", "chap-accounts", user, generation=generation)
        return self._answer(OneAccount, None, request)

    def host_list(self) -> KeyedHosts:
        """All NVMe hosts with keys, and all lists of volumes of hosts and initiators."""
        return self._get(KeyedHosts, "hosts")

    def host_add(
        self,
        nqn: str,
        *,
        key: str | None = None,
        controller: Mapping[str, str] | None = None,
        volumes: Mapping[str, Rights] | None = None,
        hash: str | None = None,
        group: str | None = None,
        psk: str | None = None,
        psk_derivation: Literal["standard", "legacy"] | None = None,
        tls: Literal["required", "allowed"] | None = None,
        replace: bool = False,
        generation: int | None = None,
    ) -> OneKeyedHost:
        """Adds the keys of the NVMe host `nqn`.

        `key` is its key for DH-HMAC-CHAP, as `DHHC-1:…:`; by default the node generates one, unless
        there is a PSK. `controller` is `{}` or `{"key": …}` for authentication in both directions.
        `volumes` is its list, for example `{"data": "rw"}`. `hash` and `group` restrict the
        node's choice. `psk` is its PSK for TLS, as `NVMeTLSkey-1:…:`, with `psk_derivation`; `tls`
        says whether the host must use TLS. `replace` permits to replace keys. Raises
        `host-keys-exist`.
        """
        body = {
            "nqn": nqn, "key": key, "controller": controller, "volumes": _listed(volumes),
            "hash": hash, "group": group, "psk": psk, "psk_derivation": psk_derivation,
            "tls": tls, "replace": replace,
        }  # fmt: skip
        request = change("POST", "hosts", body=body, generation=generation)
        return self._answer(OneKeyedHost, None, request)

    def host_remove(
        self, nqn: str, *, forget: bool = False, generation: int | None = None
    ) -> OneKeyedHost:
        """Removes the keys and the list of the host `nqn`, or the list of an initiator. A host with
        keys is disconnected, and does not enter without keys from then on, unless the node is told
        to `forget` them."""
        query = {"forget": forget}
        request = change("DELETE", "hosts", nqn, query=query, generation=generation)
        return self._answer(OneKeyedHost, None, request)

    def host_allow(
        self,
        host: str,
        volumes: Mapping[str, Rights],
        *,
        only: bool = False,
        generation: int | None = None,
    ) -> VolumesOfHost:
        """Gives `host`, an NVMe host or an initiator, rights on `volumes`, as `{"data": "rw"}`.

        From then on, it sees the volumes of its list alone. With `only`, these are the whole list.
        """
        body = {"volumes": _listed(volumes), "only": only}
        request = change("PATCH", "hosts", host, "volumes", body=body, generation=generation)
        return self._answer(VolumesOfHost, "list", request)

    def host_rotate(
        self,
        nqn: str,
        *,
        key: str | None = None,
        psk: str | None = None,
        previous_until: int | None = None,
        generation: int | None = None,
    ) -> OneKeyedHost:
        """Replaces keys of the NVMe host `nqn`, which stays connected.

        `key` is its new key for DH-HMAC-CHAP, as `DHHC-1:…:`; by default the node generates one,
        unless there is a PSK. `psk` is its new PSK for TLS, as `NVMeTLSkey-1:…:`. The replaced ones
        are valid until `previous_until`, in seconds since 1970; by default they are not valid any
        more. Raises `no-such-host`.
        """
        body = {"key": key, "psk": psk, "previous_until": previous_until}
        request = change("POST", "hosts", nqn, "rotate", body=body, generation=generation)
        return self._answer(OneKeyedHost, None, request)

    def host_deny(
        self, host: str, volumes: list[str] | None = None, *, generation: int | None = None
    ) -> VolumesOfHost:
        """Takes `volumes` out of the list of `host`; without them, all, so that it sees none."""
        body = {"volumes": volumes}
        request = change("POST", "hosts", host, "deny", body=body, generation=generation)
        return self._answer(VolumesOfHost, "list", request)

    def host_unlist(self, host: str, *, generation: int | None = None) -> VolumesOfHost:
        """Takes the list of `host` away: it sees what every host without a list sees."""
        request = change("DELETE", "hosts", host, "volumes", generation=generation)
        return self._answer(VolumesOfHost, "list", request)

    # Tokens of HTTP.

    def token_list(self) -> list[TokenInfo]:
        """All tokens of HTTP, in the order of their names."""
        return self._list(TokenInfo, "tokens", "tokens")

    def token_create(
        self,
        name: str,
        scope: TokenScope,
        *,
        expires_at: int | None = None,
        generation: int | None = None,
    ) -> NewToken:
        """Creates the token `name` with this `scope`. Its secret is not shown again.

        `expires_at` is in seconds since 1970; by default it does not expire. Raises `token-exists`.
        """
        body = {"name": name, "scope": scope, "expires_at": expires_at}
        request = change("POST", "tokens", body=body, generation=generation)
        return self._answer(NewToken, None, request)

    def token_remove(self, name: str, *, generation: int | None = None) -> TokenInfo:
        """Removes the token `name`. No later request is accepted with it."""
        request = change("DELETE", "tokens", name, generation=generation)
        return self._answer(TokenInfo, "token", request)


def _listed(volumes: Mapping[str, Rights] | None) -> list[dict[str, str]] | None:
    """The list of a host, as a document has it."""
    if volumes is None:
        return None
    return [{"volume": volume, "rights": rights} for volume, rights in volumes.items()]
