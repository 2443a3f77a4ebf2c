use nearflash_request::{Traffic, Usage};
use zerocopy::FromBytes;

use super::*;
use crate::AdminOpcode;
use crate::fabrics::PropertyAccess;
use crate::identify::{Cns, Identify, IdentifyController};
use crate::log::{GetLogPage, HealthInformation, LogId};
use crate::property::{Capabilities, ControllerStatus};

fn get(offset: u32, size: u8) -> Command {
    Command::property_get(offset, size)
}

fn csts(target: &mut Target, controller: ControllerId) -> ControllerStatus {
    let (completion, _) = ask(target, controller, get(offset::STATUS, PropertyAccess::SIZE_4));
    ControllerStatus(completion.dw0.get())
}

#[test]
fn a_controller_is_enabled_shut_down_and_reset_by_its_configuration() {
    let mut target = target();
    let controller = Host::of(&nqn("data")).connect(&mut target).unwrap().controller;
    assert!(!csts(&mut target, controller).is_ready());
    ask(&mut target, controller, enable());
    assert!(csts(&mut target, controller).is_ready());
    assert!(target.status().hosts[0].ready);
    let shutdown = Configuration::ENABLE.with_normal_shutdown();
    ask(&mut target, controller, Command::property_set(offset::CONFIGURATION, shutdown.0));
    assert!(csts(&mut target, controller).is_shutdown_complete());
    ask(&mut target, controller, Command::property_set(offset::CONFIGURATION, 0));
    assert_eq!(csts(&mut target, controller), ControllerStatus(0));
}

#[test]
fn a_configuration_that_cannot_be_is_fatal() {
    let page_of_8k = 1 << 7;
    let weighted = 1 << 11;
    let wrong_command_len = 1 << 16;
    let unknown_command_set = 1 << 4;
    for wrong in [page_of_8k, weighted, wrong_command_len, unknown_command_set] {
        let mut target = target();
        let controller = Host::of(&nqn("data")).connect(&mut target).unwrap().controller;
        let value = Configuration::ENABLE.0 ^ wrong;
        ask(&mut target, controller, Command::property_set(offset::CONFIGURATION, value));
        let status = csts(&mut target, controller);
        assert!(status.is_fatal() && !status.is_ready(), "{value:#x}");
    }
}

#[test]
fn both_ways_to_select_the_nvm_command_set_work() {
    let mut target = target();
    let controller = Host::of(&nqn("data")).connect(&mut target).unwrap().controller;
    let all_command_sets = 0b110 << 4;
    let value = Configuration::ENABLE.0 | all_command_sets;
    ask(&mut target, controller, Command::property_set(offset::CONFIGURATION, value));
    assert!(csts(&mut target, controller).is_ready());
}

#[test]
fn properties_are_as_a_fabrics_host_expects_them() {
    let (mut target, controller) = joined();
    let (capabilities, _) =
        ask(&mut target, controller, get(offset::CAPABILITIES, PropertyAccess::SIZE_8));
    let capabilities = Capabilities(capabilities.result());
    assert_eq!(capabilities.queue_entries_zero_based(), 1023);
    assert_eq!(capabilities.timeout_500ms(), 1);
    assert!(capabilities.has_nvm_command_set());
    let (version, _) = ask(&mut target, controller, get(offset::VERSION, PropertyAccess::SIZE_4));
    assert_eq!(version.dw0.get(), 0x0002_0000);
    let (timeouts, _) =
        ask(&mut target, controller, get(offset::READY_TIMEOUTS, PropertyAccess::SIZE_4));
    assert_eq!(timeouts.dw0.get(), 1);
}

#[test]
fn an_unknown_property_or_one_of_another_size_is_an_invalid_field() {
    let (mut target, controller) = joined();
    let refused = [
        get(0x1000, PropertyAccess::SIZE_4),
        get(offset::CAPABILITIES, PropertyAccess::SIZE_4),
        get(offset::STATUS, PropertyAccess::SIZE_8),
        get(offset::STATUS, 7),
        Command::property_set(offset::STATUS, 0),
        Command::property_set(offset::CAPABILITIES, 0),
    ];
    for command in refused {
        let status = status_of(&mut target, controller, command);
        assert_eq!(status, Status::INVALID_FIELD.dnr(), "{command:?}");
    }
}

#[test]
fn only_fabrics_commands_work_before_the_controller_is_enabled() {
    let mut target = target();
    let controller = Host::of(&nqn("data")).connect(&mut target).unwrap().controller;
    let status = status_of(&mut target, controller, Command::keep_alive());
    assert_eq!(status, Status::COMMAND_SEQUENCE_ERROR.dnr());
}

#[test]
fn a_command_that_is_not_there_is_an_invalid_opcode() {
    let (mut target, controller) = joined();
    let absent = [
        (0x01, "Create I/O Submission Queue"),
        (0x04, "Delete I/O Completion Queue"),
        (0x80, "Format NVM"),
        (0x10, "Firmware Commit"),
        (0x11, "Firmware Image Download"),
        (0x81, "Security Send"),
        (0x82, "Security Receive"),
        (0x84, "Sanitize"),
        (0x0D, "Namespace Management"),
        (0xFF, "vendor specific"),
    ];
    for (opcode, name) in absent {
        let command = Command::new(opcode, NamespaceId::NONE);
        let status = status_of(&mut target, controller, command);
        assert_eq!(status, Status::INVALID_OPCODE.dnr(), "{name}");
    }
    let authentication_send = Command::fabrics(crate::FabricsType(0x05));
    let status = status_of(&mut target, controller, authentication_send);
    assert_eq!(status, Status::INVALID_OPCODE.dnr());
}

#[test]
fn on_an_admin_queue_a_second_connect_and_a_disconnect_are_refused() {
    let (mut target, controller) = joined();
    let again = Host::of(&nqn("data")).connect.to_command();
    let status = status_of(&mut target, controller, again);
    assert_eq!(status, Status::COMMAND_SEQUENCE_ERROR.dnr());
    let status = status_of(&mut target, controller, Command::disconnect());
    assert_eq!(status, Status::DISCONNECT_INVALID_QUEUE_TYPE.dnr());
}

#[test]
fn prps_are_an_invalid_field() {
    let (mut target, controller) = joined();
    let command = Command { flags: 0, ..Command::keep_alive() };
    assert_eq!(status_of(&mut target, controller, command), Status::INVALID_FIELD.dnr());
}

#[test]
fn abort_stops_a_waiting_event_request_and_nothing_else() {
    let (mut target, controller) = joined();
    let request = Command::async_event_request().with_command_id(CommandId(6));
    target.admin(NOW, controller, &request, &[]);
    let abort = |queue: u32, cid: u32| Command {
        cdw10: (cid << 16 | queue).into(),
        ..Command::new(AdminOpcode::ABORT.0, NamespaceId::NONE)
    };
    for (queue, cid) in [(1, 6), (0, 7)] {
        let (completion, _) = ask(&mut target, controller, abort(queue, cid));
        assert_eq!(completion.dw0.get(), 1, "nothing was aborted");
    }
    target.admin(NOW, controller, &abort(0, 6).with_command_id(CommandId(8)), &[]);
    let done: Vec<_> = actions(&mut target)
        .into_iter()
        .map(|action| match action {
            Action::Respond { completion, .. } => {
                (completion.cid.get(), completion.status(), completion.dw0.get())
            }
            other => panic!("answers were expected, not {other:?}"),
        })
        .collect();
    assert_eq!(done, [(6, Status::ABORT_REQUESTED, 0), (8, Status::SUCCESS, 0)]);
}

#[test]
fn failed_commands_are_in_the_error_log_newest_first() {
    let (mut target, controller) = joined();
    for opcode in [0x80, 0x81] {
        ask(&mut target, controller, Command::new(opcode, NamespaceId(opcode.into())));
    }
    let page = GetLogPage::new(LogId::ERROR, 128).to_command(NamespaceId::ALL);
    let (_, data) = ask(&mut target, controller, page);
    insta::assert_snapshot!(dump(&data));
}

#[test]
fn the_log_of_each_kind_of_controller_is_the_other_ones_invalid_page() {
    let (mut target, controller) = joined();
    let discovery = join(&mut target, &Nqn::discovery());
    let page = |log| GetLogPage::new(log, 512).to_command(NamespaceId::ALL);
    let refused = Status::INVALID_LOG_PAGE.dnr();
    assert_eq!(status_of(&mut target, controller, page(LogId::DISCOVERY)), refused);
    assert_eq!(status_of(&mut target, controller, page(LogId(0xC0))), refused);
    for log in [LogId::HEALTH, LogId::ANA, LogId::CHANGED_NAMESPACES] {
        assert_eq!(status_of(&mut target, discovery, page(log)), refused, "{log:?}");
    }
}

#[test]
fn a_page_can_be_read_in_parts_and_ends_in_zeroes() {
    let (mut target, controller) = joined();
    let whole = GetLogPage::new(LogId::COMMAND_EFFECTS, 4096);
    let (_, whole) = ask(&mut target, controller, whole.to_command(NamespaceId::ALL));
    let part = GetLogPage { offset: 4000, ..GetLogPage::new(LogId::COMMAND_EFFECTS, 256) };
    let (_, part) = ask(&mut target, controller, part.to_command(NamespaceId::ALL));
    assert_eq!(part[..96], whole[4000..]);
    assert_eq!(part[96..], [0; 160]);
    let past = GetLogPage { offset: 4100, ..GetLogPage::new(LogId::COMMAND_EFFECTS, 256) };
    let status = status_of(&mut target, controller, past.to_command(NamespaceId::ALL));
    assert_eq!(status, Status::INVALID_FIELD.dnr());
}

#[test]
fn of_a_command_set_that_is_not_there_no_io_command_is_supported() {
    let (mut target, controller) = joined();
    let zoned = GetLogPage { command_set: 2, ..GetLogPage::new(LogId::COMMAND_EFFECTS, 4096) };
    let (completion, page) = ask(&mut target, controller, zoned.to_command(NamespaceId::ALL));
    assert!(completion.status().is_success());
    let (admin, io) = page.split_at(1024);
    assert!(admin.iter().any(|byte| *byte != 0), "admin commands are of every set");
    assert!(io.iter().all(|byte| *byte == 0));
}

#[test]
fn a_page_of_any_length_asked_for_takes_bounded_memory() {
    let (mut target, controller) = joined();
    let huge =
        GetLogPage { dwords_zero_based: u32::MAX, ..GetLogPage::new(LogId::COMMAND_EFFECTS, 4) };
    let status = status_of(&mut target, controller, huge.to_command(NamespaceId::ALL));
    assert_eq!(status, Status::INVALID_FIELD.dnr());
    let short = GetLogPage::new(LogId::HEALTH, 512).to_command(NamespaceId::ALL);
    let status = status_of(&mut target, controller, short.with_transport_data(256));
    assert_eq!(status, Status::SGL_LENGTH_INVALID.dnr());
}

#[test]
fn pages_of_a_controller_are_as_hosts_expect_them() {
    let (mut target, controller) = joined();
    let pages = [
        ("supported", LogId::SUPPORTED_PAGES, 1024),
        ("health", LogId::HEALTH, 512),
        ("firmware", LogId::FIRMWARE_SLOTS, 512),
        ("effects", LogId::COMMAND_EFFECTS, 4096),
        ("features", LogId::FEATURE_EFFECTS, 1024),
        ("ana", LogId::ANA, 64),
    ];
    for (name, log, len) in pages {
        let page = GetLogPage::new(log, len).to_command(NamespaceId::ALL);
        let (completion, data) = ask(&mut target, controller, page);
        assert!(completion.status().is_success(), "{name}");
        insta::assert_snapshot!(name, dump(&data));
    }
}

/// The Linux host and nvme-cli compute the maximum length of the page from Identify Controller
/// (nvme-cli before 2.10 omits the namespace numbers if ANACAP bit 6 is set), and nvme-cli reads 4
/// KiB at a time.
#[test]
fn hosts_that_read_all_that_the_ana_log_can_be_find_every_namespace() {
    let (mut target, controller) = joined();
    target.publish([1, 5].map(|nsid| namespace("data", nsid))).unwrap();
    actions(&mut target);
    let identify = Identify::new(Cns::CONTROLLER).to_command(NamespaceId::NONE);
    let (_, described) = ask(&mut target, controller, identify);
    let described = IdentifyController::ref_from_bytes(&described).unwrap();
    assert_eq!(described.ana_capabilities & 1 << 6, 0);
    let groups = described.ana_groups.get() * 32;
    let len = 16 + groups + described.namespaces_max.get() * 4;
    let mut read = |specific| {
        let mut log = Vec::new();
        for offset in (0..len).step_by(4096) {
            let page = GetLogPage::new(LogId::ANA, 4096.min(len - offset));
            let page = GetLogPage { offset: offset.into(), specific, ..page };
            let command = page.to_command(NamespaceId::NONE);
            let (completion, part) = ask(&mut target, controller, command);
            assert!(completion.status().is_success(), "{offset}");
            log.extend(part);
        }
        log
    };
    let log = read(0);
    assert_eq!((log[8], log[20]), (1, 2), "one group of two namespaces");
    assert_eq!(log[48..60], [1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    // nvme-cli before 2.10 reads the same length if it asks for groups only.
    let groups_only = read(1);
    assert_eq!((groups_only[8], groups_only[20]), (1, 0));
    assert!(groups_only[48..].iter().all(|byte| *byte == 0));
}

/// The traffic of three volumes.
#[derive(Debug)]
struct Done;

impl Usage for Done {
    fn of(&self, volume: VolumeId) -> Traffic {
        let nothing = Traffic::default();
        match volume.0 {
            101 => Traffic { read_bytes: 512_001, reads: 10, ..nothing },
            102 => Traffic { written_bytes: 512, writes: 1, media_errors: 4, ..nothing },
            _ => Traffic { media_errors: 1, ..nothing },
        }
    }
}

#[test]
fn the_health_log_tells_what_was_done_with_a_namespace_and_with_all() {
    let usage: Option<Arc<dyn Usage>> = Some(Arc::new(Done));
    let life = Life { starts: 3, unsafe_ends: 1, ran: Nanos::from_secs(7200), usage };
    let mut target = Target::new(TargetConfig { life, ..config() });
    target.publish([1, 2].map(|nsid| namespace("data", nsid))).unwrap();
    let controller = join(&mut target, &nqn("data"));
    let page = |nsid| GetLogPage::new(LogId::HEALTH, 512).to_command(NamespaceId(nsid));
    let mut told = |nsid| {
        let (completion, data) = ask(&mut target, controller, page(nsid));
        assert!(completion.status().is_success());
        let it = HealthInformation::read_from_bytes(&data).unwrap();
        let lasting = [it.power_cycles, it.unsafe_shutdowns, it.power_on_hours];
        assert_eq!(lasting.map(|it| it.get()), [3, 1, 2]);
        assert_eq!((it.available_spare, it.used, it.critical_warning), (100, 0, 0));
        let units = [it.data_units_read, it.data_units_written];
        let commands = [it.host_reads, it.host_writes, it.media_errors];
        (units.map(|it| it.get()), commands.map(|it| it.get()))
    };
    assert_eq!(told(1), ([2, 0], [10, 0, 0]));
    assert_eq!(told(2), ([0, 1], [0, 1, 4]));
    for whole in [0, u32::MAX] {
        assert_eq!(told(whole), ([2, 1], [10, 1, 4]));
    }
    let absent = status_of(&mut target, controller, page(3));
    assert_eq!(absent, Status::INVALID_NAMESPACE.dnr());
}
