//! Repeated requests. A client that has lost an answer sends its request again. If a volume or a grant
//! exists with the content that the request asks for, the request has its effect already, and is
//! answered with the existing resource; no key or memory of earlier requests is needed. A resource whose
//! secret is shown once cannot be answered again, and exists.

use nearflash_api::{
    ApiError, Call, Document, ErrorCode, GrantAdd, GrantInfo, GrantList, Grants, JobShow, OneGrant,
    OneJob, OneVolume, Request, VolumeCreate, VolumeDetail, VolumeInfo, VolumeLayout, VolumeShow,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use crate::Face;

/// The answer of a call.
pub(crate) struct Answered {
    /// The document.
    pub(crate) text: Zeroizing<String>,
    /// The resource existed already, with the same content.
    pub(crate) is_repeated: bool,
}

/// Executes a call, or finds that it has its effect already.
pub(crate) fn serve(
    face: &dyn Face,
    request: Request,
    expected: Option<u64>,
) -> Result<Answered, ApiError> {
    if let Request::GrantAdd(call) = &request
        && let Some(grant) = same_grant(face, call)
    {
        return Ok(repeated(OneGrant { grant, unconfirmed: Vec::new() }));
    }
    let wanted = request.clone();
    match face.serve(request, expected) {
        Ok(text) => Ok(Answered { text, is_repeated: false }),
        Err(error) if error.code == ErrorCode::VolumeExists => {
            same_volume(face, &wanted).map(repeated).ok_or(error)
        }
        Err(error) => Err(error),
    }
}

fn repeated<A: Serialize>(answer: A) -> Answered {
    let text = Zeroizing::new(Document::new(answer).to_line());
    Answered { text, is_repeated: true }
}

/// The answer to a query; `None` if it fails.
fn ask<C: Call>(face: &dyn Face, call: C) -> Option<C::Answer> {
    parse(&face.serve(call.into(), None).ok()?)
}

/// The content of a document.
pub(crate) fn parse<A: DeserializeOwned>(text: &str) -> Option<A> {
    let document: Document<A> = serde_json::from_str(text).ok()?;
    Some(document.body)
}

fn same_grant(face: &dyn Face, call: &GrantAdd) -> Option<GrantInfo> {
    let Grants { grants } = ask(face, GrantList { credential: Some(call.credential.clone()) })?;
    grants.into_iter().find(|grant| {
        let ranges = (grant.start, grant.end) == (call.start, call.end);
        let holders = !grant.seal && grant.credential == call.credential;
        let rest = (grant.volume == call.volume, grant.path == call.path) == (true, true);
        let terms = grant.rights == call.rights && grant.expires_at == call.expires_at;
        holders && ranges && rest && terms && !grant.expired
    })
}

/// The volume of that name, if it is as the request asks.
fn same_volume(face: &dyn Face, wanted: &Request) -> Option<OneVolume> {
    let Request::VolumeCreate(call) = wanted else { return None };
    let VolumeDetail { volume, layout } = ask(face, VolumeShow { name: call.name.clone() })?;
    let is_same = is_as_asked(&volume, call)
        && match &layout {
            None => is_on_device(&volume, call),
            Some(layout) => is_laid_out(layout, call),
        };
    let job = volume.job.filter(|_| is_same).and_then(|id| ask(face, JobShow { id }));
    let job = job.map(|OneJob { job }| job);
    is_same.then_some(OneVolume { volume, job, note: None })
}

fn is_as_asked(volume: &VolumeInfo, call: &VolumeCreate) -> bool {
    let VolumeCreate { name, bytes, block_size, subsystem, provisioning, .. } = call;
    volume.bytes == *bytes
        && block_size.is_none_or(|size| volume.block_size == size)
        && is_exported_by(volume, subsystem.as_deref().unwrap_or(name))
        && volume.provisioning == provisioning.as_deref().unwrap_or("thin")
}

/// Whether a volume that is not the cluster's lies where the request asks for.
fn is_on_device(volume: &VolumeInfo, call: &VolumeCreate) -> bool {
    let VolumeCreate { device, replicas, stripe_unit, width, placement, .. } = call;
    device.as_ref().is_none_or(|device| volume.device == *device)
        && replicas.is_none_or(|replicas| replicas == 1 && device.is_some())
        && (stripe_unit, width, placement) == (&None, &None, &None)
}

fn is_laid_out(layout: &VolumeLayout, call: &VolumeCreate) -> bool {
    let VolumeCreate { device, replicas, stripe_unit, width, placement, .. } = call;
    device.is_none()
        && replicas.is_none_or(|replicas| layout.replicas == replicas)
        && stripe_unit.is_none_or(|unit| layout.stripe_unit == unit)
        && width.is_none_or(|width| layout.width == width)
        && layout.placement == placement.as_deref().unwrap_or("spread")
}

fn is_exported_by(volume: &VolumeInfo, subsystem: &str) -> bool {
    volume.nqn.rsplit_once(':').is_some_and(|(_, name)| name == subsystem)
}
