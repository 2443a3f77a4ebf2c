//! The conversion of errors for the control interface: each gets its code and the resource that it
//! concerns.

use nearflash_access::{AccountError, GrantError};
use nearflash_api::{ApiError, ErrorCode, Subject};
use nearflash_nvme::hosts::HostTableError;
use nearflash_space::VolumeError;

use crate::cluster::ChangeError;
use crate::{NodeError, TokenError};

/// A code, and the resource that the error concerns.
type Coded = (ErrorCode, Option<Subject>);

impl From<NodeError> for ApiError {
    fn from(error: NodeError) -> Self {
        let (code, subject) = coded(&error);
        Self { subject, ..Self::new(code, error.to_string()) }
    }
}

/// The code of every error. The match is exhaustive, so a new variant needs a code here.
fn coded(error: &NodeError) -> Coded {
    let volume = |code, name: &_| (code, Some(Subject::new("volume", name)));
    match error {
        NodeError::Volume(error) => of_volume(error),
        NodeError::Grant(error) => of_grant(error),
        NodeError::Account(error) => of_account(error),
        NodeError::Token(error) => of_token(error),
        NodeError::Overtaken { .. } => (ErrorCode::GenerationDiffers, None),
        NodeError::NoGeneration | NodeError::Value(_) => (ErrorCode::InvalidValue, None),
        NodeError::HostTable(error) => of_host(error),
        NodeError::HostVolumes(_) | NodeError::TooManyJobs => (ErrorCode::LimitReached, None),
        NodeError::NoHost(host) => (ErrorCode::HostKeysNotFound, Some(Subject::new("host", host))),
        NodeError::FirstList { .. } => (ErrorCode::VolumeInUse, None),
        NodeError::NoList(host) => (ErrorCode::InvalidValue, Some(Subject::new("host", host))),
        NodeError::VolumeSize { name, .. }
        | NodeError::VolumeBlockSize { name, .. }
        | NodeError::VolumeDevice { name, .. }
        | NodeError::VolumeSubsystem { name, .. }
        | NodeError::VolumeProvisioning { name, .. }
        | NodeError::VolumeRemoved { name } => volume(ErrorCode::VolumeDiffers, name),
        NodeError::InUse { name, .. } => volume(ErrorCode::VolumeInUse, name),
        NodeError::Holds { name, .. } | NodeError::FilesNeed { name, .. } => {
            volume(ErrorCode::WouldDestroy, name)
        }
        NodeError::Unreadable { name, .. } => volume(ErrorCode::DeviceFailed, name),
        NodeError::NotQuiesced => (ErrorCode::NotQuiesced, None),
        NodeError::Quiescing { name } => volume(ErrorCode::NotQuiesced, name),
        NodeError::CoreSilent { processor } => {
            (ErrorCode::CoreSilent, Some(Subject::new("core", processor)))
        }
        NodeError::NobodySaysWho { name, .. } | NodeError::NodeSaysNothing { name, .. } => {
            volume(ErrorCode::CoreSilent, name)
        }
        NodeError::JobOver { id } => (ErrorCode::JobOver, Some(Subject::new("job", id))),
        NodeError::NoJob { id } => (ErrorCode::JobNotFound, Some(Subject::new("job", id))),
        NodeError::Zero { device, .. } => {
            (ErrorCode::DeviceFailed, Some(Subject::new("device", device)))
        }
        NodeError::Device(_) => (ErrorCode::DeviceUnusable, None),
        NodeError::Catalog(_) | NodeError::Restore(_) | NodeError::RestoreGrants(_) => {
            (ErrorCode::Catalog, None)
        }
        NodeError::Tls(_)
        | NodeError::Config(_)
        | NodeError::NoCredential { .. }
        | NodeError::NoAccount { .. }
        | NodeError::NoKeyedHost { .. }
        | NodeError::FilesUnknown { .. }
        | NodeError::FilesNotOfNode { .. }
        | NodeError::Remote { .. }
        | NodeError::RemoteClash(_)
        | NodeError::Cluster(_)
        | NodeError::StoreRolledBack(_)
        | NodeError::SliceStore { .. } => (ErrorCode::Configuration, None),
        NodeError::ServesFiles { name } => volume(ErrorCode::VolumeInUse, name),
        NodeError::Bind { .. } | NodeError::PulseSocket { .. } => (ErrorCode::Address, None),
        NodeError::Start(_) | NodeError::Control { .. } | NodeError::System { .. } => {
            (ErrorCode::System, None)
        }
        NodeError::NotDrained => (ErrorCode::NotDrained, None),
        NodeError::NoCluster => (ErrorCode::NoCluster, None),
        NodeError::StoreSilent { .. } => (ErrorCode::ClusterUnreachable, None),
        NodeError::Copied { .. }
        | NodeError::NumberChanged { .. }
        | NodeError::Change(ChangeError::Refused(_)) => (ErrorCode::ClusterRefused, None),
        NodeError::Change(_) => (ErrorCode::ClusterUnreachable, None),
        NodeError::NoNodeNamed(_) => (ErrorCode::InvalidValue, None),
        NodeError::ClusterVolumeShrinks { name, .. } => volume(ErrorCode::WouldShrink, name),
        NodeError::ClusterVolumeSize { name, .. } => volume(ErrorCode::InvalidValue, name),
        NodeError::ZeroPart { volume: name, .. } => volume(ErrorCode::ClusterUnreachable, name),
        NodeError::IscsiNameTaken { volume: name, .. } => volume(ErrorCode::VolumeExists, name),
        NodeError::NotServedYet { name } => volume(ErrorCode::ClusterUnreachable, name),
    }
}

fn of_volume(error: &VolumeError) -> Coded {
    let (code, name) = match error {
        VolumeError::Exists(name) => (ErrorCode::VolumeExists, name),
        VolumeError::NotFound(name) => (ErrorCode::VolumeNotFound, name),
        VolumeError::NoDevice { device, .. } => {
            return (ErrorCode::DeviceNotFound, Some(Subject::new("device", device)));
        }
        VolumeError::Size { name, .. } => (ErrorCode::InvalidValue, name),
        VolumeError::NoSpace { name, .. } => (ErrorCode::NoSpace, name),
        VolumeError::WouldShrink { name, .. } => (ErrorCode::WouldShrink, name),
        VolumeError::Preparing { name, .. } => (ErrorCode::Busy, name),
        VolumeError::Remote(name) | VolumeError::OfCluster(name) => (ErrorCode::VolumeRemote, name),
        VolumeError::TooMany { name, .. } => (ErrorCode::LimitReached, name),
    };
    (code, Some(Subject::new("volume", name)))
}

fn of_grant(error: &GrantError) -> Coded {
    let credential = |code, id: &_| (code, Some(Subject::new("credential", id)));
    match error {
        GrantError::CredentialExists(id) => credential(ErrorCode::CredentialExists, id),
        GrantError::NoCredential(id) => credential(ErrorCode::CredentialNotFound, id),
        GrantError::NoGrant(number) => {
            (ErrorCode::GrantNotFound, Some(Subject::new("grant", number.0)))
        }
        GrantError::BeyondVolume { volume, .. } => {
            (ErrorCode::InvalidValue, Some(Subject::new("volume", volume)))
        }
        GrantError::Past | GrantError::SealLife => (ErrorCode::InvalidValue, None),
        GrantError::PartOfBlock { volume, .. }
        | GrantError::SealOfFiles { volume, .. }
        | GrantError::NoFiles(volume)
        | GrantError::NoSeals(volume) => {
            (ErrorCode::InvalidValue, Some(Subject::new("volume", volume)))
        }
        GrantError::TooManyCredentials | GrantError::TooManyGrants => {
            (ErrorCode::LimitReached, None)
        }
    }
}

fn of_account(error: &AccountError) -> Coded {
    let account = |code, user: &_| (code, Some(Subject::new("chap-account", user)));
    match error {
        AccountError::Exists(user) => account(ErrorCode::ChapAccountExists, user),
        AccountError::NotFound(user) => account(ErrorCode::ChapAccountNotFound, user),
        AccountError::SameSecret => (ErrorCode::InvalidValue, None),
        AccountError::TooMany | AccountError::TooManyInitiators => (ErrorCode::LimitReached, None),
    }
}

fn of_token(error: &TokenError) -> Coded {
    let token = |code, name: &_| (code, Some(Subject::new("token", name)));
    match error {
        TokenError::Exists(name) => token(ErrorCode::TokenExists, name),
        TokenError::NotFound(name) => token(ErrorCode::TokenNotFound, name),
        TokenError::Past => (ErrorCode::InvalidValue, None),
        TokenError::TooMany => (ErrorCode::LimitReached, None),
    }
}

fn of_host(error: &HostTableError) -> Coded {
    let host = |code, host: &_| (code, Some(Subject::new("host", host)));
    match error {
        HostTableError::Exists(nqn) => host(ErrorCode::HostKeysExist, nqn),
        HostTableError::NotFound(nqn) => host(ErrorCode::HostKeysNotFound, nqn),
        HostTableError::NoKey(nqn) | HostTableError::NoPsk(nqn) => {
            host(ErrorCode::HostKeysNotFound, nqn)
        }
        HostTableError::Same(_) | HostTableError::Past => (ErrorCode::InvalidValue, None),
        HostTableError::TooMany | HostTableError::TooManyRemoved => (ErrorCode::LimitReached, None),
    }
}
