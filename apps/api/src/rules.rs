//! The rules of calls: the scope that each needs, and the resource that it concerns, for the audit.

use crate::{Request, TokenScope};

use TokenScope::{Admin, Operate, Read};

/// The scope that a call needs, and its subject; empty for a call without one. The match has no
/// default, so that a new call needs a rule.
pub fn rule(request: &Request) -> (TokenScope, String) {
    match request {
        Request::StatusShow(_)
        | Request::ActivityShow(_)
        | Request::TraceRun(_)
        | Request::MetricsShow(_)
        | Request::EventList(_)
        | Request::VolumeList(_)
        | Request::CredentialList(_)
        | Request::GrantList(_)
        | Request::ChapList(_)
        | Request::HostList(_)
        | Request::ReservationList(_)
        | Request::DeviceList(_)
        | Request::TokenList(_)
        | Request::JobList(_) => (Read, String::new()),
        Request::VolumeShow(call) => (Read, call.name.clone()),
        Request::JobShow(call) => (Read, call.id.to_string()),
        Request::JobWait(call) => (Read, call.id.to_string()),

        Request::VolumeCreate(call) => (Operate, call.name.clone()),
        Request::VolumeResize(call) if !call.shrink => (Operate, call.name.clone()),
        Request::JobCancel(call) => (Operate, call.id.to_string()),
        Request::VolumeMove(call) => (Operate, call.name.clone()),
        Request::NodeDrain(call) => (Operate, call.node.clone()),
        Request::NodeUndrain(call) => (Operate, call.node.clone()),

        // These lose data, or let others lose it: a reservation keeps hosts from each other's blocks, and a
        // suspect device has lost writes.
        Request::ReservationClear(call) => (Admin, call.volume.clone()),
        Request::DeviceClear(call) => (Admin, call.name.clone()),
        Request::VolumeResize(call) => (Admin, call.name.clone()),
        Request::VolumeRemove(call) => (Admin, call.name.clone()),
        // These give or take rights.
        Request::CredentialCreate(call) => (Admin, call.id.clone()),
        Request::CredentialRemove(call) => (Admin, call.id.clone()),
        Request::GrantAdd(call) => (Admin, call.credential.clone()),
        Request::GrantRevoke(call) => (Admin, call.number.to_string()),
        Request::GrantSeal(call) => (Admin, call.volume.clone()),
        Request::ChapAdd(call) => (Admin, call.user.clone()),
        Request::ChapRemove(call) => (Admin, call.user.clone()),
        Request::HostAdd(call) => (Admin, call.nqn.clone()),
        Request::HostRotate(call) => (Admin, call.nqn.clone()),
        Request::HostAllow(call) => (Admin, call.host.clone()),
        Request::HostDeny(call) => (Admin, call.host.clone()),
        Request::HostUnlist(call) => (Admin, call.host.clone()),
        Request::HostRemove(call) => (Admin, call.nqn.clone()),
        Request::TokenCreate(call) => (Admin, call.name.clone()),
        Request::TokenRemove(call) => (Admin, call.name.clone()),
    }
}
