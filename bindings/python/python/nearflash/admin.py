"""Manages a node: volumes, hosts, rights, devices, jobs, and what happens on it.

    from nearflash.admin import Admin

    admin = Admin("/var/lib/nearflash/http.sock")
    made = admin.volume_create("web", 16 << 30, "fast")
    if made.job is not None:
        admin.job_wait(made.job.id, progress=lambda job: print(job.done_bytes, job.total_bytes))

`Admin` has one method for each operation of docs/openapi.json, with its name. The methods use HTTP,
and this module uses the standard library alone. Answers are dataclasses, whose fields have the
names of the documents. Sizes are in bytes; times are in seconds, or in the unit that their name
ends with. Every error is an `AdminError`.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nearflash import _http, _resources
from nearflash._calls import UnconfirmedWarning, change
from nearflash._http import AdminError, Request
from nearflash._resources import *  # noqa: F403 (the types of the answers)
from nearflash._resources import (
    Activity,
    DeviceInfo,
    EventInfo,
    JobInfo,
    OneVolume,
    ReservationInfo,
    Status,
    Trace,
    VolumeDetail,
    VolumeInfo,
)
from nearflash._rights import Rights, RightsCalls

__all__ = ["Admin", "AdminError", "JobEvent", "Rights", "StateEvent", "UnconfirmedWarning"]
__all__ += _resources.__all__

WAIT_MAX = 60
"""The time in seconds for which the node waits for a job in one request."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StateEvent:
    """Volumes, rights, accounts or tokens have changed, or the stream begins."""

    generation: int
    """The generation of the recorded state."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobEvent:
    """The state or the progress of a job has changed."""

    job: JobInfo
    """The job."""


class Admin(RightsCalls):
    """A node, as its operator sees it.

    Any number of threads may use it: each call has a connection of its own.

    The methods that change something take `generation`: the change takes effect only if the
    generation of the node's recorded state is still this one, and is otherwise refused with
    `generation-differs`. Read `status().generation` first, then the resources on which the change
    depends.

    If the connection breaks, queries, `volume_create` and `grant_add` are sent again, since a
    second request has no further effect. Other changes raise `outcome-unknown`.
    """

    def __init__(
        self,
        address: str | os.PathLike[str],
        *,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        timeout: float = 30.0,
    ) -> None:
        """`address` is the path of the node's `http.sock`, or `https://HOST:PORT`.

        A URL needs a token: `token`, or the path `token_file` of a file that has it, as `nearflash
        token create --secret-file` writes it. `ca_file` has the certificate of the node or of its
        issuer, in PEM; by default the system's issuers are trusted. `timeout` is the time in
        seconds for which a call waits for a node that does not answer.

        Raises `ValueError` for an address or options that are not valid, and `OSError` if a file
        cannot be read. It does not connect.
        """
        if token is not None and token_file is not None:
            raise ValueError("token and token_file are both given: give one")
        if token_file is not None:
            token = Path(token_file).read_text().strip()
        issuers = None if ca_file is None else os.fspath(ca_file)
        self._door = _http.Door(address, token, issuers, timeout)

    # The node.

    def health(self) -> bool:
        """Whether the node answers. This needs no valid token."""
        try:
            return self._door.read(Request(method="GET", path=("healthz",))) == b"ok\n"
        except AdminError as error:
            if error.code != "unreachable":
                raise
            return False

    def status(self) -> Status:
        """The state of the node: its health, addresses, devices, volumes, hosts and counters."""
        return self._get(Status, "status")

    def metrics(self) -> str:
        """The metrics, as the text of OpenMetrics 1.0."""
        request = Request(method="GET", path=("metrics",), is_repeatable=True)
        return self._door.read(request).decode()

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document of the node, as JSON."""
        request = Request(method="GET", path=("openapi.json",), is_repeatable=True)
        document: dict[str, Any] = self._parsed(dict, None, self._door.read(request))
        return document

    def activity(self, since: int | None = None) -> Activity:
        """The requests of the last two minutes, in intervals of about a second.

        `since` leaves out the intervals up to this number. The node measures while it is asked: the
        first call has no interval.
        """
        return self._get(Activity, "activity", query={"since": since})

    def event_list(self, after: int | None = None) -> list[EventInfo]:
        """The last lines of the node's log. `after` leaves out those up to this number."""
        return self._list(EventInfo, "events", "log", query={"after": after})

    def trace(
        self,
        *,
        seconds: int = 1,
        every: int = 100,
        records: int = 1000,
        volume: str | None = None,
    ) -> Trace:
        """Traces the stages of one in `every` requests for `seconds` seconds, 60 at most.

        The answer has `records` requests at most, 10,000 at most; with `volume`, only requests to
        this volume. Raises `busy` while the node traces for another caller.
        """
        query = {"seconds": seconds, "every": every, "records": records, "volume": volume}
        return self._get(Trace, "trace", query=query, wait=seconds)

    def events(self) -> Iterator[StateEvent | JobEvent]:
        """The changes of the node from now on: first the present generation and jobs.

        The iterator ends when the node does. Then call it again; nothing is missed, since a stream
        begins with the present state. Raises `busy` if 16 streams are open.
        """
        with self._door.opened(Request(method="GET", path=("v1", "events"))) as response:
            for name, data in _http.sent_events(response):
                if name == "state":
                    yield self._parsed(StateEvent, None, data.encode())
                elif name == "job":
                    yield JobEvent(job=self._parsed(JobInfo, "job", data.encode()))

    # Volumes.

    def volume_list(self) -> list[VolumeInfo]:
        """All volumes, in the order of their names."""
        return self._list(VolumeInfo, "volumes", "volumes")

    def volume_show(self, name: str) -> VolumeDetail:
        """The volume `name`, and its layout if the cluster has it."""
        return self._get(VolumeDetail, "volumes", name)

    def volume_create(
        self,
        name: str,
        bytes: int,
        device: str | None = None,
        *,
        block_size: int | None = None,
        subsystem: str | None = None,
        provisioning: Literal["thin", "thick"] | None = None,
        replicas: int | None = None,
        stripe_unit: int | None = None,
        width: int | None = None,
        placement: str | None = None,
        generation: int | None = None,
    ) -> OneVolume:
        """Creates the volume `name` with `bytes` bytes, on `device` if it is given. Without it, a
        node of a cluster puts the volume into the space of the cluster, and any other node puts it
        on its only device.

        `subsystem` is the subsystem that exports it, by default one with the volume's name.
        `provisioning` is `thin` by default. If the answer has a job, hosts can use the volume once
        it is done.

        `block_size` is for a volume on a device: the size of its logical blocks in bytes, by
        default the node's. The rest is for a volume of a cluster. `replicas` is the number of nodes
        that have each byte, by default 2 if several nodes have slices; the `note` of the answer
        says which was chosen. `stripe_unit` is the number of bytes on one mirror before the next
        one follows, by default 64 KiB. `width` is the number of mirrors, by default as many as suit
        the size. `placement` is `spread`, `local:NODE` or `central:NODE`. The volumes of a cluster
        have no `generation`.

        A volume that exists as asked is returned. Raises `volume-exists` if another one has the
        name, `invalid-value` if the parts do not go together, and `no-space`, `device-not-found`
        and `no-cluster`.
        """
        body = {
            "name": name, "bytes": bytes, "device": device, "block_size": block_size,
            "subsystem": subsystem, "provisioning": provisioning, "replicas": replicas,
            "stripe_unit": stripe_unit, "width": width, "placement": placement,
        }  # fmt: skip
        return self._create(OneVolume, "volumes", body=body, generation=generation)

    def cluster_volume_create(
        self,
        name: str,
        bytes: int,
        replicas: int,
        *,
        stripe_unit: int | None = None,
        width: int | None = None,
        placement: str | None = None,
        subsystem: str | None = None,
        provisioning: Literal["thin", "thick"] | None = None,
    ) -> OneVolume:
        """The earlier name of `volume_create` for a volume of a cluster. Until version 0.2.

        `name`, `bytes`, `replicas`, `stripe_unit`, `width`, `placement`, `subsystem` and
        `provisioning` are those of `volume_create`.
        """
        return self.volume_create(
            name, bytes, replicas=replicas, stripe_unit=stripe_unit, width=width,
            placement=placement, subsystem=subsystem, provisioning=provisioning,
        )  # fmt: skip

    def volume_resize(
        self,
        name: str,
        bytes: int,
        *,
        shrink: bool = False,
        force: bool = False,
        generation: int | None = None,
    ) -> OneVolume:
        """Resizes the volume `name` to `bytes` bytes.

        Raises `would-shrink` if the volume is larger, unless `shrink` permits the loss of the
        blocks past the new end; this needs the scope `admin`. Even then, raises `volume-in-use` if
        somebody uses the volume, and `would-destroy` if it holds a file system, unless `force` is
        true.
        """
        body = {"bytes": bytes, "shrink": shrink, "force": force}
        request = change("PATCH", "volumes", name, body=body, generation=generation)
        return self._answer(OneVolume, None, request)

    def volume_remove(
        self, name: str, *, force: bool = False, generation: int | None = None
    ) -> OneVolume:
        """Removes the volume `name` and its data.

        Raises `volume-in-use` while hosts, initiators or clients use it, unless `force` is true.
        """
        request = change("DELETE", "volumes", name, query={"force": force}, generation=generation)
        return self._answer(OneVolume, None, request)

    def volume_move(
        self, name: str, node: str, *, to: str | None = None, generation: int | None = None
    ) -> JobInfo:
        """Begins to move the replicas of the volume `name` from the node `node` of the cluster to
        `to`, or to any others. Hosts use the volume meanwhile. `job_wait` waits for the end.

        The volume has two replicas. Raises `cluster-refused` if no node has room.
        """
        body = {"node": node, "to": to}
        request = change("POST", "volumes", name, "move", body=body, generation=generation)
        return self._answer(JobInfo, "job", request)

    # Nodes of the cluster.

    def node_drain(self, node: str, *, generation: int | None = None) -> JobInfo:
        """Begins to move all replicas from the node `node` of the cluster to others. It gets no new
        ones, until `node_undrain`. `job_wait` waits for the end."""
        request = change("POST", "nodes", node, "drain", generation=generation)
        return self._answer(JobInfo, "job", request)

    def node_undrain(self, node: str, *, generation: int | None = None) -> str:
        """Has replicas placed on the node `node` again, which was drained. Returns its name."""
        request = change("DELETE", "nodes", node, "drain", generation=generation)
        return self._answer(str, "node", request)

    # Devices and jobs.

    def device_list(self) -> list[DeviceInfo]:
        """All devices, in the order of the configuration."""
        return self._list(DeviceInfo, "devices", "devices")

    def device_clear(self, name: str, *, generation: int | None = None) -> DeviceInfo:
        """Returns the suspect device `name` to service. Writes that it has lost stay lost."""
        request = change("POST", "devices", name, "clear", generation=generation)
        return self._answer(DeviceInfo, "device", request)

    def job_list(self) -> list[JobInfo]:
        """The jobs that run, and the last ones that have ended, in the order of their numbers."""
        return self._list(JobInfo, "jobs", "jobs")

    def job_show(self, id: int, *, wait: int | None = None) -> JobInfo:
        """The job with the number `id`. With `wait`, once it has ended, or after so many seconds,
        60 at most."""
        query = {"wait": wait}
        return self._get(JobInfo, "jobs", str(id), field="job", query=query, wait=wait or 0)

    def job_cancel(self, id: int, *, generation: int | None = None) -> JobInfo:
        """Cancels the job with the number `id`, and undoes its change. Raises `job-over`."""
        request = change("DELETE", "jobs", str(id), generation=generation)
        return self._answer(JobInfo, "job", request)

    def job_wait(
        self,
        id: int,
        *,
        timeout: float | None = None,
        progress: Callable[[JobInfo], object] | None = None,
    ) -> JobInfo:
        """Waits until the job with the number `id` is done, for `timeout` seconds at most.

        Calls `progress` with the job at once, then about once a second, and at the end. Raises the
        error of a job that failed, `cancelled`, or `timeout`; the job goes on after the latter.
        """
        end = None if timeout is None else time.monotonic() + timeout
        job = self.job_show(id)
        while True:
            if progress is not None:
                progress(job)
            if job.state not in ("waiting", "running", "undoing"):
                return _succeeded(job)
            left = WAIT_MAX if end is None else end - time.monotonic()
            if left <= 0:
                raise _http.failure("timeout", f"job {id} has not ended", "wait for it again")
            longest = 1 if progress is not None else WAIT_MAX
            # A part of a second would be no wait at all.
            job = self.job_show(id, wait=max(1, min(longest, int(left))))

    # Reservations.

    def reservation_list(self, volume: str | None = None) -> list[ReservationInfo]:
        """The reservations and registrations of all volumes, or of `volume`."""
        return self._list(ReservationInfo, "reservations", "reservations", query={"volume": volume})

    def reservation_show(self, volume: str) -> list[ReservationInfo]:
        """The reservation and the registrations of `volume`; empty if it has none."""
        return self._list(ReservationInfo, "reservations", "reservations", volume)

    def reservation_clear(self, volume: str, *, generation: int | None = None) -> ReservationInfo:
        """Removes the reservation and all registrations of `volume`. Returns those removed."""
        request = change("DELETE", "reservations", volume, generation=generation)
        return self._answer(ReservationInfo, "reservation", request)


def _succeeded(job: JobInfo) -> JobInfo:
    if job.error is not None:
        raise AdminError(job.error)
    if job.state == "cancelled":
        message = f"job {job.id} was cancelled: volume '{job.volume}' is unchanged"
        raise _http.failure("cancelled", message, "make the change again")
    return job
