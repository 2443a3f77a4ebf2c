//! The behavior of commands as initiators see it.

mod blocks;
mod copies;
mod data;
mod modes;
mod provisioning;
mod reservations;

use nearflash_request::{Access, Attention};
use nearflash_units::ByteLen;

use crate::check::{unit, units_of};
use crate::{
    Action, Asked, Attentions, Cdb, CopyRecords, LogicalUnit, LogicalUnits, Reply, RequestTask,
    Sense, Task, interpret, parameters, sense_of_attention,
};

/// Kinds of [`unit`]. Units that are neither thin nor resource provisioned have all blocks mapped.
const THICK: u8 = 0;
const RESOURCE: u8 = 64;
const THIN: u8 = 4;
const PROTECTED: u8 = 8;
const SOFTWARE_PROTECTED: u8 = 16;
/// Other nodes serve it, too.
const SHARED: u8 = 128;

/// A session with one unit.
struct Session {
    units: LogicalUnits,
    attentions: Attentions,
    copies: CopyRecords,
}

impl Session {
    fn new(kind: u8) -> Self {
        Self::of(unit(kind))
    }

    fn of(unit: LogicalUnit) -> Self {
        Self {
            units: units_of(unit),
            attentions: Attentions::default(),
            copies: CopyRecords::default(),
        }
    }

    fn ask(&self, cdb: &[u8]) -> Result<Task, Sense> {
        let cdb = Cdb::new(cdb);
        interpret(&self.asked(&cdb))
    }

    fn ask_missing(&self, cdb: &[u8]) -> Result<Task, Sense> {
        let cdb = Cdb::new(cdb);
        interpret(&Asked { unit: None, ..self.asked(&cdb) })
    }

    /// Sends a command and its parameter list.
    fn ask_with(&self, cdb: &[u8], list: &[u8]) -> Result<Task, Sense> {
        let cdb = Cdb::new(cdb);
        let Task::Parameters(len) = interpret(&self.asked(&cdb))? else { panic!("no parameters") };
        assert_eq!(len, ByteLen::of(list));
        parameters(&self.asked(&cdb), list)
    }

    fn asked<'a>(&'a self, cdb: &'a Cdb) -> Asked<'a> {
        Asked {
            cdb,
            unit: self.units.get(0),
            units: &self.units,
            attentions: &self.attentions,
            copies: &self.copies,
        }
    }

    /// The data of a command, even if it passes through the engine because of reservations.
    fn data(&self, cdb: &[u8]) -> Vec<u8> {
        match self.ask(cdb) {
            Ok(Task::DataIn(data)) => data,
            Ok(Task::Request(RequestTask { reply: Reply::Data(data), .. })) => data,
            other => panic!("{other:?}"),
        }
    }

    fn request(&self, cdb: &[u8]) -> RequestTask {
        match self.ask(cdb) {
            Ok(Task::Request(task)) => task,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn every_command_is_found_by_its_own_code() {
    for command in crate::commands::GROUPS.into_iter().flatten() {
        let found = crate::commands::find(&Cdb::new(command.usage)).unwrap();
        assert_eq!(found.usage, command.usage);
        let len = match command.opcode() >> 5 {
            0 => 6,
            1 | 2 => 10,
            4 => 16,
            _ => 12,
        };
        assert_eq!(command.usage.len(), len, "{:#04x}", command.opcode());
    }
}

#[test]
fn an_attention_is_told_once_and_before_the_command_is_looked_at() {
    let session = Session::new(THIN);
    session.attentions.raise(0, Attention::CapacityChanged);
    let told = session.ask(&[0xFF; 16]);
    assert_eq!(told, Err(sense_of_attention(Attention::CapacityChanged)));
    assert_eq!(session.ask(&[0xFF; 16]), Err(Sense::INVALID_OPCODE));
}

#[test]
fn inquiry_and_report_luns_pass_an_attention_by() {
    let session = Session::new(THIN);
    session.attentions.raise(0, Attention::Reset);
    session.attentions.raise_all(Attention::UnitsChanged);
    assert!(session.ask(&[0x12, 0, 0, 0, 36, 0]).is_ok());
    assert!(session.ask(&[0xA0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0]).is_ok());
    // REPORT LUNS cleared its unit attention.
    assert_eq!(session.attentions.take(0), Some(Attention::Reset));
    assert_eq!(session.attentions.take(0), None);
}

#[test]
fn request_sense_tells_an_attention_as_data() {
    let session = Session::new(THIN);
    session.attentions.raise(0, Attention::ModeChanged);
    assert_eq!(session.data(&[0x03, 0, 0, 0, 18, 0])[..14][2], 0x6);
    assert_eq!(session.data(&[0x03, 1, 0, 0, 252, 0]), [0x72, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_number_without_a_unit_has_an_inquiry_and_nothing_to_do() {
    let session = Session::new(THIN);
    let Ok(Task::DataIn(data)) = session.ask_missing(&[0x12, 0, 0, 0, 96, 0]) else { panic!() };
    assert_eq!(data[0], 0x7F);
    assert_eq!(session.ask_missing(&[0x00, 0, 0, 0, 0, 0]), Err(Sense::NO_SUCH_UNIT));
    assert_eq!(session.ask_missing(&[0x12, 1, 0x83, 0, 96, 0]), Err(Sense::NO_SUCH_UNIT));
    let sense = session.ask_missing(&[0x03, 0, 0, 0, 18, 0]);
    assert_eq!(sense, Ok(Task::DataIn(Sense::NO_SUCH_UNIT.to_bytes(false))));
}

#[test]
fn what_is_not_there_is_refused_by_code_or_by_service_action() {
    let session = Session::new(THIN);
    assert_eq!(session.ask(&[0x04, 0, 0, 0, 0, 0]), Err(Sense::INVALID_OPCODE)); // FORMAT UNIT
    assert_eq!(session.ask(&[0x5E, 4, 0, 0, 0, 0, 0, 0, 8, 0]), Err(Sense::cdb_field(1, 4)));
    assert_eq!(session.ask(&[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 4]), Err(Sense::cdb_field(9, 2)));
}

#[test]
fn looking_at_a_unit_asks_whether_a_reservation_lets_it() {
    let session = Session::new(PROTECTED);
    let task = session.request(&[0x00, 0, 0, 0, 0, 0]);
    assert_eq!(task.action, Action::Admit(Access::Look));
    let task = session.request(&[0x1A, 0, 0x3F, 0, 255, 0]);
    assert_eq!(task.action, Action::Admit(Access::Read));
    let Reply::Data(data) = task.reply else { panic!() };
    assert_eq!(task.data_in, ByteLen::of(&data));
}

/// SPC-4, 5.13.1 and SBC-4, 4.17: the commands that reservations allow.
#[test]
fn reservations_let_each_command_pass_or_not_as_the_standards_tables_say() {
    let session = Session::new(THIN);
    let commands: [(&[u8], Access); 10] = [
        (&[0x1B, 0, 0, 0, 1, 0], Access::Look), // START STOP UNIT: start
        (&[0x1B, 0, 0, 0, 4, 0], Access::Manage), // stop without a flush
        (&[0x1B, 0, 0, 0, 0x20, 0], Access::Manage), // idle
        (&[0x1E, 0, 0, 0, 0, 0], Access::Look), // PREVENT ALLOW: allow
        (&[0x1E, 0, 0, 0, 1, 0], Access::Manage), // prevent
        (&[0x37, 0, 0, 0, 0, 0, 0, 0, 8, 0], Access::Read), // READ DEFECT DATA
        (&[0xB7, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0], Access::Read),
        (&[0x34, 0, 0, 0, 0, 0, 0, 0, 8, 0], Access::Read), // PRE-FETCH
        (&[0x28, 0, 0, 0, 0, 0, 0, 0, 0, 0], Access::Read), // READ of nothing
        (&[0x2A, 0, 0, 0, 0, 0, 0, 0, 0, 0], Access::Write), // WRITE of nothing
    ];
    for (cdb, access) in commands {
        assert_eq!(session.request(cdb).action, Action::Admit(access), "{cdb:x?}");
    }
}

/// REPORT SUPPORTED OPERATION CODES, one command: whether the unit supports it.
fn is_claimed(session: &Session, command: &crate::call::Command) -> bool {
    let action = command.service_action();
    let option = if action.is_some() { 0b010 } else { 0b001 };
    let mut cdb = [0xA3, 0x0C, option, command.opcode(), 0, action.unwrap_or(0), 0, 0, 0, 64, 0, 0];
    let data = session.data(&cdb);
    cdb[2] = 0b011;
    assert_eq!(session.data(&cdb), data);
    match data[1] & 0b111 {
        0b011 => true,
        0b001 => false,
        other => panic!("{other}"),
    }
}

#[test]
fn a_unit_refuses_by_opcode_exactly_what_it_does_not_claim() {
    for kind in [THICK, THIN, RESOURCE, SHARED, SHARED | THIN] {
        let session = Session::new(kind);
        for command in crate::commands::GROUPS.into_iter().flatten() {
            let mut cdb = [0; 16];
            cdb[..2].copy_from_slice(&[command.opcode(), command.service_action().unwrap_or(0)]);
            let answer = session.ask(&cdb);
            let refused = [Err(Sense::INVALID_OPCODE), Err(Sense::cdb_field(1, 4))];
            let claimed = is_claimed(&session, command);
            assert_eq!(claimed, !refused.contains(&answer), "kind {kind}, {cdb:02x?}: {answer:?}");
        }
    }
}

#[test]
fn a_unit_that_other_nodes_serve_too_claims_no_compound_command_and_no_reservation() {
    let session = Session::new(SHARED);
    // PERSISTENT RESERVE IN and OUT, RESERVE, RELEASE, ORWRITE, COMPARE AND WRITE, WRITE AND VERIFY.
    for opcode in [0x5E, 0x5F, 0x16, 0x17, 0x56, 0x57, 0x8B, 0x89, 0x2E, 0x8E, 0xAE] {
        assert_eq!(session.ask(&[opcode; 16]), Err(Sense::INVALID_OPCODE), "{opcode:#04x}");
        let listed = session.data(&[0xA3, 0x0C, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0]);
        assert!(listed[4..].chunks(8).all(|one| one[0] != opcode), "{opcode:#04x}");
    }
    let limits = session.data(&[0x12, 1, 0xB0, 0, 64, 0]);
    assert_eq!(limits[5], 0, "MAXIMUM COMPARE AND WRITE LENGTH");
    assert_ne!(Session::new(THIN).data(&[0x12, 1, 0xB0, 0, 64, 0])[5], 0);
}

#[test]
fn modes_of_a_unit_that_other_nodes_serve_too_cannot_be_changed() {
    let session = Session::new(SHARED);
    let changeable = session.data(&[0x1A, 8, 0x4A, 0, 255, 0]);
    assert_eq!(changeable[6..], [0; 10]);
    let mut list = session.data(&[0x1A, 8, 0x0A, 0, 255, 0]);
    list[..4].fill(0);
    let len = u8::try_from(list.len()).unwrap();
    assert_eq!(session.ask_with(&[0x15, 0x10, 0, 0, len, 0], &list), Ok(Task::Good));
    list[8] |= 1 << 3; // SWP
    let refused = session.ask_with(&[0x15, 0x10, 0, 0, len, 0], &list);
    assert_eq!(refused, Err(Sense::parameter_field(8, 3)));
}

/// The groups of REPORT TARGET PORT GROUPS, each of which has one port of the same number.
fn port_groups(on_every_node: bool) -> Vec<u16> {
    let unit = LogicalUnit { on_every_node, ..unit(THIN) };
    let units = units_of(unit).with_other_groups([5, 2].into());
    let session = Session { units, ..Session::new(THIN) };
    let data = session.data(&[0xA3, 0x0A, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0]);
    let (groups, rest) = data[4..].as_chunks::<12>();
    assert!(rest.is_empty());
    let number = |group: &[u8; 12]| {
        assert_eq!(group[10..], group[2..4]);
        u16::from_be_bytes([group[2], group[3]])
    };
    groups.iter().map(number).collect()
}

#[test]
fn each_node_that_serves_a_unit_is_a_target_port_group_of_its_own() {
    assert_eq!(port_groups(true), [1, 2, 5]);
    assert_eq!(port_groups(false), [1]);
}
