//! The table of routes: each method of a resource, and the call that it makes.
//!
//! The fields of a call come from the path, the query and the body, by their names. The call itself
//! refuses fields that it does not know.

use nearflash_api::{
    Accounts, Activity, ChapAdd, CredentialCreate, Credentials, Devices, Events, GrantAdd,
    GrantSeal, Grants, HostAdd, HostAllow, HostDeny, HostRotate, Jobs, KeyedHosts, NewCredential,
    NewSeal, NewToken, OneAccount, OneCredential, OneDevice, OneGrant, OneJob, OneKeyedHost,
    OneNode, OneReservation, OneToken, OneVolume, OneVolumeList, Reservations, Status,
    TRACE_REQUESTS_MAX, TRACE_SECONDS_MAX, TokenCreate, Tokens, Trace, VolumeCreate, VolumeDetail,
    VolumeMove, VolumeResize, Volumes,
};

use crate::schemas::{Described, described};

/// A method of HTTP that resources have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verb {
    Get,
    Post,
    Patch,
    Delete,
}

/// The type of a field of the path or the query.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Text,
    /// With its range, for the document. The call itself refuses other numbers.
    Number {
        min: u64,
        max: u64,
    },
    Flag,
}

const NUMBER: Kind = Kind::Number { min: 0, max: u64::MAX };

const fn up_to(max: u64) -> Kind {
    Kind::Number { min: 1, max }
}

/// A field of the path or the query: its name, its type and its meaning.
pub(crate) type Field = (&'static str, Kind, &'static str);

/// The answer to a successful request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Success {
    /// 200.
    Ok,
    /// 201 with the new resource's location: the path, and the subject of the call.
    Created,
    /// 201 with the location of the new grant, whose number is in the answer.
    CreatedGrant,
}

/// A method of a resource.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) method: Verb,
    pub(crate) path: &'static str,
    /// The name of the call that it makes.
    pub(crate) call: &'static str,
    /// The name of the operation; that of the call by default.
    pub(crate) id: &'static str,
    pub(crate) about: &'static str,
    /// The field in the path.
    pub(crate) field: Option<Field>,
    pub(crate) query: &'static [Field],
    /// The schemas of the bodies that it takes; empty if it takes none.
    pub(crate) bodies: &'static [fn() -> Described],
    pub(crate) success: Success,
    pub(crate) answer: fn() -> Described,
}

impl Route {
    const fn new(
        (method, path): (Verb, &'static str),
        call: &'static str,
        about: &'static str,
        answer: fn() -> Described,
    ) -> Self {
        Self {
            method,
            path,
            call,
            id: call,
            about,
            field: None,
            query: &[],
            bodies: &[],
            success: Success::Ok,
            answer,
        }
    }

    const fn id(self, id: &'static str) -> Self {
        Self { id, ..self }
    }

    const fn field(self, field: Field) -> Self {
        Self { field: Some(field), ..self }
    }

    const fn query(self, query: &'static [Field]) -> Self {
        Self { query, ..self }
    }

    const fn body(self, bodies: &'static [fn() -> Described]) -> Self {
        Self { bodies, ..self }
    }

    const fn creates(self, success: Success) -> Self {
        Self { success, ..self }
    }

    /// Whether it changes nothing.
    pub(crate) fn is_query(&self) -> bool {
        matches!(self.method, Verb::Get)
    }
}

/// The field of the query with which a request for a job waits for its end.
pub(crate) const WAIT: &str = "wait";

const SECONDS: Kind = up_to(TRACE_SECONDS_MAX);
const EVERY: Kind = up_to(u32::MAX as u64);
const RECORDS: Kind = up_to(TRACE_REQUESTS_MAX as u64);

const NAME: Field = ("name", Kind::Text, "The name.");
const HOST: Field = ("host", Kind::Text, "The host's NQN, or the initiator's iSCSI name.");
const NODE: Field = ("node", Kind::Text, "The node of the cluster.");
const JOB: Field = ("id", NUMBER, "The job's number.");

/// The resources that calls answer.
pub(crate) static ROUTES: [Route; 40] = [
    get("/v1/status", "status", "The state of the node", described::<Status>),
    get(
        "/v1/activity",
        "activity",
        "The requests of the last seconds, measured while somebody asks",
        described::<Activity>,
    )
    .query(&[("since", NUMBER, "Only the intervals after this number.")]),
    get("/v1/log", "event-list", "The last events", described::<Events>).query(&[(
        "after",
        NUMBER,
        "Only the events after this number.",
    )]),
    get(
        "/v1/trace",
        "trace",
        "Traces the stages of some requests for a time; one caller at a time",
        described::<Trace>,
    )
    .query(&[
        ("seconds", SECONDS, "The length of the trace: 1 to 60, by default 1."),
        ("every", EVERY, "Trace one in so many requests, by default 100."),
        ("records", RECORDS, "The most requests of the answer: 1 to 10000, by default 1000."),
        ("volume", Kind::Text, "Only requests to this volume."),
    ]),
    get("/v1/volumes", "volume-list", "All volumes", described::<Volumes>),
    post("/v1/volumes", "volume-create", "Creates a volume", described::<OneVolume>)
        .body(&[described::<VolumeCreate>])
        .creates(Success::Created),
    get("/v1/volumes/{name}", "volume-show", "A volume, and its place", described::<VolumeDetail>)
        .field(NAME),
    patch("/v1/volumes/{name}", "volume-resize", "Resizes a volume", described::<OneVolume>)
        .field(NAME)
        .body(&[described::<VolumeResize>]),
    delete("/v1/volumes/{name}", "volume-remove", "Removes a volume", described::<OneVolume>)
        .field(NAME)
        .query(&[("force", Kind::Flag, "Remove it even while it is in use.")]),
    post(
        "/v1/volumes/{name}/move",
        "volume-move",
        "Moves the replicas of a volume from one node of the cluster to others",
        described::<OneJob>,
    )
    .field(NAME)
    .body(&[described::<VolumeMove>]),
    post(
        "/v1/nodes/{node}/drain",
        "node-drain",
        "Moves all replicas from a node of the cluster to others",
        described::<OneJob>,
    )
    .field(NODE),
    delete(
        "/v1/nodes/{node}/drain",
        "node-undrain",
        "Places replicas on a node again that was drained",
        described::<OneNode>,
    )
    .field(NODE),
    get("/v1/devices", "device-list", "All devices", described::<Devices>),
    post(
        "/v1/devices/{name}/clear",
        "device-clear",
        "Returns a suspect device to service",
        described::<OneDevice>,
    )
    .field(NAME),
    get("/v1/jobs", "job-list", "Jobs that run, and the last ones", described::<Jobs>),
    get("/v1/jobs/{id}", "job-show", "A job", described::<OneJob>).field(JOB).query(&[(
        WAIT,
        NUMBER,
        "Wait for the end of the job for so many seconds, 60 at most.",
    )]),
    delete("/v1/jobs/{id}", "job-cancel", "Cancels a job", described::<OneJob>).field(JOB),
    get("/v1/reservations", "reservation-list", "Reservations", described::<Reservations>)
        .query(&[("volume", Kind::Text, "Only of this volume.")]),
    delete(
        "/v1/reservations/{volume}",
        "reservation-clear",
        "Clears the reservations of a volume",
        described::<OneReservation>,
    )
    .field(("volume", Kind::Text, "The volume.")),
    get("/v1/credentials", "credential-list", "All credentials", described::<Credentials>),
    post(
        "/v1/credentials",
        "credential-create",
        "Creates a credential",
        described::<NewCredential>,
    )
    .body(&[described::<CredentialCreate>])
    .creates(Success::Created),
    delete(
        "/v1/credentials/{id}",
        "credential-remove",
        "Removes a credential and its grants",
        described::<OneCredential>,
    )
    .field(("id", Kind::Text, "The key ID.")),
    get("/v1/grants", "grant-list", "Grants", described::<Grants>).query(&[(
        "credential",
        Kind::Text,
        "Only of this credential.",
    )]),
    post("/v1/grants", "grant-add", "Adds a grant", described::<OneGrant>)
        .body(&[described::<GrantAdd>])
        .creates(Success::CreatedGrant),
    delete("/v1/grants/{number}", "grant-revoke", "Revokes a grant", described::<OneGrant>)
        .field(("number", NUMBER, "The grant's number.")),
    post("/v1/seals", "grant-seal", "Mints a seal", described::<NewSeal>)
        .body(&[described::<GrantSeal>]),
    get("/v1/chap-accounts", "chap-list", "All CHAP accounts", described::<Accounts>),
    post("/v1/chap-accounts", "chap-add", "Adds a CHAP account", described::<OneAccount>)
        .body(&[described::<ChapAdd>])
        .creates(Success::Created),
    delete(
        "/v1/chap-accounts/{user}",
        "chap-remove",
        "Removes a CHAP account",
        described::<OneAccount>,
    )
    .field(("user", Kind::Text, "The initiator's user name.")),
    get(
        "/v1/hosts",
        "host-list",
        "All NVMe hosts with keys, and all lists of volumes",
        described::<KeyedHosts>,
    ),
    post("/v1/hosts", "host-add", "Adds the keys of an NVMe host", described::<OneKeyedHost>)
        .body(&[described::<HostAdd>])
        .creates(Success::Created),
    delete(
        "/v1/hosts/{nqn}",
        "host-remove",
        "Removes a host: its keys and its list of volumes; a host with keys is disconnected",
        described::<OneKeyedHost>,
    )
    .field(("nqn", Kind::Text, "The host's NQN, or the initiator's iSCSI name."))
    .query(&[("forget", Kind::Flag, "Forget that it had keys, which it needs otherwise.")]),
    post(
        "/v1/hosts/{nqn}/rotate",
        "host-rotate",
        "Replaces keys of an NVMe host; the old ones can be valid for a while",
        described::<OneKeyedHost>,
    )
    .field(("nqn", Kind::Text, "The host's NQN."))
    .body(&[described::<HostRotate>]),
    patch(
        "/v1/hosts/{host}/volumes",
        "host-allow",
        "Gives a host rights on volumes; with `only`, it has no others",
        described::<OneVolumeList>,
    )
    .field(HOST)
    .body(&[described::<HostAllow>]),
    post(
        "/v1/hosts/{host}/deny",
        "host-deny",
        "Takes volumes, or all, out of the list of a host",
        described::<OneVolumeList>,
    )
    .field(HOST)
    .body(&[described::<HostDeny>]),
    delete(
        "/v1/hosts/{host}/volumes",
        "host-unlist",
        "Takes the list of a host away",
        described::<OneVolumeList>,
    )
    .field(HOST),
    get("/v1/tokens", "token-list", "All tokens", described::<Tokens>),
    post("/v1/tokens", "token-create", "Creates a token", described::<NewToken>)
        .body(&[described::<TokenCreate>])
        .creates(Success::Created),
    delete("/v1/tokens/{name}", "token-remove", "Removes a token", described::<OneToken>)
        .field(NAME),
    get(
        "/v1/reservations/{volume}",
        "reservation-list",
        "The reservations of a volume",
        described::<Reservations>,
    )
    .id("reservation-show")
    .field(("volume", Kind::Text, "The volume.")),
];

const fn get(
    path: &'static str,
    call: &'static str,
    about: &'static str,
    answer: fn() -> Described,
) -> Route {
    Route::new((Verb::Get, path), call, about, answer)
}

const fn post(
    path: &'static str,
    call: &'static str,
    about: &'static str,
    answer: fn() -> Described,
) -> Route {
    Route::new((Verb::Post, path), call, about, answer)
}

const fn patch(
    path: &'static str,
    call: &'static str,
    about: &'static str,
    answer: fn() -> Described,
) -> Route {
    Route::new((Verb::Patch, path), call, about, answer)
}

const fn delete(
    path: &'static str,
    call: &'static str,
    about: &'static str,
    answer: fn() -> Described,
) -> Route {
    Route::new((Verb::Delete, path), call, about, answer)
}
