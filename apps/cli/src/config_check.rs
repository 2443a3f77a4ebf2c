//! `nearflash config check`: all errors of a configuration file, or what it declares. It needs no node.

use std::path::PathBuf;
use std::process::ExitCode;

use nearflash_config::{Config, ConfigError};
use serde::Serialize;

use crate::apply::{chap_detail, grant_detail, host_detail, volume_detail};
use crate::failure::{Failure, report};
use crate::new_volume::declared_volumes;
use crate::output::{print, show};
use crate::tables;

/// The exit code of invalid input.
const INVALID: u8 = 2;

/// The arguments of `nearflash config check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The file, as for 'nearflash serve --config' and 'nearflash apply'
    file: PathBuf,
    /// Print one line of JSON, with "schema":1, for programs
    #[arg(long)]
    json: bool,
}

/// A resource that a file declares.
#[derive(Serialize)]
pub(crate) struct Resource {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) detail: String,
}

/// The result of a check, as a document.
#[derive(Serialize)]
struct Checked {
    is_valid: bool,
    resources: Vec<Resource>,
    errors: Vec<Fault>,
}

/// An error of a file.
#[derive(Serialize)]
struct Fault {
    line: Option<usize>,
    message: String,
}

/// Checks a file. An error in it is an invalid input, as for `nearflash apply` and `nearflash serve --config`.
pub(crate) fn run_check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let (resources, errors) = match Config::read(&args.file) {
        Ok(config) => (resources(&config), Vec::new()),
        Err(errors) => (Vec::new(), errors),
    };
    if !errors.is_empty() && !args.json {
        return Ok(report(&errors, INVALID));
    }
    let fault = |error: &ConfigError| Fault { line: error.line(), message: error.to_string() };
    let errors: Vec<Fault> = errors.iter().map(fault).collect();
    let checked = Checked { is_valid: errors.is_empty(), resources, errors };
    print(&show(&checked, args.json, |checked| tables::declared(&checked.resources)))?;
    Ok(if checked.is_valid { ExitCode::SUCCESS } else { INVALID.into() })
}

/// Everything that a configuration declares, in the order of its explanation.
fn resources(config: &Config) -> Vec<Resource> {
    let of = |kind, name: &dyn ToString, detail: String| Resource {
        kind,
        name: name.to_string(),
        detail,
    };
    let slices = config.cluster.iter().flat_map(|cluster| &cluster.slices);
    let device = |kind| {
        move |it: &_| {
            let text = ToString::to_string(it);
            let (name, detail) = text.split_once('=').unwrap_or((&text, ""));
            Resource { kind, name: name.to_owned(), detail: detail.to_owned() }
        }
    };
    let mut all: Vec<Resource> = config.devices.iter().map(device("device")).collect();
    all.extend(slices.map(device("slice")));
    let volumes = declared_volumes(config);
    all.extend(volumes.iter().map(|it| of("volume", &it.name, volume_detail(it))));
    all.extend(config.remotes.iter().map(|it| of("remote", &it.name, it.url.place.to_string())));
    all.extend(config.files.iter().map(|name| of("files", name, String::new())));
    let doors = config.doors.iter().filter(|door| door.is_of_file());
    all.extend(doors.map(|door| of(door.protocol.key(), &door.address, String::new())));
    let access = &config.access;
    all.extend(access.hosts.iter().map(|it| of("host", &it.nqn, host_detail(it))));
    all.extend(access.chap.iter().map(|it| of("chap", &it.user, chap_detail(it))));
    let file = |path: &std::path::Path| path.display().to_string();
    all.extend(access.credentials.iter().map(|it| of("credential", &it.id, file(&it.secret_file))));
    all.extend(access.grants.iter().map(|it| of("grant", &it.credential, grant_detail(it))));
    all
}
