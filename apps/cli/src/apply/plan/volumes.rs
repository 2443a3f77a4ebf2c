//! The steps of volumes: those on devices of the node, and those of its cluster.
//!
//! A volume that lasts keeps everything but its size. Properties of a layout that the file leaves out are not
//! compared. Volumes of a cluster are never removed: the files of other nodes may declare them.

use nearflash_api::VolumeCreate;
use nearflash_units::ByteLen;

use super::super::state::Layout;
use super::{Declared, Fixed, Permission, Plan, Running, Step, Volume};

pub(super) fn volumes(declared: &Declared, running: &Running, may: Permission, plan: &mut Plan) {
    let is_declared = |name: &String| declared.volumes.iter().any(|it| it.name == *name);
    plan.jobs = running.jobs.iter().filter(|(name, _)| is_declared(name)).cloned().collect();
    for asked in &declared.volumes {
        let name = &asked.name;
        if running.foreign.contains(name) {
            plan.conflicts
                .push(format!("volume '{name}' is a volume of another node: choose another name"));
        } else if let Some(found) = running.volumes.iter().find(|volume| volume.name == *name) {
            change_volume(asked, found, plan);
        } else {
            create_volume(asked, (declared, running), plan);
        }
    }
    if may.prune {
        let own = running.volumes.iter().filter(|volume| volume.layout.is_none());
        let rest = own.filter(|volume| !is_declared(&volume.name));
        plan.steps.extend(rest.cloned().map(Step::VolumeRemove));
    }
}

/// The node decides where a volume without a device lies.
fn create_volume(
    asked: &VolumeCreate,
    (declared, running): (&Declared, &Running),
    plan: &mut Plan,
) {
    let create = Step::VolumeCreate(asked.clone());
    let Some(on) = &asked.device else { return plan.steps.push(create) };
    let name = &asked.name;
    let is_declared = |it: &Fixed| matches!(it, Fixed::Device { name, .. } if name == on);
    if running.devices.iter().any(|device| device.name == *on) {
        plan.steps.push(create);
    } else if declared.fixed.iter().any(is_declared) {
        plan.restarts.push(format!("volume '{name}' waits for device '{on}'"));
    } else {
        plan.conflicts.push(format!(
            "volume '{name}' needs device '{on}', which neither the node nor the file has: name \
             another device"
        ));
    }
}

/// Changes the size of a volume. The rest of it lasts as long as the volume.
fn change_volume(asked: &VolumeCreate, found: &Volume, plan: &mut Plan) {
    let name = &found.name;
    if let (Some(device), Some(_)) = (&asked.device, &found.layout) {
        return plan.conflicts.push(format!(
            "volume '{name}' is a volume of the cluster, and the file has it on device '{device}': take \
             'device' out of its table, or choose another name"
        ));
    }
    for (property, is, asked) in kept(asked, found) {
        if let Some(asked) = asked.filter(|asked| *asked != is) {
            plan.conflicts.push(format!(
                "volume '{name}' keeps its {property}, {is}, and the file has {asked}: correct the file, or \
                 remove the volume and its data first"
            ));
        }
    }
    let (volume, len, to) = (found.clone(), found.len, ByteLen(asked.bytes));
    if len < to {
        plan.steps.push(Step::VolumeGrow { volume, to });
    } else if len > to && found.layout.is_some() {
        plan.conflicts.push(format!(
            "volume '{name}' has {len}, the file has {to}, and volumes of the cluster cannot shrink: \
             correct the file"
        ));
    } else if len > to {
        plan.steps.push(Step::VolumeShrink { volume, to });
    }
}

/// The properties that last: what the volume has, and what the file says.
fn kept(asked: &VolumeCreate, found: &Volume) -> [(&'static str, String, Option<String>); 8] {
    let text = |number: Option<u32>| number.map(|it| it.to_string());
    let subsystem = asked.subsystem.as_ref().unwrap_or(&asked.name);
    let provisioning = asked.provisioning.as_deref().unwrap_or("thin");
    // A volume on a device has no layout, and so none that a file declares.
    let of_layout =
        |value: fn(&Layout) -> String| found.layout.as_ref().map_or("none".to_owned(), value);
    [
        ("device", found.device.clone(), asked.device.clone()),
        ("block size", found.block_size.to_string(), text(asked.block_size)),
        ("subsystem", found.subsystem.clone(), Some(subsystem.clone())),
        ("provisioning", found.provisioning.clone(), Some(provisioning.to_owned())),
        (
            "number of replicas",
            of_layout(|it| it.replicas.to_string()),
            text(asked.replicas.map(u32::from)),
        ),
        (
            "stripe unit",
            of_layout(|it| it.stripe_unit.to_string()),
            asked.stripe_unit.map(|unit| ByteLen(unit).to_string()),
        ),
        ("width", of_layout(|it| it.width.to_string()), text(asked.width)),
        ("placement", of_layout(|it| it.placement.clone()), asked.placement.clone()),
    ]
}

/// Whether there is a volume after the plan, or after the restart that it waits for.
pub(super) fn has_volume(
    (declared, running): (&Declared, &Running),
    may: Permission,
    volume: &str,
) -> bool {
    let lasts = |it: &Volume| it.name == volume && (!may.prune || it.layout.is_some());
    declared.volumes.iter().any(|it| it.name == volume)
        || running.foreign.iter().any(|name| name == volume)
        || running.volumes.iter().any(lasts)
}

/// Whether there is a volume after the plan, without a restart.
pub(super) fn is_there(running: &Running, plan: &Plan, volume: &str) -> bool {
    let is_created = |step: &Step| matches!(step, Step::VolumeCreate(it) if it.name == volume);
    running.foreign.iter().any(|name| name == volume)
        || running.volumes.iter().any(|it| it.name == volume)
        || plan.steps.iter().any(is_created)
}
