//! Invalid bytes from hosts: each causes the protocol's own error, ends at most its own connection,
//! and no other host notices. NVMe/TCP 1.1, 3.5; NVMe Base 2.0, 3.3.3.2.1.
#![allow(clippy::unwrap_used)] // a failed test says where

use nearflash_node_tests::{
    Admin, Host, Node, Pdu, Place, Wire, assert_serves, connect_command, eventually, numbered,
    subsystem,
};
use nearflash_nvme::fabrics::{ConnectData, PropertyAccess};
use nearflash_nvme::property::offset;
use nearflash_nvme::{Command, ControllerId, NamespaceId, Nqn, SglDescriptor, Status};
use nearflash_nvme_tcp::Digests;
use nearflash_nvme_tcp::pdu::{DataIds, FatalStatus, InitPdu, PduType, TermReq};
use nearflash_units::Lba;
use uuid::Uuid;
use zerocopy::IntoBytes;

const NSID: NamespaceId = NamespaceId(1);
const BLOCK: u32 = 4096;
/// The number of blocks of the volume `data` of [`Node::in_memory`].
const BLOCKS: u64 = 2048;

/// Checks that misbehaviour does not affect others: a connected host continues to work, and another
/// one can connect.
fn nobody_else_notices(misbehave: impl FnOnce(&Node<'_>)) {
    let place = Place::new();
    let node = Node::in_memory(&place);
    let mut bystander = Host::connect(&node, "data");
    bystander.assert_works();
    misbehave(&node);
    bystander.assert_works();
    assert_serves(&node);
}

/// An I/O queue with this number of entries, and the admin queue of its controller.
fn io_queue(node: &Node<'_>, entries: u16) -> (Admin, Wire) {
    let admin = Admin::join(node, "data");
    let io = admin.io(1, entries);
    (admin, io)
}

fn read(lba: u64, blocks: u16) -> Command {
    Command::read(NSID, Lba(lba), blocks - 1, u32::from(blocks) * BLOCK)
}

fn write(lba: u64, blocks: u16) -> Command {
    Command::write(NSID, Lba(lba), blocks - 1, u32::from(blocks) * BLOCK)
}

/// The same capsule with another PLEN.
fn with_pdu_len(mut pdu: Vec<u8>, len: u32) -> Vec<u8> {
    pdu[4..8].copy_from_slice(&len.to_le_bytes());
    pdu
}

#[test]
fn a_pdu_that_is_none_ends_its_connection_alone() {
    nobody_else_notices(|node| {
        let (_admin, mut io) = io_queue(node, 8);
        let mut unknown = io.capsule(&Command::flush(NSID), &[]);
        unknown[0] = 0x0F;
        io.send(&unknown);
        let Pdu::Term { status, information, header } = io.receive() else { panic!("not told") };
        assert_eq!((status, information), (FatalStatus::INVALID_HEADER_FIELD, 0));
        assert_eq!(header, unknown[..8], "the header at fault comes back");
        io.closed();

        let (_admin, mut io) = io_queue(node, 8);
        let mut long = io.capsule(&Command::flush(NSID), &[]);
        long[2] = 73;
        io.send(&long);
        assert_eq!(io.terminated(), (FatalStatus::INVALID_HEADER_FIELD, 2));

        let mut stranger = Wire::open(node.address());
        stranger.send(b"GET / HTTP/1.1\r\nHost: flash\r\n\r\n");
        assert_eq!(stranger.terminated(), (FatalStatus::INVALID_HEADER_FIELD, 0));

        let mut controller = Wire::agree(node.address(), Digests::NONE);
        let mut response = controller.capsule(&Command::flush(NSID), &[]);
        response[0] = PduType::CAPSULE_RESP.0;
        controller.send(&response);
        assert_eq!(controller.terminated(), (FatalStatus::INVALID_HEADER_FIELD, 0));
    });
}

#[test]
fn an_icreq_of_another_format_or_alignment_is_told_which_field() {
    nobody_else_notices(|node| {
        let request = InitPdu::request(Default::default(), Default::default(), 0);
        for (at, value, expected) in [
            (8, 1, (FatalStatus::UNSUPPORTED_PARAMETER, 8)),
            (10, 32, (FatalStatus::INVALID_HEADER_FIELD, 10)),
        ] {
            let mut bytes = request.as_bytes().to_vec();
            bytes[at] = value;
            let mut wire = Wire::open(node.address());
            wire.send(&bytes);
            assert_eq!(wire.terminated(), expected);
        }
    });
}

#[test]
fn a_bad_header_digest_ends_the_connection_and_is_quoted() {
    nobody_else_notices(|node| {
        let admin = Admin::join_with(node, "data", connect_command(0, 32), Digests::BOTH);
        let mut io = admin.io_with(1, 8, Digests::BOTH);
        let mut capsule = io.capsule(&Command::flush(NSID), &[]);
        capsule[72] ^= 1;
        let received = u32::from_le_bytes(capsule[72..76].try_into().unwrap());
        io.send(&capsule);
        assert_eq!(io.terminated(), (FatalStatus::HEADER_DIGEST, received));
    });
}

#[test]
fn a_bad_data_digest_fails_its_command_and_nothing_is_written() {
    nobody_else_notices(|node| {
        let admin = Admin::join_with(node, "data", connect_command(0, 32), Digests::BOTH);
        let mut io = admin.io_with(1, 8, Digests::BOTH);
        let (good, bad) = (vec![1; 4096], vec![2; 4096]);
        let command = write(5, 1).with_capsule_data(BLOCK);
        assert_eq!(io.run_with(&command, &good), Status::SUCCESS);
        let mut capsule = io.capsule(&command, &bad);
        *capsule.last_mut().unwrap() ^= 1;
        io.send(&capsule);
        assert_eq!(io.response().status(), Status::TRANSIENT_TRANSPORT_ERROR);

        io.submit(&write(5, 1), &[]);
        let r2t = io.r2t();
        let ids = DataIds { command_id: 0, transfer_tag: r2t.transfer_tag.get() };
        let mut data = io.data(ids, 0, &bad, true);
        data[40] ^= 1;
        io.send(&data);
        assert_eq!(io.response().status(), Status::TRANSIENT_TRANSPORT_ERROR);
        assert_eq!(io.read(&read(5, 1)), (Status::SUCCESS, good), "the queue works on");
    });
}

#[test]
fn lengths_that_cannot_be_end_the_connection_before_any_memory_is_taken() {
    nobody_else_notices(|node| {
        let before = node.usage().resident_bytes;
        for len in [u32::MAX, 1 << 31, 0, 7, 71, 72 + 16 * 1024 + 1] {
            let (_admin, mut io) = io_queue(node, 8);
            let mut capsule = with_pdu_len(io.capsule(&write(0, 1), &[]), len);
            capsule[3] = if len > 72 { 72 } else { 0 };
            io.send(&capsule);
            assert_eq!(io.terminated(), (FatalStatus::INVALID_HEADER_FIELD, 4), "PLEN {len}");
        }
        let mut wire = Wire::open(node.address());
        wire.send(&with_pdu_len(
            InitPdu::request(Default::default(), Default::default(), 0).as_bytes().to_vec(),
            0xFFFF_FF80,
        ));
        assert_eq!(wire.terminated(), (FatalStatus::INVALID_HEADER_FIELD, 4));
        let grown = node.usage().resident_bytes.saturating_sub(before);
        assert!(grown < 8 << 20, "{grown} bytes were taken");
    });
}

#[test]
fn data_that_was_not_asked_for_ends_the_connection() {
    /// The corrupted PDU, and the expected error.
    type Case = (fn(DataIds, &Wire) -> Vec<u8>, (FatalStatus, u32));
    let cases: [Case; 5] = [
        // There is no such R2T.
        (
            |ids, io| io.data(DataIds { transfer_tag: 99, ..ids }, 0, &[0; 4096], true),
            (FatalStatus::INVALID_HEADER_FIELD, 10),
        ),
        // The R2T belongs to another command.
        (
            |ids, io| io.data(DataIds { command_id: 9, ..ids }, 0, &[0; 4096], true),
            (FatalStatus::INVALID_HEADER_FIELD, 8),
        ),
        // Past the end of the requested range.
        (|ids, io| io.data(ids, 0, &[0; 8192], true), (FatalStatus::DATA_OUT_OF_RANGE, 0)),
        (|ids, io| io.data(ids, 512, &[0; 4096], true), (FatalStatus::DATA_OUT_OF_RANGE, 0)),
        // More than MAXH2CDATA.
        (
            |ids, io| io.data(ids, 0, &vec![0; (1 << 20) + 4], true),
            (FatalStatus::LIMIT_EXCEEDED, 0),
        ),
    ];
    nobody_else_notices(|node| {
        for (spoil, expected) in cases {
            let (_admin, mut io) = io_queue(node, 8);
            io.submit(&numbered(write(0, 1), 3), &[]);
            let ids = DataIds { command_id: 3, transfer_tag: io.r2t().transfer_tag.get() };
            let data = spoil(ids, &io);
            io.send(&data);
            assert_eq!(io.terminated(), expected);
        }
    });
}

#[test]
fn what_comes_before_its_time_is_refused() {
    nobody_else_notices(|node| {
        let mut wire = Wire::open(node.address());
        let early = wire.capsule(&Command::flush(NSID), &[]);
        wire.send(&early);
        assert_eq!(wire.terminated(), (FatalStatus::SEQUENCE, 0), "a command before ICReq");

        let mut wire = Wire::agree(node.address(), Digests::NONE);
        wire.send(InitPdu::request(Default::default(), Default::default(), 0).as_bytes());
        assert_eq!(wire.terminated(), (FatalStatus::SEQUENCE, 0), "a second ICReq");

        let mut wire = Wire::agree(node.address(), Digests::NONE);
        let ids = DataIds { command_id: 0, transfer_tag: 0 };
        let data = wire.data(ids, 0, &[0; 512], true);
        wire.send(&data);
        assert_eq!(wire.terminated(), (FatalStatus::SEQUENCE, 0), "data before Connect");

        // A command before Connect is answered, since the connection can still become a queue.
        let mut wire = Wire::agree(node.address(), Digests::NONE);
        let early = [
            Command::property_get(offset::CAPABILITIES, PropertyAccess::SIZE_8),
            Command::keep_alive(),
            read(0, 1),
        ];
        for command in early {
            assert_eq!(wire.run(&command).status(), Status::COMMAND_SEQUENCE_ERROR.dnr());
        }
        let host: Nqn = "nqn.2026-11.test:host".parse().unwrap();
        let controller = ControllerId::DYNAMIC;
        let data = ConnectData::new(Uuid::from_u128(1), controller, &subsystem("data"), &host);
        assert!(wire.connect(connect_command(0, 32), &data).status().is_success());

        // A second Connect on a queue, and an I/O queue of a controller that is not enabled.
        let again = wire.connect(connect_command(0, 32), &data).status();
        assert_eq!(again, Status::COMMAND_SEQUENCE_ERROR.dnr());
    });
}

#[test]
fn an_io_queue_of_no_controller_is_refused_by_the_field_that_is_wrong() {
    nobody_else_notices(|node| {
        let admin = Admin::join(node, "data");
        let host: Nqn = "nqn.2026-11.test:host".parse().unwrap();
        let connect = |queue, entries, data: &ConnectData| {
            let mut wire = Wire::agree(node.address(), Digests::NONE);
            let entry = wire.connect(connect_command(queue, entries), data);
            (entry.status(), entry.dw0.get())
        };
        let invalid = Status::CONNECT_INVALID_PARAMETERS.dnr();
        let good = admin.connect_data();
        let other = ControllerId(0x777);
        let unknown = ConnectData::new(Uuid::nil(), other, &subsystem("data"), &host);
        assert_eq!(connect(1, 32, &unknown), (invalid, 1 << 16 | 16), "CNTLID");
        assert_eq!(connect(9999, 32, &good), (invalid, 42), "QID");
        assert_eq!(connect(1, 1, &good), (invalid, 44), "SQSIZE");
        assert_eq!(connect(1, 0x8000, &good), (invalid, 44), "SQSIZE");
        let _first = admin.io(1, 32);
        assert_eq!(connect(1, 32, &good).0, Status::COMMAND_SEQUENCE_ERROR, "it is in use");
    });
}

#[test]
fn a_command_that_is_not_known_is_answered_so() {
    nobody_else_notices(|node| {
        let (mut admin, mut io) = io_queue(node, 8);
        for opcode in [0x06, 0x42, 0xC0, 0xFC, 0xFF] {
            let status = io.run(&Command::new(opcode, NSID)).status();
            assert_eq!(status, Status::INVALID_OPCODE.dnr(), "I/O opcode {opcode:#x}");
        }
        for opcode in [0x00, 0x03, 0x42, 0x80, 0xC0, 0xFC] {
            let status = admin.wire.run(&Command::new(opcode, NSID)).status();
            assert_eq!(status, Status::INVALID_OPCODE.dnr(), "admin opcode {opcode:#x}");
        }
        assert!(io.run(&Command::flush(NSID)).status().is_success(), "the queue works on");
    });
}

#[test]
fn blocks_outside_of_the_volume_are_refused() {
    nobody_else_notices(|node| {
        let (_admin, mut io) = io_queue(node, 8);
        let refused = Status::LBA_OUT_OF_RANGE.dnr();
        for (lba, blocks) in [(BLOCKS, 1), (BLOCKS - 1, 2), (u64::MAX, 1), (u64::MAX - 1, 8)] {
            assert_eq!(io.run(&read(lba, blocks)).status(), refused, "read at {lba}");
            let data = vec![7; usize::from(blocks) * 4096];
            let written = write(lba, blocks);
            assert_eq!(io.run_asked(&written, &data), refused, "write at {lba}");
            let zeroes = Command::write_zeroes(NSID, Lba(lba), blocks - 1);
            assert_eq!(io.run(&zeroes).status(), refused, "write zeroes at {lba}");
        }
        let mut range = [0; 16];
        range[4..8].copy_from_slice(&2u32.to_le_bytes());
        range[8..].copy_from_slice(&(BLOCKS - 1).to_le_bytes());
        let deallocate = Command::deallocate(NSID, 0).with_capsule_data(16);
        assert_eq!(io.run_with(&deallocate, &range), refused, "deallocate");
        assert_eq!(io.read(&read(BLOCKS - 1, 1)), (Status::SUCCESS, vec![0; 4096]));
        for nsid in [NamespaceId(0), NamespaceId(2), NamespaceId(0xFFFF_FFFE)] {
            let command = Command { nsid: nsid.0.into(), ..read(0, 1) };
            assert_eq!(io.run(&command).status(), Status::INVALID_NAMESPACE.dnr(), "{nsid:?}");
        }
    });
}

#[test]
fn data_of_another_length_than_the_blocks_is_refused() {
    nobody_else_notices(|node| {
        let (_admin, mut io) = io_queue(node, 8);
        let wrong = Status::SGL_LENGTH_INVALID.dnr();
        for len in [0, 1, 511, 512, 4095, 4097, 8192, u32::MAX] {
            let commands = [read(0, 1), write(0, 1), Command::compare(NSID, Lba(0), 0, BLOCK)];
            for command in commands {
                let status = io.run(&command.with_transport_data(len)).status();
                assert_eq!(status, wrong, "{len} bytes");
            }
        }
        let misaligned = write(0, 1).with_capsule_data(1000);
        assert_eq!(io.run_with(&misaligned, &[0; 1000]), wrong);
        let says_more = write(0, 1).with_capsule_data(BLOCK);
        assert_eq!(io.run_with(&says_more, &[0; 1024]), wrong, "less in the capsule than it says");
        let too_long = Command::read(NSID, Lba(0), 511, 512 * BLOCK);
        assert_eq!(io.run(&too_long).status(), Status::INVALID_FIELD.dnr(), "longer than MDTS");
        let keyed = SglDescriptor { identifier: 0x40, ..SglDescriptor::transport(BLOCK) };
        let keyed = Command { sgl: keyed, ..read(0, 1) };
        assert_eq!(io.run(&keyed).status(), Status::SGL_TYPE_INVALID.dnr());
        let prp = Command { flags: 0, ..read(0, 1) };
        assert_eq!(io.run(&prp).status(), Status::INVALID_FIELD.dnr(), "PRPs are not for fabrics");
        assert!(io.run(&Command::flush(NSID)).status().is_success(), "the queue works on");
    });
}

#[test]
fn more_commands_than_the_queue_has_entries_end_the_connection() {
    let place = Place::new();
    let flags = ["--device", "slow=null:16MiB,read-delay=1s", "--volume", "data=8MiB@slow"];
    let node = Node::start(&place, &flags);
    let admin = Admin::join(&node, "data");
    let mut io = admin.io(1, 4);
    let five: Vec<u8> =
        (0..5).flat_map(|cid| io.capsule(&numbered(read(0, 1), cid), &[])).collect();
    io.send(&five);
    assert_eq!(io.terminated(), (FatalStatus::SEQUENCE, 0));
    eventually("the log says so", || place.log().contains("more than 4 commands in flight"));

    // Two commands with one identifier: the second is refused, the first is executed.
    let mut io = admin.io(2, 4);
    io.send(&io.capsule(&numbered(read(0, 1), 7), &[]).repeat(2));
    assert_eq!(io.response().status(), Status::COMMAND_ID_CONFLICT.dnr());
    assert_eq!(io.answer(), (Status::SUCCESS, vec![0; 4096]));
    let mut other = Host::connect(&node, "data");
    let block = vec![0; other.block_len()];
    assert_eq!(other.write(0, &block), Status::SUCCESS, "nobody else notices");
}

#[test]
fn a_subsystem_or_host_that_is_not_known_is_refused() {
    let (friend, stranger) = ("nqn.2026-11.test:friend", "nqn.2026-11.test:stranger");
    let place = Place::new();
    let flags = ["--device", "r=ram:16MiB", "--volume", "data=8MiB@r", "--host", friend];
    let node = Node::start(&place, &flags);
    let connect = |subsystem: &Nqn, host: &str| {
        let host = host.parse().unwrap();
        let data = ConnectData::new(Uuid::from_u128(1), ControllerId::DYNAMIC, subsystem, &host);
        let mut wire = Wire::agree(node.address(), Digests::NONE);
        let entry = wire.connect(connect_command(0, 32), &data);
        (entry.status(), entry.dw0.get(), wire)
    };
    let (status, result, _) = connect(&subsystem("nothing"), friend);
    assert_eq!((status, result), (Status::CONNECT_INVALID_PARAMETERS.dnr(), 1 << 16 | 256));
    let (status, result, _) = connect(&subsystem("data"), stranger);
    assert_eq!((status, result), (Status::CONNECT_INVALID_HOST.dnr(), 1 << 16 | 512));
    eventually("the log says who was refused", || place.log().contains("reason=\"not-admitted\""));
    let (status, _, mut wire) = connect(&subsystem("data"), friend);
    assert_eq!(status, Status::SUCCESS);
    let get = Command::property_get(offset::VERSION, PropertyAccess::SIZE_4);
    assert_eq!(wire.run(&get).dw0.get(), 0x0002_0000);
}

#[test]
fn a_host_that_gives_up_is_not_argued_with() {
    nobody_else_notices(|node| {
        let (_admin, mut io) = io_queue(node, 8);
        let status = FatalStatus::INVALID_HEADER_FIELD;
        io.send(TermReq::new(PduType::H2C_TERM_REQ, status, 5, 0).as_bytes());
        io.closed();
    });
}

/// Pseudo-random numbers (xorshift64).
fn noise(seed: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(seed | 1), |x| {
        let x = x ^ x << 13;
        let x = x ^ x >> 7;
        Some(x ^ x << 17)
    })
}

#[test]
fn noise_ends_its_connection_whatever_it_is() {
    nobody_else_notices(|node| {
        let admin = Admin::join(node, "data");
        for seed in 1..=60 {
            // Pure noise, noise after an ICReq, or a queue's commands with flipped bits.
            let mut numbers = noise(seed * 0x9E37_79B9);
            let mut bytes: Vec<u8> = numbers.by_ref().take(64).flat_map(u64::to_le_bytes).collect();
            let mut wire = match seed % 3 {
                0 => Wire::open(node.address()),
                1 => Wire::agree(node.address(), Digests::NONE),
                _ => {
                    let io = admin.io(u16::try_from(seed).unwrap(), 8);
                    bytes = (0..8)
                        .flat_map(|cid| io.capsule(&numbered(read(0, 1), cid), &[]))
                        .collect();
                    for number in numbers.take(20) {
                        let bit = usize::try_from(number >> 32).unwrap() % (bytes.len() * 8);
                        bytes[bit / 8] ^= 1 << (bit % 8);
                    }
                    io
                }
            };
            wire.send(&bytes);
            wire.stream().shutdown(std::net::Shutdown::Write).unwrap();
            // The node sends whole PDUs only, and then closes the connection.
            while !matches!(wire.receive(), Pdu::Closed) {}
        }
    });
}
