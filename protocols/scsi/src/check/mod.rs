//! Properties that hold for any command, as functions that tests and fuzzers both call.
//!
//! Each function panics if its property does not hold.

mod model;
#[cfg(test)]
mod tests;

pub use model::{Model, Told};

use nearflash_request::{Access, BufferId, ChangeKind, Support, VolumeId};
use nearflash_units::{BlockSize, Blocks, ByteLen, Lba};

use crate::commands::find;
use crate::{
    Action, Asked, Attentions, CDB_LEN, Cdb, CopyRecords, CopyTask, LogicalUnit, LogicalUnits,
    Provisioning, RequestTask, Sense, Series, Task, interpret, limits, parameters,
};

/// The unit for checks. The bits of `kind` select its properties.
pub fn unit(kind: u8) -> LogicalUnit {
    LogicalUnit {
        lun: 0,
        volume: VolumeId(7),
        uuid: *b"0123456789abcdef",
        name: "model".to_owned(),
        block_size: if kind & 1 == 0 { BlockSize::B512 } else { BlockSize::B4096 },
        blocks: Blocks(4000),
        volatile_cache: kind & 2 != 0,
        provisioning: match kind & (4 | 64) {
            0 => Provisioning::Full,
            4 => Provisioning::Thin,
            _ => Provisioning::Resource,
        },
        support: if kind & 128 == 0 { Support::ALL } else { Support::NONE },
        on_every_node: false,
        write_protected: kind & 8 != 0,
        software_write_protected: kind & 16 != 0,
        descriptor_sense: kind & 32 != 0,
        epoch: 1,
    }
}

/// A target with only this unit.
pub fn units_of(unit: LogicalUnit) -> LogicalUnits {
    LogicalUnits::new("iqn.2026-11.io.nearflash:model", 1, [unit])
}

/// Interprets an arbitrary command and parameter list. Neither panics, and the resulting request
/// lies within the unit, the limits and the properties of the unit.
pub fn check_any_command(kind: u8, bytes: &[u8]) {
    let (cdb, rest) = bytes.split_at(bytes.len().min(CDB_LEN));
    let (cdb, units, attentions) = (Cdb::new(cdb), units_of(unit(kind)), Attentions::default());
    let copies = CopyRecords::default();
    for unit in [units.get(0), None] {
        let asked =
            Asked { cdb: &cdb, unit, units: &units, attentions: &attentions, copies: &copies };
        let task = interpret(&asked);
        check_result(&asked, &task);
        let Ok(Task::Parameters(len)) = task else { continue };
        assert!(len.0 != 0 && len <= limits::PARAMETERS_LEN_MAX);
        let mut list = rest.to_vec();
        list.resize(len.to_usize(), 0);
        let task = parameters(&asked, &list);
        assert!(!matches!(task, Ok(Task::Parameters(_))), "parameters of parameters");
        check_result(&asked, &task);
        // A list that is shorter than requested is refused or processed as it is.
        check_result(&asked, &parameters(&asked, rest));
    }
}

fn check_result(asked: &Asked<'_>, task: &Result<Task, Sense>) {
    match task {
        Ok(Task::Request(task)) => check_request(asked, task),
        Ok(Task::Copy(task)) => check_copy(asked, task),
        Ok(Task::Change(change)) => {
            let is_report = matches!(change.kind, ChangeKind::Report);
            let unit = asked.unit.expect("nothing is asked of a unit that is not there");
            assert!(unit.support.has_change(&change.kind), "{change:?} is refused later");
            assert_eq!(is_report, change.reply != crate::ReportReply::Status);
        }
        Ok(Task::Good | Task::DataIn(_) | Task::Parameters(_)) => {}
        Err(sense) => check_sense(asked, *sense),
    }
}

fn check_sense(asked: &Asked<'_>, sense: Sense) {
    for d_sense in [false, true] {
        let bytes = sense.to_bytes(d_sense);
        assert!((8..=28).contains(&bytes.len()), "{sense:?}");
    }
    if let Some(field) = sense.field
        && field.in_cdb
    {
        let command = find(asked.cdb).map_or(CDB_LEN, |command| command.usage.len());
        assert!(usize::from(field.byte) < command, "{sense:?} points behind the command");
    }
}

fn check_request(asked: &Asked<'_>, task: &RequestTask) {
    let unit = asked.unit.expect("nothing is asked of a unit that is not there");
    assert!(unit.blocks.contains(task.range.start, task.range.count), "{task:?}");
    assert!(task.data_out <= limits::TRANSFER_LEN_MAX && task.data_in <= limits::TRANSFER_LEN_MAX);
    let count = task.buffer_count();
    assert_eq!(task.buffer_len().0 * ByteLen::from_usize(count).0, task.data_out.0);
    let buffers = [BufferId(1), BufferId(2), BufferId(3)];
    for given in 0..buffers.len() {
        let operation = task.operation(&buffers[..given]);
        assert_eq!(operation.is_some(), given == count, "{task:?} with {given} buffers");
        let Some(operation) = operation else { continue };
        assert!(unit.support.has(&operation), "{task:?} is refused later");
        let flushes = matches!(task.action, Action::Flush);
        assert!(flushes || operation.access() != Access::Write || !unit.is_read_only());
    }
    if let Action::Deallocate(ranges) = &task.action {
        let sum: u64 = ranges.iter().map(|range| range.count.0).sum();
        assert!(unit.unmaps() && sum <= limits::UNMAP_BLOCKS_MAX);
        assert!(ranges.iter().all(|range| unit.blocks.contains(range.start, range.count)));
    }
}

/// The pieces of a copy lie within their units and add up to the requested length.
fn check_copy(asked: &Asked<'_>, task: &CopyTask) {
    assert!(task.segments.len() <= limits::COPY_SEGMENTS_MAX);
    let sum: u64 = task.segments.iter().map(|segment| segment.len.0).sum();
    let mut series = Series::of_copy(task.clone()).expect("a copy of nothing is answered at once");
    let mut copied = 0;
    loop {
        let piece = &series.piece;
        check_request(asked, &piece.task);
        copied += piece.task.block_size.len(piece.task.range.count).unwrap_or_default().0;
        if !series.advance() {
            break;
        }
    }
    assert_eq!((copied, series.done.0), (sum, sum));
}

/// Bits that are not in a command's CDB usage data have no effect, so the usage data is correct.
pub fn check_usage_map(kind: u8, bytes: &[u8]) {
    let (units, attentions) = (units_of(unit(kind)), Attentions::default());
    let copies = CopyRecords::default();
    let cdb = Cdb::new(bytes);
    let Some(command) = find(&cdb) else { return };
    let mut used = [0; CDB_LEN];
    for (index, (byte, usage)) in cdb.0.iter().zip(command.usage).enumerate() {
        let fixed = match index {
            0 => 0xFF,
            1 if command.has_service_action => 0x1F,
            _ => 0,
        };
        used[index] = byte & (usage | fixed);
    }
    let used = Cdb(used);
    let of = |cdb| Asked {
        cdb,
        unit: units.get(0),
        units: &units,
        attentions: &attentions,
        copies: &copies,
    };
    assert_eq!(interpret(&of(&cdb)), interpret(&of(&used)), "{cdb:02x?}");
}

/// Executes commands one after the other on a unit in memory. A failed command changes nothing,
/// data has the requested length, and a write-protected unit is not written.
pub fn check_commands_against_memory(kind: u8, bytes: &[u8]) {
    let mut model = Model::new(LogicalUnit { blocks: Blocks(64), ..unit(kind) });
    for piece in bytes.chunks(CDB_LEN + 8) {
        let (cdb, seed) = piece.split_at(piece.len().min(CDB_LEN));
        let mut cdb = Cdb::new(cdb);
        if seed.first().is_some_and(|byte| byte & 1 == 0) {
            within_reach(&mut cdb);
        }
        let before = model.bytes().to_vec();
        let read_only = model.unit().is_read_only();
        let told = model.execute(&cdb, seed);
        if told.is_err() || read_only {
            assert_eq!(model.bytes(), before, "{cdb:02x?} changed what it must not");
        }
    }
}

/// Reduces an address and a count, so that commands address the few blocks of a model.
fn within_reach(cdb: &mut Cdb) {
    let [opcode, ..] = cdb.0;
    let zeroed: &[usize] = match opcode >> 5 {
        0 => &[1, 2],
        1 | 2 => &[2, 3, 4, 7],
        4 => &[2, 3, 4, 5, 6, 7, 8, 10, 11, 12],
        _ => &[2, 3, 4, 6, 7, 8],
    };
    for &index in zeroed {
        cdb.0[index] = 0;
    }
    for index in [3, 4, 5, 8, 9, 13] {
        cdb.0[index] &= 0x3F;
    }
}

/// Checks that CDBs of different lengths for the same blocks have the same meaning.
pub fn check_forms_agree(start: u32, count: u16) {
    let units = units_of(unit(4));
    let (attentions, copies) = (Attentions::default(), CopyRecords::default());
    let read = |cdb: [u8; CDB_LEN]| {
        let cdb = Cdb(cdb);
        let asked = Asked {
            cdb: &cdb,
            unit: units.get(0),
            units: &units,
            attentions: &attentions,
            copies: &copies,
        };
        interpret(&asked).map_err(|sense| (sense.key, sense.code))
    };
    let ([a, b, c, d], [e, f]) = (start.to_be_bytes(), count.to_be_bytes());
    let ten = read([0x28, 0, a, b, c, d, 0, e, f, 0, 0, 0, 0, 0, 0, 0]);
    let twelve = read([0xA8, 0, a, b, c, d, 0, 0, e, f, 0, 0, 0, 0, 0, 0]);
    let sixteen = read([0x88, 0, 0, 0, 0, 0, a, b, c, d, 0, 0, e, f, 0, 0]);
    assert_eq!(ten, twelve);
    assert_eq!(ten, sixteen);
    if let (0, [low, 0]) = (start >> 21, count.to_le_bytes())
        && low != 0
    {
        assert_eq!(ten, read([0x08, b, c, d, low, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    }
    if let Ok(Task::Request(task)) = ten {
        assert!(task.range.count.0 == 0 || task.range.start == Lba(u64::from(start)));
    }
}
