//! Lists that Identify returns: namespaces, namespace descriptors and command set combinations.

use nearflash_session::wire;
use uuid::Uuid;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::IDENTIFY_LEN;
use crate::NamespaceId;

wire! {
    /// NIDT. NVMe Base 2.0, 5.17.2.3.
    pub struct DescriptorType(pub u8);
}

#[allow(missing_docs, reason = "the names are the specification's")]
impl DescriptorType {
    pub const EUI64: Self = Self(1);
    pub const NGUID: Self = Self(2);
    pub const UUID: Self = Self(3);
    pub const COMMAND_SET: Self = Self(4);
}

wire! {
    /// The header of a namespace identification descriptor.
    struct DescriptorHeader: [u8; 4] {
        descriptor_type: DescriptorType,
        len: u8,
        reserved: U16,
    }
}

/// A namespace identification descriptor. NVMe Base 2.0, 5.17.2.3 (CNS 03h).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NamespaceDescriptor {
    /// IEEE extended unique identifier.
    Eui64([u8; 8]),
    /// Namespace globally unique identifier.
    Nguid([u8; 16]),
    /// Universally unique identifier.
    Uuid(Uuid),
    /// CSI: the I/O command set.
    CommandSet(u8),
}

/// Encodes the namespace identification descriptor list, CNS 03h.
pub fn descriptor_list(descriptors: &[NamespaceDescriptor]) -> Vec<u8> {
    let mut list = Vec::with_capacity(IDENTIFY_LEN);
    for descriptor in descriptors {
        let (descriptor_type, id): (_, &[u8]) = match descriptor {
            NamespaceDescriptor::Eui64(id) => (DescriptorType::EUI64, id),
            NamespaceDescriptor::Nguid(id) => (DescriptorType::NGUID, id),
            NamespaceDescriptor::Uuid(id) => (DescriptorType::UUID, id.as_bytes()),
            NamespaceDescriptor::CommandSet(id) => {
                (DescriptorType::COMMAND_SET, std::slice::from_ref(id))
            }
        };
        let len = u8::try_from(id.len()).expect("no identifier is longer than 16 bytes");
        let header = DescriptorHeader { descriptor_type, len, reserved: U16::ZERO };
        list.extend_from_slice(header.as_bytes());
        list.extend_from_slice(id);
    }
    assert!(list.len() <= IDENTIFY_LEN, "a namespace has one descriptor of each type");
    list.resize(IDENTIFY_LEN, 0);
    list
}

/// Decodes a descriptor list. Descriptors of unknown type or wrong length are skipped.
pub fn parse_descriptors(list: &[u8]) -> Vec<NamespaceDescriptor> {
    let mut descriptors = Vec::new();
    let mut rest = list;
    while let Ok((header, after)) = DescriptorHeader::ref_from_prefix(rest) {
        let Some((id, after)) = after.split_at_checked(usize::from(header.len)) else { break };
        if header.len == 0 {
            break;
        }
        rest = after;
        descriptors.extend(parse_descriptor(header.descriptor_type, id));
    }
    descriptors
}

fn parse_descriptor(descriptor_type: DescriptorType, id: &[u8]) -> Option<NamespaceDescriptor> {
    match descriptor_type {
        DescriptorType::EUI64 => id.try_into().ok().map(NamespaceDescriptor::Eui64),
        DescriptorType::NGUID => id.try_into().ok().map(NamespaceDescriptor::Nguid),
        DescriptorType::UUID => Uuid::from_slice(id).ok().map(NamespaceDescriptor::Uuid),
        DescriptorType::COMMAND_SET => id.first().map(|id| NamespaceDescriptor::CommandSet(*id)),
        _ => None,
    }
}

/// The maximum number of entries of a namespace list.
const NAMESPACE_LIST_MAX: usize = IDENTIFY_LEN / 4;

/// Encodes the list of namespaces above `after`, CNS 02h and 07h. `namespaces` must be sorted.
pub fn namespace_list(
    namespaces: impl Iterator<Item = NamespaceId>,
    after: NamespaceId,
) -> Vec<u8> {
    let listed = namespaces.filter(|nsid| *nsid > after).take(NAMESPACE_LIST_MAX);
    let mut list: Vec<u8> = listed.flat_map(|nsid| nsid.0.to_le_bytes()).collect();
    list.resize(IDENTIFY_LEN, 0);
    list
}

/// Decodes a namespace list up to the first zero. The changed namespace list has the same format.
pub fn parse_namespace_list(list: &[u8]) -> Vec<NamespaceId> {
    let (entries, _) = <[U32]>::ref_from_prefix_with_elems(list, list.len() / 4)
        .expect("as many entries as fit are asked for");
    entries.iter().map(|nsid| NamespaceId(nsid.get())).take_while(|nsid| nsid.0 != 0).collect()
}

/// Encodes the I/O command set combinations, CNS 1Ch. NVM alone is the only combination.
pub fn command_set_combinations() -> Vec<u8> {
    let nvm_alone = U64::new(1);
    let mut list = nvm_alone.as_bytes().to_vec();
    list.resize(IDENTIFY_LEN, 0);
    list
}
