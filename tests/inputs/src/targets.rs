//! The conversion of bytes to the arguments of each property.

use nearflash_api::check as api;
use nearflash_config::check as config;
use nearflash_direct::check as direct;
use nearflash_files_calls::check as calls;
use nearflash_iscsi::check as iscsi;
use nearflash_nvme::check as nvme;
use nearflash_nvme_tcp::check as nvme_tcp;
use nearflash_scsi::check as scsi;

use crate::{cluster, files, on_disk, shard, structures, texts};

/// One property of outside input.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its directory in `fuzz/corpus`.
    pub name: &'static str,
    /// Panics when the property does not hold for these bytes.
    pub check: fn(&[u8]),
}

/// All targets. Each needs a directory in `fuzz/corpus` and a row in `fuzz/README.md`.
pub const TARGETS: [Target; 27] = [
    Target { name: "nvme_commands", check: nvme::check_decode_never_panics },
    Target { name: "nvme_parsers", check: structures::check_structures },
    Target { name: "nvme_connect", check: nvme::check_connect_never_panics },
    Target { name: "nvme_admin", check: nvme::check_admin_never_panics },
    Target { name: "nvme_tcp_target", check: nvme_tcp::check_target_never_panics },
    Target { name: "nvme_tcp_segments", check: nvme_tcp_segments },
    Target { name: "nvme_tcp_host", check: nvme_tcp::check_host_never_panics },
    Target { name: "nvme_tcp_pair", check: nvme_tcp_pair },
    Target { name: "scsi_commands", check: scsi_commands },
    Target { name: "iscsi_target", check: iscsi_target },
    Target { name: "iscsi_segments", check: iscsi_segments },
    Target { name: "iscsi_initiator", check: iscsi::check_initiator_never_panics },
    Target { name: "iscsi_login", check: iscsi_login },
    Target { name: "iscsi_pair", check: iscsi_pair },
    Target { name: "direct_target", check: direct::check_target_never_panics },
    Target { name: "direct_segments", check: direct_segments },
    Target { name: "direct_client", check: direct::check_client_never_panics },
    Target { name: "direct_pair", check: direct_pair },
    Target { name: "direct_seal", check: direct::check_seal },
    Target { name: "files_calls", check: files_calls },
    Target { name: "shard", check: shard::check_shard },
    Target { name: "on_disk", check: on_disk::check_on_disk },
    Target { name: "files", check: files::check_files },
    Target { name: "texts", check: |input| texts::check_texts(text_of(input)) },
    Target { name: "config", check: |input| config::check_config_file(text_of(input)) },
    Target { name: "control", check: api::check_control_request },
    Target { name: "cluster", check: cluster::check_cluster },
];

/// The longest valid text at the start of the bytes.
fn text_of(input: &[u8]) -> &str {
    match std::str::from_utf8(input) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&input[..error.valid_up_to()]).unwrap_or_default(),
    }
}

/// A request on files, or the payload of an answer in every form.
fn files_calls(input: &[u8]) {
    calls::check_request(input);
    calls::check_answer(input);
}

/// Almost valid PDUs with correct digests, cut anywhere: eight bytes describe each.
fn nvme_tcp_segments(input: &[u8]) {
    let [selector, first, second, third, instructions @ ..] = input else { return };
    let stream = nvme_tcp::stream_of(*selector, instructions);
    let cuts = [*first, *second, *third];
    nvme_tcp::check_segmentation_does_not_matter(*selector, &stream, &cuts);
    nvme_tcp::check_target_never_panics(&[&[*selector], &stream[..]].concat());
}

/// Both ends of NVMe/TCP, connected to each other: twelve bytes are a scenario.
fn nvme_tcp_pair(input: &[u8]) {
    let Some(([seed @ .., options, capsule, alignment, operations], _)) =
        input.split_first_chunk::<12>()
    else {
        return;
    };
    nvme_tcp::check_pair(nvme_tcp::PairScenario {
        seed: u64::from_le_bytes(*seed),
        digests: nearflash_nvme_tcp::Digests { header: options & 1 != 0, data: options & 2 != 0 },
        flow_control: options & 4 != 0,
        in_capsule_len_max: u32::from(capsule % 33) * 512,
        alignment: alignment % 32,
        operations: usize::from(*operations),
    });
}

/// SCSI commands and their parameters: the first byte selects the kind of unit.
fn scsi_commands(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else { return };
    scsi::check_any_command(*kind, bytes);
    scsi::check_usage_map(*kind, bytes);
    scsi::check_commands_against_memory(*kind, bytes);
    if let [a, b, c, d, e, f, ..] = *bytes {
        scsi::check_forms_agree(u32::from_le_bytes([a, b, c, d]), u16::from_le_bytes([e, f]));
    }
}

fn iscsi_setup(selector: u8) -> iscsi::Setup {
    let (header_digest, data_digest) = (selector & 1 != 0, selector & 2 != 0);
    iscsi::Setup { header_digest, data_digest, ..iscsi::Setup::default() }
}

/// Input of a target's session: the first byte selects its stage and digests, the second the cuts.
fn iscsi_target(input: &[u8]) {
    let [selector, part_len, stream @ ..] = input else { return };
    let stage = iscsi::Stage::ALL[usize::from(selector >> 2) % iscsi::Stage::ALL.len()];
    let setup = iscsi_setup(*selector);
    iscsi::check_target_never_panics(stage, setup, stream, usize::from(*part_len));
}

/// Almost valid PDUs of an initiator with correct digests, cut anywhere: six bytes describe each.
fn iscsi_segments(input: &[u8]) {
    let [selector, part_len, recipe @ ..] = input else { return };
    let (setup, part_len) = (iscsi_setup(*selector), usize::from(*part_len));
    let stream = iscsi::stream_of(setup, recipe);
    iscsi::check_segmentation_does_not_matter(setup, &stream, part_len);
    iscsi::check_target_never_panics(iscsi::Stage::FullFeature, setup, &stream, part_len);
}

/// Text of logins at both ends: the first byte selects the exchange before it.
fn iscsi_login(input: &[u8]) {
    iscsi::check_login_never_panics(input);
    iscsi::check_initiator_login_never_panics(input);
    iscsi::check_pairs(input);
}

/// Both ends of iSCSI, connected to each other: eleven bytes are a scenario.
fn iscsi_pair(input: &[u8]) {
    let Some(([seed @ .., options, receive_len, operations], _)) = input.split_first_chunk::<11>()
    else {
        return;
    };
    iscsi::check_pair(iscsi::PairScenario {
        seed: u64::from_le_bytes(*seed),
        digests: [options & 1 != 0, options & 2 != 0],
        with_account: options & 4 != 0,
        connections: 1 + u16::from(options >> 3 & 3),
        initial_r2t: options & 32 != 0,
        immediate_data: options & 64 != 0,
        receive_len_max: 512 * (1 + u32::from(*receive_len)),
        operations: usize::from(*operations),
    });
}

/// Almost valid messages of the direct protocol with correct digests, cut anywhere: eight bytes
/// describe each.
fn direct_segments(input: &[u8]) {
    let [selector, first, second, third, instructions @ ..] = input else { return };
    let stream = direct::stream_of(*selector, instructions);
    let cuts = [*first, *second, *third];
    direct::check_segmentation_does_not_matter(*selector, &stream, &cuts);
    direct::check_target_never_panics(&[&[*selector, *first], &stream[..]].concat());
}

/// Both ends of the direct protocol, connected to each other: ten bytes are a scenario.
fn direct_pair(input: &[u8]) {
    let Some(([seed @ .., options, operations], _)) = input.split_first_chunk::<10>() else {
        return;
    };
    direct::check_pair(direct::PairScenario {
        seed: u64::from_le_bytes(*seed),
        digests: nearflash_direct::Digests { header: options & 1 != 0, data: options & 2 != 0 },
        with_key: options & 4 != 0,
        by_rings: options & 8 != 0,
        large_blocks: options & 16 != 0,
        sealed: options & 32 != 0,
        operations: usize::from(*operations),
    });
}
