"""The answers of a node, as dataclasses. `scripts/python-resources` writes this file from
docs/openapi.json.

Sizes are in bytes, and times in the unit of the field's name or description. A later node may send
further fields, which are left out here, and further values of a `Literal`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "Activity",
    "ApiError",
    "AwaitedNode",
    "AwaitedReason",
    "BackingInfo",
    "BackingState",
    "ChapInfo",
    "ClientInfo",
    "ClusterNodeInfo",
    "ClusterView",
    "CopyInfo",
    "CoreInfo",
    "CredentialInfo",
    "DeviceInfo",
    "EraseBucket",
    "ErasesInfo",
    "EventInfo",
    "EventLevel",
    "FlashInfo",
    "GrantInfo",
    "HostInfo",
    "HostIo",
    "HostVolume",
    "HungCoreInfo",
    "InitiatorInfo",
    "Interval",
    "Io",
    "IscsiClash",
    "JobInfo",
    "JobState",
    "KeyedHost",
    "KeyedHosts",
    "Latency",
    "Level",
    "MirrorInfo",
    "NewCredential",
    "NewSeal",
    "NewToken",
    "OneAccount",
    "OneKeyedHost",
    "OneVolume",
    "OpenAddress",
    "PcmInfo",
    "PlaceInfo",
    "RefusedLogins",
    "RegistrantInfo",
    "ReplicaInfo",
    "ReservationInfo",
    "StageTimes",
    "Status",
    "Subject",
    "TokenInfo",
    "TokenScope",
    "Trace",
    "TracedRequest",
    "Verdict",
    "VolumeDetail",
    "VolumeInfo",
    "VolumeIo",
    "VolumeLayout",
    "VolumeState",
    "VolumesOfHost",
    "WithdrawalInfo",
]

AwaitedReason = Literal["zeroing", "slice-closed", "down"]
"""Why a job waits for a node."""

BackingState = Literal["enough", "overcommitted", "full"]
"""Whether the file system has room for the devices that are files in it."""

EventLevel = Literal["info", "warning", "error"]
"""The level of an event."""

JobState = Literal["waiting", "running", "undoing", "done", "failed", "cancelled"]
"""The state of a job."""

Level = Literal["ok", "warning", "problem"]
"""The level of a verdict."""

TokenScope = Literal["read", "operate", "admin"]
"""The calls that a token permits. Each scope includes the ones before it."""

VolumeState = Literal["making", "removing"]
"""The state of a volume of a cluster that hosts do not see."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Activity:
    """The requests of the last seconds."""

    hosts: list[HostIo]
    """The hosts with requests in the last interval, over all volumes, in the same order, 256 at
    most."""

    intervals: list[Interval]
    """The intervals that the node still has, two minutes at most; the oldest first."""

    volumes: list[VolumeIo]
    """The volumes with requests in the last interval, those with the most requests first, 256 at
    most. `hosts` is empty."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiError:
    """The reason why a call was not executed."""

    code: str
    """The kind of error."""

    message: str
    """The failure and its cause, in one line that names the resource and the remedy."""

    remedy: str
    """The general remedy for errors of this code."""

    subject: Subject | None = None
    """The affected resource, if there is one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AwaitedNode:
    """A node that a job of a cluster waits for."""

    node: str
    """Its name."""

    reason: AwaitedReason
    """The reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BackingInfo:
    """The file system below a device that is a file."""

    free_bytes: int
    """The bytes that are free in the file system."""

    state: BackingState
    """Whether it is enough."""

    unallocated_bytes: int
    """The bytes of the device that have no storage in the file system yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChapInfo:
    """A CHAP account, without its secrets."""

    initiators: list[str] = field(default_factory=list)
    """The iSCSI names of the initiators that may use it. Absent for every initiator."""

    mutual_user: str | None = None
    """The node's user name for mutual CHAP. Absent without mutual CHAP."""

    user: str
    """The initiator's user name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientInfo:
    """A connection of the direct protocol."""

    core: int
    """The processor that serves it."""

    credential: str | None = None
    """Its credential. Absent if it is anonymous."""

    from_: str
    """Its address, or its process on this machine."""

    in_flight: int
    """Its current requests in flight."""

    is_in: bool
    """Whether it has been admitted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterNodeInfo:
    """A node of a cluster."""

    data_bytes: int
    """The bytes of its slices for volumes, used and free."""

    free_bytes: int
    """The bytes of these that new volumes can use."""

    is_running: bool
    """Whether it counts as running. It does for some seconds after it was killed."""

    name: str
    """Its name."""

    primaries: int
    """The mirrors whose primary is one of them."""

    replicas: int
    """The replicas on its slices."""

    uuid: str
    """Its UUID."""

    version: str
    """The version of its program."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterView:
    """A cluster, as one of its nodes sees it."""

    copies: list[CopyInfo] = field(default_factory=list)
    """The mirrors that this node copies to a replica which returns."""

    hung_cores: list[HungCoreInfo] = field(default_factory=list)
    """The cores of this node that do not turn: until they do, it leaves its mirrors to their other
    nodes. Absent if all turn."""

    node: str
    """The name of the node in it."""

    nodes: list[ClusterNodeInfo] = field(default_factory=list)
    """The nodes, in the order of their numbers; empty while they are unknown."""

    reason: str
    """The reason and the remedy."""

    uuid: str
    """The cluster's UUID."""

    verdict: str
    """`ok`, `degraded`, `at risk` or `unavailable`."""

    withdrawals: list[WithdrawalInfo] = field(default_factory=list)
    """Volumes that this node no longer serves, and whose older requests have not ended for some
    seconds. Their space is not used again before these requests have ended. Absent if there are
    none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyInfo:
    """A mirror that is compared with a replica which returns, and copied to it."""

    bytes: int
    """The length of the mirror."""

    done_bytes: int
    """The bytes that have been gone through."""

    mirror: int
    """The mirror's number in it."""

    volume: str
    """The volume."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CoreInfo:
    """Counters of a core since the start of the node."""

    clients: int = 0
    """Current clients of the direct protocol."""

    connections: int
    """Current TCP connections."""

    core: int
    """The processor."""

    errors: int
    """Failed requests."""

    in_flight: int
    """Current requests in flight."""

    pool_free_bytes: int
    """Bytes of the buffer pool that are currently free."""

    read_bytes: int
    """Bytes read."""

    reads: int
    """Reads completed."""

    writes: int
    """Writes completed."""

    written_bytes: int
    """Bytes written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CredentialInfo:
    """A credential, without its secret."""

    expired: bool
    """Whether it has expired."""

    expires_at: int | None = None
    """Time of expiry, in seconds since 1970. Absent if it does not expire."""

    grants: int
    """The number of its grants."""

    id: str
    """Its key ID."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceInfo:
    """A device."""

    backing: BackingInfo | None = None
    """The file system below a device that is a file. Absent for other devices."""

    block_size: int
    """The smallest unit that it writes atomically, in bytes."""

    bytes: int
    """Its size in bytes."""

    data_bytes: int
    """The bytes available to volumes, used and free."""

    flash: FlashInfo | None = None
    """The wear of a model of flash. Absent for other devices."""

    free_bytes: int
    """The bytes of these that are free."""

    kind: str
    """`file`, `block`, `ram`, `null`, `flash` or `pcm`; `remote` or `mirror` for a volume
    elsewhere."""

    name: str
    """Its name."""

    pcm: PcmInfo | None = None
    """The wear of a model of phase-change memory. Absent for other devices."""

    source: str | None = None
    """The kind, the path or size, and the options that it is configured with, for example
    `file:/srv/flash.img,size=16GiB`. Absent for a volume of another node."""

    suspect: bool = False
    """Whether it is suspect, since a flush or durable write has failed: flushes and durable writes
    fail until an operator clears it. Absent if false."""

    truncated: bool = False
    """Whether its file ends before the device does: writes fail, and so do reads behind the end.
    Absent if false."""

    uuid: str
    """Its UUID."""

    volatile_cache: bool
    """Whether it has a volatile write cache: a power failure loses completed writes that were not
    flushed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EraseBucket:
    """The blocks that were erased so often."""

    blocks: int
    """The number of blocks."""

    from_: int
    """The fewest erases."""

    to: int
    """The most erases."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasesInfo:
    """The distribution of erases over blocks."""

    buckets: list[EraseBucket]
    """Ranges of erases of the same width, without the empty ones."""

    max: int
    """The most."""

    median: int
    """The median."""

    min: int
    """The least."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EventInfo:
    """An event."""

    at_ms: int
    """Its time, in milliseconds since 1970."""

    fields: dict[str, str] = field(default_factory=dict)
    """The fields: for example the host that connected, or who made a change."""

    level: EventLevel
    """Its level."""

    number: int
    """Its number. Later events have higher numbers, also after a restart of the node."""

    text: str
    """The text, in one line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FlashInfo:
    """The wear of a model of flash since the start of the node."""

    endurance: int
    """The erases that a block endures."""

    erases: ErasesInfo
    """The erases of the blocks."""

    host_bytes: int
    """Bytes that were written to the device."""

    host_pages: int
    """Pages that these writes programmed. A write of a part of a page programs all of it."""

    levelled_pages: int
    """Pages that wear levelling moved."""

    life_used: float
    """The mean number of erases, as a share of the endurance."""

    moved_pages: int
    """Pages that garbage collection moved."""

    replacement_blocks: int
    """Blocks that can still replace worn ones."""

    retired_blocks: int
    """Blocks that are worn out, and out of use."""

    worn_out: bool
    """Whether the device is worn out: it refuses writes."""

    write_amplification: float
    """Bytes programmed for each byte that was written; 1 before the first write."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GrantInfo:
    """A grant."""

    credential: str
    """The credential that holds this grant; empty if `seal` is true."""

    end: int | None = None
    """The first byte past the range. Absent when the range ends with the volume."""

    expired: bool
    """Whether it has expired."""

    expires_at: int | None = None
    """Time of expiry, in seconds since 1970. Absent if it does not expire."""

    number: int
    """Its number, which is never reused."""

    path: str | None = None
    """The directory whose files it covers, instead of a range. Absent for a range."""

    rights: str
    """`r` or `rw`."""

    seal: bool = False
    """Whether its seal gives the grant to everyone who has the seal."""

    start: int
    """The first byte of the range; 0 with a path."""

    volume: str
    """The volume."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostInfo:
    """A host's association with a subsystem."""

    address: str
    """The address from which the host connected."""

    host: str
    """The host's NQN."""

    io_queues: int
    """The number of its I/O queues."""

    nqn: str
    """The subsystem's NQN."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostIo:
    """The counters of a host on a volume, over all of its connections and all cores."""

    errors: int
    """Failed requests."""

    in_flight: int = 0
    """Requests that are in flight now."""

    other_bytes: int = 0
    """Bytes that others zeroed, compared or verified."""

    other_errors: int = 0
    """Failed others."""

    other_latency: Latency | None = None
    """Latency of others. Absent without others."""

    other_wait: Latency | None = None
    """The part of the latency that other requests spent waiting. Absent if none had to."""

    others: int = 0
    """Successful others."""

    read_bytes: int
    """Bytes read."""

    read_errors: int = 0
    """Failed reads."""

    read_latency: Latency | None = None
    """Latency of reads. Absent without reads."""

    read_wait: Latency | None = None
    """The part of the latency that reads spent waiting, over the reads that had to wait. Absent if
    none had to."""

    reads: int
    """Successful reads."""

    waiting: int = 0
    """The part of them that waits for its turn, a buffer or a fence."""

    write_errors: int = 0
    """Failed writes."""

    write_latency: Latency | None = None
    """Latency of writes. Absent without writes."""

    write_wait: Latency | None = None
    """The part of the latency that writes spent waiting. Absent if none had to."""

    writes: int
    """Successful writes."""

    written_bytes: int
    """Bytes written."""

    host: str | None = None
    """An NVMe host's NQN, an initiator's name, or a direct client's credential. Absent for
    anonymous clients, and for `several`."""

    several: bool = False
    """True if this entry is the sum of all hosts beyond the number that the node can count
    separately. Absent if false."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostVolume:
    """A volume in the list of a host."""

    rights: str = ""
    """`r`: the volume is write protected for the host; or `rw`, the default."""

    volume: str
    """The volume."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HungCoreInfo:
    """A core that does not turn."""

    core: int
    """The processor."""

    seconds: int
    """The time since its last turn, in seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InitiatorInfo:
    """An iSCSI session."""

    address: str
    """The address of its first connection."""

    connections: int
    """The number of its connections."""

    core: int
    """The processor that serves it."""

    initiator: str
    """The initiator's name."""

    target: str | None = None
    """The target's name. Absent for a discovery session."""

    user: str | None = None
    """Its CHAP account. Absent if it did not need one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """An interval."""

    errors: int
    """Failed requests."""

    in_flight: int = 0
    """Requests that are in flight now."""

    other_bytes: int = 0
    """Bytes that others zeroed, compared or verified."""

    other_errors: int = 0
    """Failed others."""

    other_latency: Latency | None = None
    """Latency of others. Absent without others."""

    other_wait: Latency | None = None
    """The part of the latency that other requests spent waiting. Absent if none had to."""

    others: int = 0
    """Successful others."""

    read_bytes: int
    """Bytes read."""

    read_errors: int = 0
    """Failed reads."""

    read_latency: Latency | None = None
    """Latency of reads. Absent without reads."""

    read_wait: Latency | None = None
    """The part of the latency that reads spent waiting, over the reads that had to wait. Absent if
    none had to."""

    reads: int
    """Successful reads."""

    waiting: int = 0
    """The part of them that waits for its turn, a buffer or a fence."""

    write_errors: int = 0
    """Failed writes."""

    write_latency: Latency | None = None
    """Latency of writes. Absent without writes."""

    write_wait: Latency | None = None
    """The part of the latency that writes spent waiting. Absent if none had to."""

    writes: int
    """Successful writes."""

    written_bytes: int
    """Bytes written."""

    ended_at_ms: int
    """The time of its end, in milliseconds since 1970."""

    millis: int
    """Its length in milliseconds."""

    number: int
    """Its number. The next interval has the next number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Io:
    """Counters of requests. The others are flushes, zeroes, deallocations, comparisons and
    verifications: all requests that are neither reads nor writes."""

    errors: int
    """Failed requests."""

    in_flight: int = 0
    """Requests that are in flight now."""

    other_bytes: int = 0
    """Bytes that others zeroed, compared or verified."""

    other_errors: int = 0
    """Failed others."""

    other_latency: Latency | None = None
    """Latency of others. Absent without others."""

    other_wait: Latency | None = None
    """The part of the latency that other requests spent waiting. Absent if none had to."""

    others: int = 0
    """Successful others."""

    read_bytes: int
    """Bytes read."""

    read_errors: int = 0
    """Failed reads."""

    read_latency: Latency | None = None
    """Latency of reads. Absent without reads."""

    read_wait: Latency | None = None
    """The part of the latency that reads spent waiting, over the reads that had to wait. Absent if
    none had to."""

    reads: int
    """Successful reads."""

    waiting: int = 0
    """The part of them that waits for its turn, a buffer or a fence."""

    write_errors: int = 0
    """Failed writes."""

    write_latency: Latency | None = None
    """Latency of writes. Absent without writes."""

    write_wait: Latency | None = None
    """The part of the latency that writes spent waiting. Absent if none had to."""

    writes: int
    """Successful writes."""

    written_bytes: int
    """Bytes written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IscsiClash:
    """An iSCSI name that several subsystems would have: names of volumes and subsystems tell
    capital from small letters, and `_` from `-`, and iSCSI names do not."""

    iqn: str
    """The iSCSI name."""

    left_out: list[str]
    """The subsystems that initiators do not see."""

    served: str | None = None
    """The subsystem that is its target. Absent if none is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobInfo:
    """A job. It survives a restart of the node, and its number is never reused."""

    done_bytes: int
    """Bytes processed."""

    ended_at: int | None = None
    """End time, in seconds since 1970. Absent while it runs."""

    error: ApiError | None = None
    """The reason why it failed. Absent unless it failed."""

    id: int
    """Its number."""

    kind: str
    """The call that started it, for example `volume-create`."""

    started_at: int
    """Start time, in seconds since 1970."""

    state: JobState
    """Its state."""

    total_bytes: int
    """Bytes in total."""

    volume: str
    """The volume that it changes, or the node that it drains."""

    waits_for: list[AwaitedNode] = field(default_factory=list)
    """The nodes that a job of a cluster waits for. Absent if there are none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyedHost:
    """A host with keys, without the keys."""

    dhchap: bool = False
    """It has a key for DH-HMAC-CHAP, and must authenticate."""

    group: str | None = None
    """The only Diffie-Hellman group that the node selects. Absent if it selects any."""

    hash: str | None = None
    """The only hash that the node selects. Absent if it selects any."""

    mutual: bool
    """The controller has a key, too, so that the host can ask it to authenticate."""

    nqn: str
    """The host's NQN."""

    previous_key_until: int | None = None
    """The time until which the key for DH-HMAC-CHAP that the present one has replaced is valid, in
    seconds since 1970. Absent if no replaced key is valid."""

    previous_psk_until: int | None = None
    """The time until which a replaced PSK is valid, in seconds since 1970. Absent without one."""

    psk_derivation: str | None = None
    """The derivation of its TLS PSKs: `standard` or `legacy`. Absent if it has no PSK."""

    tls: str | None = None
    """Whether the host must use TLS: `required` or `allowed`. Absent if it has no PSK."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyedHosts:
    """All hosts with keys, and all lists of volumes."""

    hosts: list[KeyedHost]
    """In the order of their NQNs."""

    lists: list[VolumesOfHost] = field(default_factory=list)
    """The lists of volumes, in the order of the hosts' names."""

    removed: list[str] = field(default_factory=list)
    """The NQNs of the hosts whose keys were removed. They do not enter without keys. Absent if
    there are none."""

    unlisted: str
    """The volumes that hosts without a list see: `all` or `none`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Latency:
    """Times since the arrival of requests, failed ones included. A percentile exceeds the exact one
    by at most an eighth, or by 127 ns. The clock is read once in each turn of a core, so a request
    that is answered in the turn in which it arrived counts as zero."""

    count: int = 0
    """The number of requests."""

    max_ns: int
    """The maximum."""

    mean_ns: int = 0
    """The mean."""

    p50_ns: int
    """The median."""

    p999_ns: int
    """The 99.9th percentile."""

    p99_ns: int
    """The 99th percentile."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MirrorInfo:
    """A part of a volume that lies in one piece on each of its replicas."""

    bytes: int
    """Its size in bytes."""

    number: int
    """Its number in the volume."""

    replicas: list[ReplicaInfo]
    """Its replicas."""

    row: int
    """The row of mirrors that it belongs to."""

    term: int
    """The number of changes of its membership, from 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewCredential:
    """A new credential, with its secret."""

    credential: CredentialInfo
    """The credential."""

    secret: str = field(repr=False)
    """Its secret. It is not shown again."""

    unconfirmed: list[str] = field(default_factory=list)
    """The nodes of the cluster that may not serve by the change yet: see `unconfirmed` in the
    documentation of access. Absent if there are none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewSeal:
    """A seal that was minted."""

    grant: GrantInfo
    """Its grant. Revoking it voids the seal."""

    token: str = field(repr=False)
    """The token, for the option `seal` of a URL. It is not shown again."""

    unconfirmed: list[str] = field(default_factory=list)
    """The nodes of the cluster that may not serve by the change yet: see `unconfirmed` in the
    documentation of access. Absent if there are none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewToken:
    """A new token, with its secret."""

    secret: str = field(repr=False)
    """Its secret, for the header `Authorization: Bearer`. It is not shown again."""

    token: TokenInfo
    """The token."""

    unconfirmed: list[str] = field(default_factory=list)
    """The nodes of the cluster that may not serve by the change yet: see `unconfirmed` in the
    documentation of access. Absent if there are none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OneAccount:
    """An account that was added or removed."""

    account: ChapInfo
    """The account."""

    mutual_secret: str | None = field(default=None, repr=False)
    """The secret that the node generated for itself. It is not shown again."""

    secret: str | None = field(default=None, repr=False)
    """The secret that the node generated for the initiator. It is not shown again."""

    unconfirmed: list[str] = field(default_factory=list)
    """The nodes of the cluster that may not serve by the change yet: see `unconfirmed` in the
    documentation of access. Absent if there are none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OneKeyedHost:
    """A host whose keys were added, replaced or removed."""

    controller_key: str | None = field(default=None, repr=False)
    """The key that the node generated for the controller. It is not shown again."""

    host: KeyedHost
    """The host."""

    key: str | None = field(default=None, repr=False)
    """The key that the node generated for the host. It is not shown again."""

    unconfirmed: list[str] = field(default_factory=list)
    """The nodes of the cluster that may not serve by the change yet: see `unconfirmed` in the
    documentation of access. Absent if there are none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OneVolume:
    """A volume after a change, or before its removal."""

    job: JobInfo | None = None
    """The job that completes the change. Absent if the change is complete."""

    note: str | None = None
    """Advice to the operator on the next step. Absent if there is none."""

    volume: VolumeInfo
    """The volume."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenAddress:
    """An address at which everybody uses the volumes."""

    address: str
    """The address."""

    protocol: str
    """`nvme-tcp`, `direct` or `iscsi`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PcmInfo:
    """The wear of a model of phase-change memory since the start of the node."""

    endurance: int
    """The writes that a place endures."""

    host_bytes: int
    """Bytes that were written to the device."""

    host_lines: int
    """Lines that these writes wrote."""

    life_used: float
    """The most writes, as a share of the endurance."""

    line_writes_max: int
    """The most writes of a place of a line."""

    line_writes_mean: float
    """The mean of the writes of all places."""

    mean_read_ns: int
    """The mean time of a read in the model. Answers do not wait for it."""

    mean_write_ns: int
    """The mean time of a write in the model. Answers do not wait for it."""

    moved_lines: int
    """Lines that start-gap moved."""

    worn_out: bool
    """Whether the device is worn out: it refuses writes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlaceInfo:
    """The use of the places of one kind. A peer that finds none is refused."""

    held: int = 0
    """The number of those."""

    holder: str | None = None
    """The host, initiator, credential or address that has the most. Absent if none is taken; of
    connections, it is among direct clients, and of one core."""

    kind: str
    """`nvme-controllers`, `nvme-discovery-controllers`, `iscsi-sessions`, `iscsi-discovery-
    sessions`, `connections`, or `unproved-connections`: those whose peers have not proved yet who
    they are."""

    places: int
    """All places."""

    used: int
    """The taken places."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedLogins:
    """The logins that the node has refused lately."""

    last_10_minutes: int
    """Those of the last ten minutes."""

    last_from: str
    """The address or the user of the last one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RegistrantInfo:
    """A registrant."""

    holds: bool
    """Whether it holds the reservation."""

    key: str
    """Its reservation key, in hexadecimal."""

    who: str
    """The initiator port's name, or the host identifier."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicaInfo:
    """A copy of a mirror."""

    is_in_sync: bool
    """Whether it has every write that was acknowledged."""

    is_primary: bool
    """Whether it orders the writes of the mirror."""

    is_up: bool
    """Whether the node runs, as far as the cluster's store knows."""

    node: str
    """The node."""

    slice: str
    """The slice, by its name at the node."""

    start: int
    """Its first byte on the slice's device."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReservationInfo:
    """A volume's reservation and registrations."""

    kind: str | None = None
    """Its reservation type. Absent if it is not reserved. `exclusive-by-session` is SCSI's legacy
    reservation (RESERVE), which ends with the session."""

    persists: bool
    """Whether its registrations and reservation persist through a restart of the node (APTPL,
    PTPL)."""

    registrants: list[RegistrantInfo]
    """All registrants."""

    volume: str
    """The volume."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StageTimes:
    """The times of the stages, in nanoseconds, in their order."""

    admission_ns: int
    """In the admission queue, for a buffer, a device or a turn."""

    answer_ns: int
    """Until its session has the answer."""

    decode_ns: int
    """Until the session has decoded it: since the node has read the last bytes that it needed,
    including those of its data."""

    device_ns: int
    """Until the core has seen the end of its last operation."""

    sending_ns: int
    """Until the socket or the ring has taken the answer."""

    submission_ns: int
    """Until its first operation is handed to a device or another node."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """The state of a node."""

    clients: list[ClientInfo] = field(default_factory=list)
    """Clients of the direct protocol: the first thousand of each core."""

    closed: list[str] = field(default_factory=list)
    """The protocols that nobody can use, because their last key was removed: `direct`, `iscsi`.
    Absent if there is none."""

    cluster: ClusterView | None = None
    """The cluster, as the node sees it. Absent without one."""

    commit: str | None = None
    """The commit that it was built from, if the build script could determine it."""

    cores: list[CoreInfo]
    """The cores that answered in time."""

    devices: list[DeviceInfo]
    """All devices."""

    direct: list[str] = field(default_factory=list)
    """The TCP addresses bound for the direct protocol."""

    direct_local: str | None = None
    """The Unix socket of the direct protocol."""

    direct_tls: list[str] = field(default_factory=list)
    """Those of them that require TLS. Absent if none does."""

    files_faults: list[str] = field(default_factory=list)
    """Why the files of volumes are not served, each in one line with its remedy. Absent if all are,
    and for volumes that are not formatted yet."""

    generation: int = 0
    """The generation of the recorded state, which each change increases. It is read before the
    rest."""

    hosts: list[HostInfo]
    """All connected hosts."""

    http: str | None = None
    """The address bound for HTTP, which is always with TLS. Absent without one."""

    http_local: str | None = None
    """The Unix socket for HTTP. Absent with `--http none`."""

    initiators: list[InitiatorInfo] = field(default_factory=list)
    """iSCSI sessions."""

    iscsi: list[str] = field(default_factory=list)
    """The addresses bound for iSCSI."""

    iscsi_clashes: list[IscsiClash] = field(default_factory=list)
    """The iSCSI names that several subsystems would have. Absent if there are none, and without an
    iSCSI address."""

    jobs: list[JobInfo] = field(default_factory=list)
    """Jobs that have not ended."""

    node: str
    """The UUID of the installation."""

    nvme_tcp: list[str]
    """The addresses bound for NVMe/TCP."""

    nvme_tcp_tls: list[str] = field(default_factory=list)
    """Those of them that require TLS. Absent if none does."""

    open_to_everyone: list[OpenAddress] = field(default_factory=list)
    """The addresses that other machines reach, and at which everybody uses the volumes, without a
    key and without being named. Absent if there are none."""

    pid: int
    """The process ID."""

    places: list[PlaceInfo] = field(default_factory=list)
    """The use of the places of hosts, initiators and clients, of which a node has a limited number.
    Absent if no core answered."""

    refused_logins: RefusedLogins | None = None
    """The logins that were refused lately. Absent if there are none."""

    silent_cores: list[int] = field(default_factory=list)
    """The processors of the cores that did not answer in time. They, their clients, and the hosts
    and sessions that they report are missing; `volume_io` counts them too. Absent if all
    answered."""

    uptime_seconds: int
    """Seconds since the node became ready."""

    verdict: Verdict
    """The health of the node."""

    version: str
    """The version of the program."""

    volume_io: list[VolumeIo] = field(default_factory=list)
    """Counters of each volume and of each of its hosts. Absent if there are no volumes."""

    volumes: list[VolumeInfo]
    """All volumes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A resource."""

    kind: str
    """`volume`, `device`, `credential`, `grant`, `chap-account`, `token`, `host` or `job`."""

    name: str
    """Its name or number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenInfo:
    """A token, without its secret."""

    expired: bool
    """Whether it has expired."""

    expires_at: int | None = None
    """Time of expiry, in seconds since 1970. Absent if it does not expire."""

    name: str
    """Its name."""

    scope: TokenScope
    """The calls that it permits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """Traced requests."""

    every: int
    """One in so many requests was traced."""

    is_full: bool
    """A core had its part of the records before the end, and then traced no more."""

    requests: list[TracedRequest]
    """The requests that were answered before the end, by their arrival on each core."""

    silent: list[int]
    """The processors of cores that did not answer."""

    unfinished: int
    """The number of traced requests whose answers had not been sent at the end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedRequest:
    """A traced request."""

    bytes: int
    """The length of its range."""

    connection: int
    """The number of its connection on this core: a queue of an NVMe host, or a connection of a
    session. It is used again after the end of the connection."""

    core: int
    """The processor of its core."""

    host: str | None = None
    """The host, if it has a name."""

    in_flight: int
    """The other requests of the core in flight when it came."""

    operation: str
    """`read`, `write`, `flush`, `write-zeroes`, `deallocate`, `compare`, or another one."""

    protocol: str
    """`nvme-tcp`, `iscsi` or `direct`."""

    received_ns: int
    """When the node had read it, in nanoseconds since the start of the node."""

    stages: StageTimes
    """Its stages. Their sum is the whole time in the node."""

    volume: str | None = None
    """The volume; absent if it is removed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The health of a node."""

    level: Level
    """The worst of the findings."""

    reasons: list[str] = field(default_factory=list)
    """The findings, each in one line with its remedy; empty if all is well."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VolumeDetail:
    """A volume and its layout."""

    layout: VolumeLayout | None = None
    """Its layout in the cluster; absent for a volume on a device of the node."""

    volume: VolumeInfo
    """The volume."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VolumeInfo:
    """A volume."""

    block_size: int
    """The size of its logical blocks in bytes."""

    bytes: int
    """Its size in bytes."""

    device: str
    """The device that holds it."""

    files: str | None = None
    """The state of its files, for people. Absent if the node does not own the files of the
    volume."""

    job: int | None = None
    """The job that prepares it. Hosts cannot use the part that is not prepared yet. Absent if the
    volume is completely prepared."""

    name: str
    """Its name."""

    nqn: str
    """The NQN of the subsystem that exports it."""

    nsid: int
    """Its namespace ID in that subsystem."""

    provisioning: str = ""
    """`thin` if deallocated blocks are released where the device supports that, otherwise
    `thick`."""

    state: VolumeState | None = None
    """Why hosts do not see it. Absent if it exists completely."""

    uuid: str
    """Its UUID."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VolumeIo:
    """The counters of a volume, over all hosts and cores."""

    errors: int
    """Failed requests."""

    in_flight: int = 0
    """Requests that are in flight now."""

    other_bytes: int = 0
    """Bytes that others zeroed, compared or verified."""

    other_errors: int = 0
    """Failed others."""

    other_latency: Latency | None = None
    """Latency of others. Absent without others."""

    other_wait: Latency | None = None
    """The part of the latency that other requests spent waiting. Absent if none had to."""

    others: int = 0
    """Successful others."""

    read_bytes: int
    """Bytes read."""

    read_errors: int = 0
    """Failed reads."""

    read_latency: Latency | None = None
    """Latency of reads. Absent without reads."""

    read_wait: Latency | None = None
    """The part of the latency that reads spent waiting, over the reads that had to wait. Absent if
    none had to."""

    reads: int
    """Successful reads."""

    waiting: int = 0
    """The part of them that waits for its turn, a buffer or a fence."""

    write_errors: int = 0
    """Failed writes."""

    write_latency: Latency | None = None
    """Latency of writes. Absent without writes."""

    write_wait: Latency | None = None
    """The part of the latency that writes spent waiting. Absent if none had to."""

    writes: int
    """Successful writes."""

    written_bytes: int
    """Bytes written."""

    hosts: list[HostIo] = field(default_factory=list)
    """Each host that has sent a request to it."""

    volume: str
    """The volume."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VolumeLayout:
    """The layout of a volume of the cluster."""

    mirrors: list[MirrorInfo]
    """The mirrors, in the order of the volume's blocks."""

    placement: str
    """The rule by which slices were chosen."""

    replicas: int
    """The number of nodes that have each byte."""

    space_bytes: int = 0
    """The bytes of its space, on all replicas."""

    stripe_unit: int
    """The number of bytes on one mirror before the next one follows."""

    width: int
    """The number of mirrors of a row."""

    zeroed_bytes: int = 0
    """Those that have been zeroed. While another node zeroes, only whole rows are counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VolumesOfHost:
    """The list of a host: it sees these volumes, and no others."""

    host: str
    """The host's NQN, or the initiator's iSCSI name in lower case."""

    volumes: list[HostVolume]
    """In the order of their names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WithdrawalInfo:
    """Volumes, or parts of them, that were removed or moved while requests on them were under
    way."""

    devices: list[str]
    """The devices with their space on this node."""

    seconds: int
    """The time since then, in seconds."""

    volumes: list[str]
    """Their names."""
