//! Our load generator compared with fio on one file: `cargo bench -p nearflash-tables --bench
//! fio_agreement`.
//!
//! Prints Markdown; the JSON, with every round, goes to the file that `--json` names. There are no
//! limits to reach, since the disks of virtual machines vary more from second to second than the
//! generators differ. Without fio it prints a message and does nothing.

mod shared;

use std::path::Path;
use std::process::ExitCode;

use nearflash_bench::BenchError;
use nearflash_bench::compare::{FIO_NOT_INSTALLED, is_fio_installed};
use nearflash_tables::{
    AGREEMENT_LOADS, agreements_to_json, agreements_to_markdown, measure_agreement,
};
use nearflash_units::ByteLen;
use shared::{Outcome, TableArgs};

const RANGE_LEN: ByteLen = ByteLen(256 << 20);

fn main() -> ExitCode {
    shared::main("fio_agreement", measure)
}

fn measure(args: &TableArgs, dir: &Path) -> Result<Outcome, BenchError> {
    if !is_fio_installed() {
        let markdown = format!("skipped: {FIO_NOT_INSTALLED}\n");
        return Ok(Outcome { markdown, json: agreements_to_json(&[]), is_reached: true });
    }
    let path = dir.join("agreement.img");
    let mut agreements = Vec::new();
    for load in AGREEMENT_LOADS.iter().filter(|load| load.what.contains(&args.filter)) {
        eprintln!("{}", load.what);
        let core = args.cores.client;
        agreements.push(measure_agreement(*load, &path, RANGE_LEN, core, args.timing())?);
    }
    Ok(Outcome {
        markdown: agreements_to_markdown(&agreements),
        json: agreements_to_json(&agreements),
        is_reached: true,
    })
}
