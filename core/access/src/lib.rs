//! Access rules: credentials of direct clients, grants on ranges of volumes and on files, the CHAP accounts of
//! iSCSI initiators, the volumes that hosts use, and the tokens of the HTTP interface. Pure.
//!
//! This crate does not depend on sessions, on the catalog that stores its data, on clocks or on
//! random numbers: callers supply the time and the bytes of a new secret.

mod chap;
mod grant;
mod grants;
mod hosts;
mod initiator_name;
pub mod recorded;
mod tokens;

pub use chap::{
    ACCOUNTS_MAX, AccountError, Accounts, CHAP_SECRET_LEN_MAX, CHAP_SECRET_LEN_MIN,
    CHAP_USER_LEN_MAX, ChapAccount, ChapSecret, ChapUser, Mutual, ParseChapSecretError,
    ParseChapUserError,
};
pub use grant::{
    Covered, Credential, Grant, GrantNumber, GrantPath, GrantRange, Holder, ParseGrantPathError,
    ParseGrantRangeError, ParseRightsError, ParseSecretError, Rights, SECRET_LEN, Secret,
};
pub use grants::{
    Anonymous, CREDENTIALS_MAX, GRANTS_MAX, GrantError, GrantRequest, Grants, RestoreGrantsError,
    SEAL_LIFE_MAX, is_expired,
};
pub use hosts::{
    HostName, HostVolumes, HostVolumesError, LISTED_HOSTS_MAX, LISTED_VOLUMES_MAX,
    ParseHostNameError, VolumeList,
};
pub use initiator_name::{InitiatorName, ParseInitiatorNameError};
pub use tokens::{TOKENS_MAX, Token, TokenError, TokenHash, Tokens};

pub use nearflash_units::UnixTime;
