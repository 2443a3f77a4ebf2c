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
    use NodeError as E;
    let volume = |code, name: &_| (code, Some(Subject::new("volume", name)));
    match error {
        E::Volume(error) => of_volume(error),
        E::Grant(error) => of_grant(error),
        E::Account(error) => of_account(error),
        E::Token(error) => of_token(error),
        E::Overtaken { .. } => (ErrorCode::GenerationDiffers, None),
        E::NoGeneration | E::Value(_) | E::NoNodeNamed(_) => (ErrorCode::InvalidValue, None),
        E::HostTable(error) => of_host(error),
        E::HostVolumes(_) | E::TooManyJobs => (ErrorCode::LimitReached, None),
        E::NoHost(host) => (ErrorCode::HostKeysNotFound, Some(Subject::new("host", host))),
        E::FirstList { .. } => (ErrorCode::VolumeInUse, None),
        E::NoList(host) => (ErrorCode::InvalidValue, Some(Subject::new("host", host))),
        E::VolumeSize { name, .. }
        | E::VolumeBlockSize { name, .. }
        | E::VolumeDevice { name, .. }
        | E::VolumeSubsystem { name, .. }
        | E::VolumeProvisioning { name, .. }
        | E::VolumeRemoved { name } => volume(ErrorCode::VolumeDiffers, name),
        E::InUse { name, .. } | E::ServesFiles { name } => volume(ErrorCode::VolumeInUse, name),
        E::Holds { name, .. } | E::FilesNeed { name, .. } => volume(ErrorCode::WouldDestroy, name),
        E::Unreadable { name, .. } => volume(ErrorCode::DeviceFailed, name),
        E::NotQuiesced => (ErrorCode::NotQuiesced, None),
        E::Quiescing { name } => volume(ErrorCode::NotQuiesced, name),
        E::CoreSilent { processor } => {
            (ErrorCode::CoreSilent, Some(Subject::new("core", processor)))
        }
        E::NobodySaysWho { name, .. } | E::NodeSaysNothing { name, .. } => {
            volume(ErrorCode::CoreSilent, name)
        }
        E::JobOver { id } => (ErrorCode::JobOver, Some(Subject::new("job", id))),
        E::NoJob { id } => (ErrorCode::JobNotFound, Some(Subject::new("job", id))),
        E::Zero { device, .. } => (ErrorCode::DeviceFailed, Some(Subject::new("device", device))),
        E::Device(_) => (ErrorCode::DeviceUnusable, None),
        E::Catalog(_) | E::Restore(_) | E::RestoreGrants(_) => (ErrorCode::Catalog, None),
        E::Tls(_)
        | E::Config(_)
        | E::NoCredential { .. }
        | E::NoAccount { .. }
        | E::NoKeyedHost { .. }
        | E::FilesUnknown { .. }
        | E::FilesNotOfNode { .. }
        | E::Remote { .. }
        | E::RemoteClash(_)
        | E::Cluster(_)
        | E::StoreRolledBack(_)
        | E::SliceStore { .. } => (ErrorCode::Configuration, None),
        E::Bind { .. } | E::PulseSocket { .. } => (ErrorCode::Address, None),
        E::Start(_) | E::Control { .. } | E::System { .. } => (ErrorCode::System, None),
        E::NotDrained => (ErrorCode::NotDrained, None),
        E::NoCluster => (ErrorCode::NoCluster, None),
        E::StoreSilent { .. } => (ErrorCode::ClusterUnreachable, None),
        E::Copied { .. } | E::NumberChanged { .. } | E::Change(ChangeError::Refused(_)) => {
            (ErrorCode::ClusterRefused, None)
        }
        E::Change(_) => (ErrorCode::ClusterUnreachable, None),
        E::ClusterVolumeShrinks { name, .. } => volume(ErrorCode::WouldShrink, name),
        E::ClusterVolumeSize { name, .. } => volume(ErrorCode::InvalidValue, name),
        E::ZeroPart { volume: name, .. } | E::NotServedYet { name } => {
            volume(ErrorCode::ClusterUnreachable, name)
        }
        E::IscsiNameTaken { volume: name, .. } => volume(ErrorCode::VolumeExists, name),
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
