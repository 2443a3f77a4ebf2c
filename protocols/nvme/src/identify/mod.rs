//! Identify: the properties of a controller and its namespaces. NVMe Base 2.0, 5.17.

mod controller;
mod lists;
mod namespace;

pub use controller::{ControllerType, IdentifyController};
pub use lists::{
    DescriptorType, NamespaceDescriptor, command_set_combinations, descriptor_list, namespace_list,
    parse_descriptors, parse_namespace_list,
};
pub use namespace::{IdentifyNamespace, IndependentNamespace, LbaFormat, NamespaceFeatures};

use zerocopy::FromZeros;

use crate::{AdminOpcode, Command, ControllerId, NamespaceId, SglDescriptor};

/// Length of every Identify data structure in bytes.
pub const IDENTIFY_LEN: usize = 4096;

/// A structure whose fields are all zero, to be filled in.
pub fn zeroed<T: FromZeros>() -> Box<T> {
    Box::new(T::new_zeroed())
}

/// The NVM command set's identifier. NVMe Base 2.0, 5.17 (CSI).
pub const COMMAND_SET_NVM: u8 = 0;

/// CNS: the data structure to return. NVMe Base 2.0, 5.17.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Cns(pub u8);

impl Cns {
    /// [`IdentifyNamespace`] of an active namespace.
    pub const NAMESPACE: Self = Self(0x00);
    /// [`IdentifyController`].
    pub const CONTROLLER: Self = Self(0x01);
    /// Active namespaces with a number greater than the given one.
    pub const ACTIVE_NAMESPACES: Self = Self(0x02);
    /// [`NamespaceDescriptor`]s.
    pub const NAMESPACE_DESCRIPTORS: Self = Self(0x03);
    /// The namespace's properties that are specific to its command set.
    pub const COMMAND_SET_NAMESPACE: Self = Self(0x05);
    /// The controller's properties that are specific to a command set.
    pub const COMMAND_SET_CONTROLLER: Self = Self(0x06);
    /// Active namespaces of a command set.
    pub const COMMAND_SET_ACTIVE_NAMESPACES: Self = Self(0x07);
    /// [`IndependentNamespace`].
    pub const INDEPENDENT_NAMESPACE: Self = Self(0x08);
    /// Combinations of I/O command sets.
    pub const COMMAND_SETS: Self = Self(0x1C);
}

/// An Identify command's parameters. NVMe Base 2.0, 5.17.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Identify {
    /// CNS.
    pub cns: Cns,
    /// CNTID: a controller, for the structures that describe one.
    pub controller: ControllerId,
    /// CSI: an I/O command set.
    pub command_set: u8,
}

impl Identify {
    /// The parameters for a structure that needs no controller and no command set other than NVM.
    pub fn new(cns: Cns) -> Self {
        Self { cns, controller: ControllerId(0), command_set: COMMAND_SET_NVM }
    }

    /// Decodes the command's parameters.
    pub fn from_command(command: &Command) -> Self {
        let [cns, _, low, high] = command.cdw10.get().to_le_bytes();
        let [_, _, _, command_set] = command.cdw11.get().to_le_bytes();
        let controller = ControllerId(u16::from_le_bytes([low, high]));
        Self { cns: Cns(cns), controller, command_set }
    }

    /// The Identify command. The transport moves its 4096 bytes of data.
    pub fn to_command(self, nsid: NamespaceId) -> Command {
        let [low, high] = self.controller.0.to_le_bytes();
        Command {
            sgl: SglDescriptor::transport(4096),
            cdw10: u32::from_le_bytes([self.cns.0, 0, low, high]).into(),
            cdw11: (u32::from(self.command_set) << 24).into(),
            ..Command::new(AdminOpcode::IDENTIFY.0, nsid)
        }
    }
}

#[cfg(test)]
mod tests {
    use nearflash_units::BlockSize;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_block_size_is_that_of_the_format_in_use() {
        let mut namespace = zeroed::<IdentifyNamespace>();
        assert_eq!(namespace.block_size(), None);
        namespace.lba_formats[0].data_shift = 9;
        namespace.lba_formats[17].data_shift = 12;
        assert_eq!(namespace.block_size(), Some(BlockSize::B512));
        namespace.formats = 17;
        namespace.format = 0b010_0001;
        assert_eq!(namespace.block_size(), Some(BlockSize::B4096));
        namespace.lba_formats[17].data_shift = 255;
        assert_eq!(namespace.block_size(), None);
    }

    #[test]
    fn limits_of_a_controller_that_says_nonsense_are_bounded() {
        let mut controller = zeroed::<IdentifyController>();
        assert_eq!(controller.transfer_len_max(), None);
        assert_eq!(controller.in_capsule_len_max(), 0);
        controller.transfer_shift_max = 255;
        controller.io_command_capsule_len = u32::MAX.into();
        controller.in_capsule_data_offset = u16::MAX.into();
        assert_eq!(controller.transfer_len_max(), Some(u64::MAX));
        assert!(controller.in_capsule_len_max() > 0);
    }

    #[test]
    fn descriptors_of_unknown_type_or_of_wrong_length_are_passed_over() {
        let list = [
            [0x09, 2, 0, 0, 0xAA, 0xAA].as_slice(), // unknown
            &[0x03, 1, 0, 0, 0xAA],                 // a UUID of one byte
            &[0x04, 1, 0, 0, 0x02],                 // command set 2
            &[0x01, 8, 0, 0, 1, 2],                 // cut off
        ]
        .concat();
        assert_eq!(parse_descriptors(&list), [NamespaceDescriptor::CommandSet(2)]);
    }

    proptest! {
        #[test]
        fn what_is_asked_for_is_what_is_understood(cns: u8, controller: u16, command_set: u8) {
            let controller = ControllerId(controller);
            let asked = Identify { cns: Cns(cns), controller, command_set };
            let command = asked.to_command(NamespaceId(7));
            prop_assert_eq!(Identify::from_command(&command), asked);
            prop_assert_eq!(command.namespace_id(), NamespaceId(7));
        }

        #[test]
        fn descriptors_are_read_as_they_were_listed(
            eui64: [u8; 8], nguid: [u8; 16], uuid: u128, command_set: u8,
        ) {
            let descriptors = [
                NamespaceDescriptor::Eui64(eui64),
                NamespaceDescriptor::Nguid(nguid),
                NamespaceDescriptor::Uuid(Uuid::from_u128(uuid)),
                NamespaceDescriptor::CommandSet(command_set),
            ];
            let list = descriptor_list(&descriptors);
            prop_assert_eq!(list.len(), IDENTIFY_LEN);
            prop_assert_eq!(parse_descriptors(&list), descriptors);
        }

        #[test]
        fn namespaces_past_the_one_given_are_read_as_they_were_listed(
            numbers in prop::collection::btree_set(1..2000_u32, 0..1500), after in 0..2000_u32,
        ) {
            let after = NamespaceId(after);
            let all = || numbers.iter().map(|nsid| NamespaceId(*nsid));
            let expected: Vec<_> = all().filter(|nsid| *nsid > after).take(1024).collect();
            prop_assert_eq!(parse_namespace_list(&namespace_list(all(), after)), expected);
        }
    }
}
