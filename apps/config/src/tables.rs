//! Resources as strings or tables of a file: volumes, devices, volumes of other nodes, and the access of
//! hosts, initiators and direct clients.
//!
//! A table has the parts of the one-line form as keys, and both forms have the same value. Only a table can
//! have a path with a comma.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;

use nearflash_access::{ChapUser, Covered, GrantRange, InitiatorName, Rights};
use nearflash_media::DeviceSpec;
use nearflash_nvme::Nqn;
use nearflash_nvme::auth::{DhGroup, Hash};
use nearflash_nvme::tls::{Demand, Derivation};
use nearflash_space::Name;
use nearflash_units::parse_size;

use super::file::{KeyForm, Table, TableForm, TableKey, Value};
use super::remote::RemoteSpec;
use super::volume_spec::{UnplacedVolume, VolumeParts, VolumeSpec};
use super::{ValueError, parse_volume};

const fn required(name: &'static str) -> TableKey {
    TableKey { name, is_required: true, form: KeyForm::Text }
}

const fn optional(name: &'static str) -> TableKey {
    TableKey { name, is_required: false, form: KeyForm::Text }
}

const fn switch(name: &'static str) -> TableKey {
    TableKey { name, is_required: false, form: KeyForm::Switch }
}

pub(super) const VOLUME: TableForm = TableForm {
    name: "volume",
    keys: &[
        required("name"),
        required("size"),
        optional("device"),
        optional("block-size"),
        optional("subsystem"),
        optional("provisioning"),
        optional("replicas"),
        optional("stripe-unit"),
        optional("width"),
        optional("placement"),
    ],
};

/// The keys of every kind of device; the kind decides which of them it takes.
const DEVICE_KEYS: [TableKey; 21] = [
    required("name"),
    required("kind"),
    optional("path"),
    optional("size"),
    switch("wipe"),
    optional("read-delay"),
    optional("write-delay"),
    optional("spare"),
    optional("page"),
    optional("block"),
    optional("gc"),
    optional("moves"),
    optional("dies"),
    optional("read"),
    optional("write"),
    optional("program"),
    optional("erase"),
    optional("endurance"),
    optional("data"),
    optional("start-gap"),
    switch("randomise"),
];

pub(super) const DEVICE: TableForm = TableForm { name: "device", keys: &DEVICE_KEYS };

pub(super) const SLICE: TableForm = TableForm { name: "slice", keys: &DEVICE_KEYS };

pub(super) const REMOTE: TableForm =
    TableForm { name: "remote", keys: &[required("name"), required("url")] };

pub(super) const HOST: TableForm = TableForm {
    name: "host",
    keys: &[
        required("nqn"),
        optional("dhchap-key"),
        optional("dhchap-ctrl-key"),
        optional("hash"),
        optional("group"),
        optional("psk-file"),
        optional("psk-derivation"),
        optional("tls"),
        TableKey { name: "volumes", is_required: false, form: KeyForm::List(&HOST_VOLUME) },
    ],
};

/// A volume in the list of a host.
const HOST_VOLUME: TableForm =
    TableForm { name: "host: volumes", keys: &[required("name"), optional("rights")] };

pub(super) const CHAP: TableForm = TableForm {
    name: "chap",
    keys: &[
        required("user"),
        required("secret-file"),
        optional("mutual-user"),
        optional("mutual-secret-file"),
        optional("initiator"),
    ],
};

pub(super) const CREDENTIAL: TableForm =
    TableForm { name: "credential", keys: &[required("id"), required("secret-file")] };

pub(super) const GRANT: TableForm = TableForm {
    name: "grant",
    keys: &[
        required("credential"),
        required("volume"),
        optional("range"),
        optional("path"),
        optional("rights"),
    ],
};

pub(super) fn volume(value: &Value) -> Result<VolumeSpec, ValueError> {
    let table = match value {
        Value::Text(text) => return parse_volume(text).map(VolumeSpec::OnDevice),
        Value::Table(table) => table,
    };
    let Some(device) = table.get("device") else {
        return unplaced(table).map(VolumeSpec::Unplaced);
    };
    if let Some(key) = given(table, &["replicas", "stripe-unit", "width", "placement"]) {
        return Err(ValueError::KeyOfCluster(key));
    }
    let parts = VolumeParts {
        name: table.text("name"),
        size: table.text("size"),
        device,
        block_size: table.get("block-size"),
        subsystem: table.get("subsystem"),
        provisioning: table.get("provisioning"),
    };
    parts.volume().map(VolumeSpec::OnDevice)
}

/// A volume whose place the node chooses.
fn unplaced(table: &Table) -> Result<UnplacedVolume, ValueError> {
    if table.get("block-size").is_some() {
        return Err(ValueError::NeedsKey { key: "block-size", other: "device" });
    }
    let placement = table.get("placement");
    let is_placement = |text: &str| match text.split_once(':') {
        None => text == "spread",
        Some((rule, node)) => ["local", "central"].contains(&rule) && !node.is_empty(),
    };
    if let Some(text) = placement.filter(|text| !is_placement(text)) {
        return Err(ValueError::Placement(text.into()));
    }
    Ok(UnplacedVolume {
        name: table.text("name").parse()?,
        len: parse_size(table.text("size"))?,
        subsystem: table.get("subsystem").map(str::parse).transpose()?,
        provisioning: table.get("provisioning").map(str::parse).transpose()?.unwrap_or_default(),
        replicas: number(table, "replicas")?,
        stripe_unit: table.get("stripe-unit").map(parse_size).transpose()?,
        width: number(table, "width")?,
        placement: placement.map(str::to_owned),
    })
}

fn number<N: FromStr>(table: &Table, key: &str) -> Result<Option<N>, ValueError> {
    let parse = |text: &str| text.parse().map_err(|_| ValueError::Number(text.into()));
    table.get(key).map(parse).transpose()
}

/// A device, or a slice.
pub(super) fn device(value: &Value) -> Result<DeviceSpec, ValueError> {
    match value {
        Value::Text(text) => Ok(text.parse()?),
        Value::Table(table) => {
            let (name, kind) = (table.text("name"), table.text("kind"));
            // The part of the one-line form that has no key.
            let main = if ["file", "block"].contains(&kind) { "path" } else { "size" };
            let option = |(key, text): (&'static str, &str)| match key {
                "wipe" | "randomise" => key.to_owned(),
                _ => format!("{key}={text}"),
            };
            let rest = table.fields().filter(|(key, _)| !["name", "kind", main].contains(key));
            let options: Vec<String> = rest.map(option).collect();
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            Ok(DeviceSpec::of_parts(name, kind, table.text(main), &options)?)
        }
    }
}

/// A volume of another node.
pub(super) fn remote(value: &Value) -> Result<RemoteSpec, ValueError> {
    match value {
        Value::Text(text) => text.parse(),
        Value::Table(table) => RemoteSpec::of_parts(table.text("name"), table.text("url")),
    }
}

/// An NVMe host. A part that is absent declares nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostSpec {
    /// The host.
    pub nqn: Nqn,
    /// The keys with which it authenticates.
    pub dhchap: Option<DhchapSpec>,
    /// Its PSK for TLS.
    pub psk: Option<PskSpec>,
    /// The volumes that it sees, and no others.
    pub volumes: Option<Vec<(Name, Rights)>>,
}

/// The keys of a host for DH-HMAC-CHAP.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DhchapSpec {
    /// The file with its key.
    pub key_file: PathBuf,
    /// The file with the controller's key, for authentication in both directions.
    pub controller_key_file: Option<PathBuf>,
    /// The only hash to use.
    pub hash: Option<Hash>,
    /// The only Diffie-Hellman group to use.
    pub group: Option<DhGroup>,
}

/// The PSK of a host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PskSpec {
    /// The file with the PSK.
    pub file: PathBuf,
    /// The derivation that the host uses.
    pub derivation: Derivation,
    /// Whether it must use TLS.
    pub demand: Demand,
}

/// A CHAP account of initiators.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ChapSpec {
    /// The initiator's user name.
    pub user: ChapUser,
    /// The file with its secret.
    pub secret_file: PathBuf,
    /// The node's user name for mutual CHAP, and the file with its secret.
    pub mutual: Option<(ChapUser, PathBuf)>,
    /// The names under which initiators may log in with it; every name if there is none.
    pub initiators: BTreeSet<InitiatorName>,
}

/// A credential of direct clients.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CredentialSpec {
    /// Its key ID.
    pub id: Name,
    /// The file for its secret, which the node generates.
    pub secret_file: PathBuf,
}

/// A grant of a credential. It does not expire.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GrantSpec {
    /// The credential.
    pub credential: Name,
    /// The volume.
    pub volume: Name,
    /// The bytes or files.
    pub covers: Covered,
    /// The operations that it allows.
    pub rights: Rights,
}

pub(super) fn host(table: &Table) -> Result<HostSpec, ValueError> {
    let text = table.text("nqn");
    let refused = |source| ValueError::HostNqn { text: text.into(), source };
    let nqn = Nqn::new(text).map_err(refused)?;
    let (dhchap, psk) = (dhchap(table)?, psk(table)?);
    let volumes = table.list("volumes").map(host_volumes).transpose()?;
    if dhchap.is_none() && psk.is_none() && volumes.is_none() {
        return Err(ValueError::HostOfNothing);
    }
    Ok(HostSpec { nqn, dhchap, psk, volumes })
}

/// The first of these keys that a table has.
fn given(table: &Table, keys: &[&'static str]) -> Option<&'static str> {
    keys.iter().copied().find(|key| table.get(key).is_some())
}

fn dhchap(table: &Table) -> Result<Option<DhchapSpec>, ValueError> {
    let Some(key_file) = table.get("dhchap-key") else {
        return match given(table, &["dhchap-ctrl-key", "hash", "group"]) {
            Some(key) => Err(ValueError::NeedsKey { key, other: "dhchap-key" }),
            None => Ok(None),
        };
    };
    Ok(Some(DhchapSpec {
        key_file: key_file.into(),
        controller_key_file: table.get("dhchap-ctrl-key").map(PathBuf::from),
        hash: table.get("hash").map(str::parse).transpose()?,
        group: table.get("group").map(str::parse).transpose()?,
    }))
}

fn psk(table: &Table) -> Result<Option<PskSpec>, ValueError> {
    let Some(file) = table.get("psk-file") else {
        return match given(table, &["psk-derivation", "tls"]) {
            Some(key) => Err(ValueError::NeedsKey { key, other: "psk-file" }),
            None => Ok(None),
        };
    };
    Ok(Some(PskSpec {
        file: file.into(),
        derivation: table.get("psk-derivation").map(str::parse).transpose()?.unwrap_or_default(),
        demand: table.get("tls").map(str::parse).transpose()?.unwrap_or_default(),
    }))
}

/// The list of a host, in the order of the names.
fn host_volumes(values: &[Value]) -> Result<Vec<(Name, Rights)>, ValueError> {
    let mut list: Vec<(Name, Rights)> = Vec::new();
    for value in values {
        let (name, rights) = match value {
            // The name of a volume has no colon.
            Value::Text(text) => {
                text.split_once(':').map_or((&**text, None), |(a, b)| (a, Some(b)))
            }
            Value::Table(table) => (table.text("name"), table.get("rights")),
        };
        let (name, rights) = (name.parse()?, rights.map_or(Ok(Rights::ReadWrite), str::parse)?);
        if list.iter().any(|(other, _)| *other == name) {
            return Err(ValueError::Twice(name.as_str().into()));
        }
        list.push((name, rights));
    }
    list.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
    Ok(list)
}

/// A CHAP account.
pub(super) fn chap(table: &Table) -> Result<ChapSpec, ValueError> {
    let mutual = match (table.get("mutual-user"), table.get("mutual-secret-file")) {
        (None, None) => None,
        (Some(user), Some(file)) => Some((user.parse()?, file.into())),
        _ => return Err(ValueError::HalfMutual),
    };
    let (user, secret_file) = (table.text("user").parse()?, table.text("secret-file").into());
    let names = table.get("initiator").into_iter().flat_map(|names| names.split(','));
    let name = |text: &str| text.parse().map_err(|_| ValueError::InitiatorName(text.into()));
    let initiators = names.map(name).collect::<Result<_, _>>()?;
    Ok(ChapSpec { user, secret_file, mutual, initiators })
}

pub(super) fn credential(table: &Table) -> Result<CredentialSpec, ValueError> {
    let (id, secret_file) = (table.text("id").parse()?, table.text("secret-file").into());
    Ok(CredentialSpec { id, secret_file })
}

pub(super) fn grant(table: &Table) -> Result<GrantSpec, ValueError> {
    let covers = match (table.get("range"), table.get("path")) {
        (None, None) => Covered::Range(GrantRange::WHOLE),
        (Some(range), None) => Covered::Range(range.parse()?),
        (None, Some(path)) => Covered::Files(path.parse()?),
        (Some(_), Some(_)) => return Err(ValueError::PathAndRange),
    };
    Ok(GrantSpec {
        credential: table.text("credential").parse()?,
        volume: table.text("volume").parse()?,
        covers,
        rights: table.get("rights").map_or(Ok(Rights::Read), str::parse)?,
    })
}
