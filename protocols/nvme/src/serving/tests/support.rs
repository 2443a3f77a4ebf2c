//! Each optional command is claimed if, and only if, it is carried out.

use nearflash_request::Support;
use nearflash_units::{ByteLen, Lba};
use zerocopy::FromBytes;

use super::*;
use crate::Fused;
use crate::feature::FeatureId;
use crate::identify::{Cns, Identify, IdentifyController, IdentifyNamespace, IndependentNamespace};
use crate::io::decode;
use crate::log::{CommandEffects, GetLogPage, LogId};

fn with_support(nsid: u32, support: Support) -> NamespaceConfig {
    NamespaceConfig { support, ..namespace("data", nsid) }
}

fn joined_with(namespaces: &[NamespaceConfig]) -> (Target, ControllerId) {
    let mut target = Target::new(config());
    target.publish(namespaces.to_vec()).unwrap();
    let controller = join(&mut target, &nqn("data"));
    (target, controller)
}

fn answer(target: &mut Target, controller: ControllerId, command: Command) -> Vec<u8> {
    let (completion, data) = ask(target, controller, command);
    assert!(completion.status().is_success(), "{}", completion.status());
    data
}

fn identify(cns: Cns, nsid: u32) -> Command {
    Identify::new(cns).to_command(NamespaceId(nsid))
}

/// ONCS bit 5, FUSES and ACWU of a controller with namespaces of these kinds.
fn claims(kinds: &[Support]) -> (bool, u16, bool) {
    let namespaces: Vec<_> = (1..).zip(kinds).map(|(nsid, it)| with_support(nsid, *it)).collect();
    let (mut target, controller) = joined_with(&namespaces);
    actions(&mut target);
    let data = answer(&mut target, controller, identify(Cns::CONTROLLER, 0));
    let it = IdentifyController::ref_from_bytes(&data).unwrap();
    let reservations = it.nvm_commands.get() & IdentifyController::RESERVATIONS != 0;
    (reservations, it.fused_operations.get(), it.atomic_compare_blocks.get() != 0)
}

#[test]
fn a_controller_claims_reservations_of_any_namespace_and_fused_commands_of_all() {
    let (all, none) = (Support::ALL, Support::NONE);
    assert_eq!(claims(&[all]), (true, 1, true));
    assert_eq!(claims(&[none]), (false, 0, false));
    assert_eq!(claims(&[none, all]), (true, 0, false));
}

/// The I/O commands that the effects log lists.
fn listed(target: &mut Target, controller: ControllerId) -> Vec<u8> {
    let page = GetLogPage::new(LogId::COMMAND_EFFECTS, 4096).to_command(NamespaceId::NONE);
    let data = answer(target, controller, page);
    let effects = CommandEffects::ref_from_bytes(&data).unwrap();
    let is_listed = |opcode: &u8| effects.io[usize::from(*opcode)].get() & 1 != 0;
    (0..=u8::MAX).filter(is_listed).collect()
}

#[test]
fn a_namespace_refuses_by_opcode_exactly_what_it_does_not_claim() {
    for support in [Support::ALL, Support::NONE] {
        let config = with_support(1, support);
        let table = NamespaceTable::new([(NamespaceId(1), config.entry())], ByteLen(4096));
        let (mut target, controller) = joined_with(&[config]);
        let listed = listed(&mut target, controller);
        for opcode in 0..=u8::MAX {
            let command = Command::new(opcode, NamespaceId(1));
            let refused = decode(&command, &table).err() == Some(Status::INVALID_OPCODE.dnr());
            assert_eq!(listed.contains(&opcode), !refused, "{support:?} {opcode:#04x}");
        }
        for identify in [Cns::NAMESPACE, Cns::INDEPENDENT_NAMESPACE].map(|cns| identify(cns, 1)) {
            let data = answer(&mut target, controller, identify);
            let rescap = match identify.cdw10.get() {
                0 => IdentifyNamespace::ref_from_bytes(&data).unwrap().reservations,
                _ => IndependentNamespace::ref_from_bytes(&data).unwrap().reservations,
            };
            assert_eq!(rescap, if support.reservations { 0xFF } else { 0 });
        }
        let compare = Command::compare(NamespaceId(1), Lba(0), 0, 4096).with_fused(Fused::First);
        let is_refused = decode(&compare, &table) == Err(Status::INVALID_FIELD.dnr());
        assert_eq!(is_refused, !support.compound);
        let write = Command::write(NamespaceId(1), Lba(0), 0, 4096).with_fused(Fused::Second);
        assert_eq!(decode(&write, &table).is_err(), !support.compound);
    }
}

#[test]
fn features_and_log_of_reservations_are_those_of_namespaces_that_have_them() {
    let features = [FeatureId::RESERVATION_NOTIFICATION, FeatureId::RESERVATION_PERSISTENCE];
    let page = GetLogPage::new(LogId::RESERVATION_NOTIFICATION, 64);
    let at = |command: Command, nsid: u32| Command { nsid: nsid.into(), ..command };
    let (mut target, controller) = joined_with(&[with_support(1, Support::NONE)]);
    for feature in features {
        for nsid in [0, 1, u32::MAX] {
            for command in [Command::get_features(feature, 0), Command::set_features(feature, 0)] {
                let status = status_of(&mut target, controller, at(command, nsid));
                assert_eq!(status, Status::INVALID_FIELD.dnr(), "{feature:?} {nsid}");
            }
        }
    }
    let status = status_of(&mut target, controller, page.to_command(NamespaceId::NONE));
    assert_eq!(status, Status::INVALID_LOG_PAGE.dnr());

    // Beside a namespace that has them.
    let both = [with_support(1, Support::NONE), with_support(2, Support::ALL)];
    let (mut target, controller) = joined_with(&both);
    for feature in features {
        let command = at(Command::get_features(feature, 0), 1);
        let status = status_of(&mut target, controller, command);
        assert_eq!(status, Status::INVALID_FIELD.dnr(), "{feature:?}");
    }
    let mask = at(Command::set_features(FeatureId::RESERVATION_NOTIFICATION, 2), u32::MAX);
    assert!(status_of(&mut target, controller, mask).is_success());
    let command = at(Command::get_features(FeatureId::RESERVATION_NOTIFICATION, 0), 2);
    assert_eq!(ask(&mut target, controller, command).0.dw0.get(), 2);
    let status = status_of(&mut target, controller, page.to_command(NamespaceId::NONE));
    assert!(status.is_success());
}
