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
