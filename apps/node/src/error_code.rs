//! The conversion of errors for the control interface: each gets its code and the resource that it
//! concerns.

use nearflash_access::{AccountError, GrantError, TokenError};
use nearflash_api::{ApiError, ErrorCode, Subject};
use nearflash_nvme::hosts::HostTableError;
use nearflash_planner::Refusal;
use nearflash_space::{Name, VolumeError};

use crate::cluster::ChangeError;
use crate::error::NodeError;

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
    match error {
        E::Refused(refusal) => of_refusal(refusal),
        E::Value(_) => (ErrorCode::InvalidValue, None),
        E::Catalog(_) => (ErrorCode::Catalog, None),
        E::Change(ChangeError::Refused(refusal)) => of_refusal(refusal),
        E::Change(_) => (ErrorCode::ClusterUnreachable, None),
        E::NotQuiesced => (ErrorCode::NotQuiesced, None),
        E::Unreadable { name, .. } => of_name(ErrorCode::DeviceFailed, name),
        E::Zero(error) => (ErrorCode::DeviceFailed, Some(Subject::new("device", &error.device))),
        E::NotServedYet { name } => of_name(ErrorCode::ClusterUnreachable, name),
        E::System { .. } => (ErrorCode::System, None),
    }
}

/// A code that concerns a volume.
fn of_name(code: ErrorCode, volume: &Name) -> Coded {
    (code, Some(Subject::new("volume", volume)))
}

fn of_refusal(refusal: &Refusal) -> Coded {
    use Refusal as R;
    match refusal {
        R::Volume(error) => of_volume(error),
        R::Grant(error) => of_grant(error),
        R::Account(error) => of_account(error),
        R::Token(error) => of_token(error),
        R::HostTable(error) => of_host(error),
        R::HostVolumes(_) | R::TooManyJobs => (ErrorCode::LimitReached, None),
        R::NoHost(host) => (ErrorCode::HostKeysNotFound, Some(Subject::new("host", host))),
        R::FirstList { .. } => (ErrorCode::VolumeInUse, None),
        R::NoList(host) => (ErrorCode::InvalidValue, Some(Subject::new("host", host))),
        R::Overtaken { .. } => (ErrorCode::GenerationDiffers, None),
        R::NoGeneration | R::NoNodeNamed(_) => (ErrorCode::InvalidValue, None),
        R::InUse { name, .. } | R::ServesFiles { name } => of_name(ErrorCode::VolumeInUse, name),
        R::Holds { name, .. } | R::FilesNeed { name, .. } => of_name(ErrorCode::WouldDestroy, name),
        R::Quiescing { name } => of_name(ErrorCode::NotQuiesced, name),
        R::CoreSilent { processor } => {
            (ErrorCode::CoreSilent, Some(Subject::new("core", processor)))
        }
        R::NobodySaysWho { name, .. } | R::NodeSaysNothing { name, .. } => {
            of_name(ErrorCode::CoreSilent, name)
        }
        R::JobOver { id } => (ErrorCode::JobOver, Some(Subject::new("job", id))),
        R::RemovalGoesOn { id, .. } => (ErrorCode::JobOver, Some(Subject::new("job", id))),
        R::JobUnderWay { name, .. } => of_name(ErrorCode::Busy, name),
        R::NoJob { id } => (ErrorCode::JobNotFound, Some(Subject::new("job", id))),
        R::RemoteClash(_) => (ErrorCode::Configuration, None),
        R::OutsideCluster => (ErrorCode::NoCluster, None),
        R::ClusterVolumeShrinks { name, .. } => of_name(ErrorCode::WouldShrink, name),
        R::NewVolume { name, .. } | R::ClusterVolumeSize { name, .. } => {
            of_name(ErrorCode::InvalidValue, name)
        }
        R::IscsiNameTaken { volume, .. } => of_name(ErrorCode::VolumeExists, volume),
        R::VolumeNameTaken(name) => of_name(ErrorCode::VolumeExists, name),
        R::NotReady(name) => of_name(ErrorCode::Busy, name),
        R::Full { .. } | R::NoPlaceToMove { .. } => (ErrorCode::NoSpace, None),
        R::NoVolumeNamed(name) => (ErrorCode::VolumeNotFound, Some(Subject::new("volume", name))),
        // Changes of the records of a cluster.
        _ => (ErrorCode::ClusterRefused, None),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_the_cluster_refuses_has_the_code_of_its_refusal() {
        let name: Name = "data".parse().unwrap();
        let refused = [
            (Refusal::VolumeNameTaken(name.clone()), ErrorCode::VolumeExists),
            (Refusal::NotReady(name), ErrorCode::Busy),
            (Refusal::TooManyJobs, ErrorCode::LimitReached),
            (Refusal::JobOver { id: 2 }, ErrorCode::JobOver),
            (Refusal::NoSlices, ErrorCode::ClusterRefused),
        ];
        for (refusal, code) in refused {
            let error = NodeError::Change(ChangeError::Refused(refusal));
            assert_eq!(ApiError::from(error).code, code);
        }
    }
}
