use zerocopy::FromBytes;

use super::*;
use crate::identify::{
    Cns, ControllerType, Identify, IdentifyController, IdentifyNamespace, NamespaceDescriptor,
    NamespaceFeatures, parse_descriptors, parse_namespace_list,
};

fn identify(cns: Cns, nsid: u32) -> Command {
    Identify::new(cns).to_command(NamespaceId(nsid))
}

fn described(target: &mut Target, controller: ControllerId, command: Command) -> Vec<u8> {
    let (completion, data) = ask(target, controller, command);
    assert!(completion.status().is_success(), "{}", completion.status());
    data
}

/// A target with three different namespaces.
fn three() -> (Target, ControllerId) {
    let (mut target, controller) = joined();
    let second = NamespaceConfig {
        block_size: BlockSize::B512,
        volatile_cache: true,
        deallocation: Deallocation::None,
        ..namespace("data", 2)
    };
    let ninth = NamespaceConfig {
        write_protected: true,
        deallocation: Deallocation::Unspecified,
        ..namespace("data", 9)
    };
    target.publish(vec![namespace("data", 1), second, ninth]).unwrap();
    actions(&mut target);
    (target, controller)
}

#[test]
fn structures_are_as_hosts_expect_them() {
    let (mut target, controller) = three();
    let structures = [
        ("controller", identify(Cns::CONTROLLER, 0)),
        ("namespace_1", identify(Cns::NAMESPACE, 1)),
        ("namespace_2", identify(Cns::NAMESPACE, 2)),
        ("namespace_9", identify(Cns::NAMESPACE, 9)),
        ("descriptors", identify(Cns::NAMESPACE_DESCRIPTORS, 1)),
        ("nvm_controller", identify(Cns::COMMAND_SET_CONTROLLER, 0)),
        ("nvm_namespace", identify(Cns::COMMAND_SET_NAMESPACE, 1)),
        ("independent_1", identify(Cns::INDEPENDENT_NAMESPACE, 1)),
        ("independent_2", identify(Cns::INDEPENDENT_NAMESPACE, 2)),
    ];
    for (name, command) in structures {
        insta::assert_snapshot!(name, dump(&described(&mut target, controller, command)));
    }
    let discovery = join(&mut target, &Nqn::discovery());
    let data = described(&mut target, discovery, identify(Cns::CONTROLLER, 0));
    insta::assert_snapshot!("discovery_controller", dump(&data));
}

/// The fields that the Linux host checks before it accepts a controller.
#[test]
fn the_controller_says_what_a_linux_host_needs() {
    let (mut target, controller) = joined();
    let data = described(&mut target, controller, identify(Cns::CONTROLLER, 0));
    let it = IdentifyController::ref_from_bytes(&data).unwrap();
    assert_eq!(it.controller_id.get(), controller.0);
    assert_eq!(it.controller_type, ControllerType::IO);
    assert_eq!(it.subsystem.get(), Ok(nqn("data")));
    assert_eq!(it.model.text(), "nearflash");
    assert_eq!(it.serial.text().len(), 16);
    assert_eq!(it.transfer_len_max(), Some(1 << 20));
    assert_eq!(it.in_capsule_len_max(), 8192);
    assert!(it.io_response_capsule_len.get() >= 1 && it.keep_alive_granularity.get() > 0);
    assert!(it.commands_max.get() > 0);
    // With ANA, MNAN must be given and not exceed NN.
    assert!((1..=it.namespaces.get()).contains(&it.namespaces_max.get()));
}

#[test]
fn a_subsystem_keeps_its_serial_number_and_another_has_another() {
    let serial = |seed, name| {
        let mut target = Target::new(TargetConfig { serial_seed: seed, ..config() });
        target.publish(vec![namespace(name, 1)]).unwrap();
        target.status().subsystems[0].serial.clone()
    };
    assert_eq!(serial(7, "data"), serial(7, "data"));
    assert_ne!(serial(7, "data"), serial(8, "data"));
    assert_ne!(serial(7, "data"), serial(7, "more"));
}

#[test]
fn active_namespaces_are_listed_past_the_one_given() {
    let (mut target, controller) = three();
    for cns in [Cns::ACTIVE_NAMESPACES, Cns::COMMAND_SET_ACTIVE_NAMESPACES] {
        for (after, expected) in [(0, &[1, 2, 9][..]), (1, &[2, 9]), (8, &[9]), (9, &[])] {
            let data = described(&mut target, controller, identify(cns, after));
            let listed: Vec<_> = parse_namespace_list(&data).iter().map(|it| it.0).collect();
            assert_eq!(listed, expected);
        }
        for refused in [u32::MAX, u32::MAX - 1] {
            let status = status_of(&mut target, controller, identify(cns, refused));
            assert_eq!(status, Status::INVALID_NAMESPACE.dnr());
        }
    }
}

#[test]
fn a_namespace_is_known_by_its_uuid_which_is_its_nguid_too() {
    let (mut target, controller) = joined();
    let data = described(&mut target, controller, identify(Cns::NAMESPACE_DESCRIPTORS, 1));
    let uuid = Uuid::from_u128(0xABC1);
    let expected = [
        NamespaceDescriptor::Nguid(uuid.into_bytes()),
        NamespaceDescriptor::Uuid(uuid),
        NamespaceDescriptor::CommandSet(0),
    ];
    assert_eq!(parse_descriptors(&data), expected);
    let data = described(&mut target, controller, identify(Cns::NAMESPACE, 1));
    let it = IdentifyNamespace::ref_from_bytes(&data).unwrap();
    assert_eq!(it.nguid, uuid.into_bytes());
}

#[test]
fn a_namespace_has_the_size_and_block_size_it_was_given() {
    let (mut target, controller) = three();
    let data = described(&mut target, controller, identify(Cns::NAMESPACE, 2));
    let it = IdentifyNamespace::ref_from_bytes(&data).unwrap();
    assert_eq!(it.blocks(), Blocks(262_144));
    assert_eq!(it.block_size(), Some(BlockSize::B512));
}

#[test]
fn an_inactive_namespace_is_all_zero_and_an_impossible_one_is_refused() {
    let (mut target, controller) = joined();
    for cns in [Cns::NAMESPACE, Cns::INDEPENDENT_NAMESPACE, Cns::COMMAND_SET_NAMESPACE] {
        assert_eq!(described(&mut target, controller, identify(cns, 5)), [0; 4096]);
        for nsid in [0, 1025, u32::MAX] {
            let status = status_of(&mut target, controller, identify(cns, nsid));
            assert_eq!(status, Status::INVALID_NAMESPACE.dnr(), "{cns:?} {nsid}");
        }
    }
    let status = status_of(&mut target, controller, identify(Cns::NAMESPACE_DESCRIPTORS, 5));
    assert_eq!(status, Status::INVALID_NAMESPACE.dnr());
}

#[test]
fn a_structure_or_command_set_that_is_not_there_is_an_invalid_field() {
    let (mut target, controller) = joined();
    let refused = Status::INVALID_FIELD.dnr();
    for cns in [0x04, 0x10, 0x11, 0x12, 0x13, 0x14, 0x1D, 0xFF] {
        let status = status_of(&mut target, controller, identify(Cns(cns), 1));
        assert_eq!(status, refused, "{cns:#x}");
    }
    let zoned = [
        Cns::COMMAND_SET_NAMESPACE,
        Cns::COMMAND_SET_CONTROLLER,
        Cns::COMMAND_SET_ACTIVE_NAMESPACES,
    ];
    for cns in zoned {
        let asked = Identify { command_set: 2, ..Identify::new(cns) };
        let status = status_of(&mut target, controller, asked.to_command(NamespaceId(1)));
        assert_eq!(status, refused, "{cns:?}");
    }
}

#[test]
fn command_sets_are_told_of_this_controller_only() {
    let (mut target, controller) = joined();
    for id in [controller, ControllerId(0xFFFF)] {
        let asked = Identify { controller: id, ..Identify::new(Cns::COMMAND_SETS) };
        let data = described(&mut target, controller, asked.to_command(NamespaceId(0)));
        assert_eq!(data[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    }
    let asked = Identify { controller: ControllerId(99), ..Identify::new(Cns::COMMAND_SETS) };
    let status = status_of(&mut target, controller, asked.to_command(NamespaceId(0)));
    assert_eq!(status, Status::INVALID_FIELD.dnr());
}

#[test]
fn a_host_that_makes_room_for_less_is_refused() {
    let (mut target, controller) = joined();
    let command = identify(Cns::CONTROLLER, 0).with_transport_data(2048);
    assert_eq!(status_of(&mut target, controller, command), Status::SGL_LENGTH_INVALID.dnr());
    let command = identify(Cns::CONTROLLER, 0).with_capsule_data(4096);
    assert_eq!(status_of(&mut target, controller, command), Status::SGL_TYPE_INVALID.dnr());
}

#[test]
fn a_discovery_controller_tells_of_no_namespaces() {
    let mut target = target();
    let controller = join(&mut target, &Nqn::discovery());
    for cns in [Cns::NAMESPACE, Cns::ACTIVE_NAMESPACES, Cns::NAMESPACE_DESCRIPTORS] {
        let status = status_of(&mut target, controller, identify(cns, 0));
        assert_eq!(status, Status::INVALID_FIELD.dnr());
    }
}

#[test]
fn small_blocks_are_best_written_by_eights_and_are_as_atomic_as_their_device() {
    let (mut target, controller) = joined();
    let of = |block_size, device_block_size| NamespaceConfig {
        block_size,
        device_block_size,
        ..namespace("data", 1)
    };
    let (b512, b4096) = (BlockSize::B512, BlockSize::B4096);
    for (config, best, atomic) in
        [(of(b512, b512), 7, 0), (of(b512, b4096), 7, 7), (of(b4096, b512), 0, 0)]
    {
        target.publish(vec![config]).unwrap();
        actions(&mut target);
        let data = described(&mut target, controller, identify(Cns::NAMESPACE, 1));
        let it = IdentifyNamespace::ref_from_bytes(&data).unwrap();
        let sizes = [it.write_granularity, it.write_alignment, it.write_size];
        let deallocations = [it.deallocate_granularity, it.deallocate_alignment];
        assert!(sizes.iter().chain(&deallocations).all(|size| size.get() == best));
        let atomics = [it.atomic_blocks, it.atomic_blocks_power_fail];
        let boundaries = [it.boundary_blocks, it.boundary_blocks_power_fail];
        assert!(atomics.iter().chain(&boundaries).all(|size| size.get() == atomic));
        assert_eq!(it.features & NamespaceFeatures::ATOMICS != 0, atomic > 0);
        assert_eq!(it.boundary_offset.get(), 0);
    }
}
