//! `nearflash files`: files in a volume of a node.

mod destination;
mod place;
mod progress;
mod show;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path as LocalPath, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use nearflash::direct::Options;
use nearflash::url::UrlError;
use nearflash::{Client, Credentials};
use nearflash_files_service::{
    AnyFiles, Disk, FileCalls as _, FileSystem, Files, FilesError, FormatOptions, Kind, Name,
    NameError, Path, Paths, Refusal, RemoteFiles, Replace, Taker, UploadOptions, VolumeDisk,
    format, take_to_format,
};
use nearflash_units::ByteLen;

use crate::args::{FilesSubcommand, OwnerArgs, ReplaceArgs};
use crate::failure::Failure;
use crate::output::{self, print};
use crate::waiting::waiting_for;
use place::Place;
use progress::Progress;

/// The number of entries that are listed at a time.
const PAGE_LEN: usize = 1000;

/// The reason why a command about files failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilesFailure {
    /// The URL is not valid.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The path in the volume is not valid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The new name is a URL of another volume.
    #[error("{to} is not in {from}: a file is renamed within its volume; copy it with get and put")]
    OtherVolume { from: String, to: String },
    /// A path is given where a volume is meant.
    #[error("{path} is a path in {url}: this command is about the whole volume, {url}")]
    PathOfVolume { url: String, path: String },
    /// The volume cannot be reached.
    #[error(transparent)]
    Client(#[from] nearflash::Error),
    /// The files cannot be read or changed.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// A file of this machine cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Source { path: PathBuf, source: io::Error },
    /// A file of this machine cannot be written.
    #[error("cannot write {}: {source}", .path.display())]
    Destination { path: PathBuf, source: io::Error },
    /// A file of this machine exists.
    #[error("{} exists already: choose another name, or replace it with --replace", .0.display())]
    Exists(PathBuf),
    /// The destination on this machine exists and is not a file that can be written.
    #[error("{} is {kind}, which no file replaces: choose another name", .path.display())]
    NoFile { path: PathBuf, kind: &'static str },
    #[error("{0} exists already: choose another name, or replace it with --replace")]
    ExistsInVolume(Path),
    /// The check has found faults.
    #[error("volume '{volume}' has {count} faults: copy its files elsewhere, and format it")]
    Unsound { volume: String, count: u64 },
}

impl FilesFailure {
    /// 2 if the command line is wrong, 1 otherwise.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Url(_) | Self::Name(_) | Self::OtherVolume { .. } | Self::PathOfVolume { .. } => {
                2
            }
            _ => 1,
        }
    }
}

pub(crate) fn run_files(subcommand: FilesSubcommand, json: bool) -> Result<ExitCode, Failure> {
    let said = match subcommand {
        FilesSubcommand::Format { volume, force, owner } => {
            format_volume(&volume, force, owner, json)?
        }
        FilesSubcommand::Ls { place } => list(&place, json)?,
        FilesSubcommand::Stat { place } => {
            let place: Place = place.parse()?;
            let (number, inode) = reading(&place)?.stat(&place.path).map_err(FilesFailure::from)?;
            let file = show::Node::new(&place.path, number, &inode);
            output::show(&file, json, show::node)
        }
        FilesSubcommand::Put { file, place, replace, owner } => {
            put(&file, &place, &replace, owner, json)?
        }
        FilesSubcommand::Get { place, file, replace } => get(&place, &file, &replace, json)?,
        FilesSubcommand::Mkdir { place, owner } => {
            let place: Place = place.parse()?;
            changing(&place, owner)?.mkdir(&place.path).map_err(FilesFailure::from)?;
            output::show(&show::Done::new(&place.path), json, |it| {
                format!("created {}/\n", it.shown())
            })
        }
        FilesSubcommand::Rm { place, owner } => {
            let place: Place = place.parse()?;
            changing(&place, owner)?.remove(&place.path).map_err(FilesFailure::from)?;
            output::show(&show::Done::new(&place.path), json, |it| {
                format!("removed {}\n", it.shown())
            })
        }
        FilesSubcommand::Mv { from, to, replace, owner } => {
            rename(&from, &to, &replace, owner, json)?
        }
        FilesSubcommand::Check { volume } => return check(&volume, json),
    };
    print(&said)?;
    Ok(ExitCode::SUCCESS)
}

fn connect(place: &Place) -> Result<Client, FilesFailure> {
    Ok(Client::connect_to(place.url.clone(), Credentials::NONE, Options::default())?)
}

fn reading(place: &Place) -> Result<Arc<Paths<AnyFiles>>, FilesFailure> {
    let client = connect(place)?;
    // As the volume is known to the node.
    let volume = client.open_named()?.name().to_owned();
    Ok(Paths::open(&client, &volume, None)?)
}

/// The reason why a command waits before it changes files.
const TAKING: &str = "for a sign of life of the process that had the volume, 10 s at most";

fn changing(place: &Place, owner: OwnerArgs) -> Result<Arc<Paths<AnyFiles>>, FilesFailure> {
    let client = connect(place)?;
    let volume = client.open_named()?.name().to_owned();
    let taker = Taker::process(owner.take_over);
    waiting_for(TAKING, || Ok(Paths::open(&client, &volume, Some(&taker))?))
}

fn may_replace(replace: &ReplaceArgs) -> Replace {
    if replace.replace { Replace::Allowed } else { Replace::Never }
}

/// The failure of a command that has the flag `--replace`.
fn named_remedy(error: FilesError) -> FilesFailure {
    match error {
        FilesError::Refused(Refusal::Exists(path)) => FilesFailure::ExistsInVolume(path),
        error => error.into(),
    }
}

fn format_volume(
    volume: &str,
    force: bool,
    owner: OwnerArgs,
    json: bool,
) -> Result<String, FilesFailure> {
    let place: Place = volume.parse()?;
    place.refuse_path()?;
    let client = connect(&place)?;
    let named = client.open_named()?;
    let (volume, bytes) = (named.name().to_owned(), named.info().len);
    let free = match RemoteFiles::format(&client, &volume, force)? {
        true => match RemoteFiles::open(&client, &volume)? {
            Some(files) => files.usage()?.free,
            None => ByteLen(0),
        },
        false => {
            let disk = match force {
                true => {
                    let taker = Taker::process(owner.take_over);
                    waiting_for(TAKING, || take_to_format(&client, &volume, &taker))?
                }
                false => VolumeDisk::new(named),
            };
            let disk = Arc::new(disk);
            format(disk.clone(), FormatOptions { force })?;
            FileSystem::open(disk)?.usage()?.free
        }
    };
    let formatted = show::Formatted { volume, bytes, free_bytes: free.0 };
    Ok(output::show(&formatted, json, show::formatted))
}

fn list(place: &str, json: bool) -> Result<String, FilesFailure> {
    let place: Place = place.parse()?;
    let files = reading(&place)?;
    let (number, inode) = files.stat(&place.path)?;
    let mut nodes = Vec::new();
    if inode.kind != Kind::Directory {
        nodes.push(show::Node::new(&place.path, number, &inode));
    } else {
        let mut after = None;
        loop {
            let entries = files.list(&place.path, after.as_ref(), PAGE_LEN)?;
            let Some((last, _)) = entries.last() else { break };
            after = Some(last.name.clone());
            nodes.extend(entries.iter().map(|(entry, inode)| {
                show::Node::new(&place.path.join(&entry.name), entry.inode, inode)
            }));
        }
    }
    Ok(output::show(&show::Listing { entries: nodes }, json, show::listing))
}

fn put(
    file: &LocalPath,
    place: &str,
    replace: &ReplaceArgs,
    owner: OwnerArgs,
    json: bool,
) -> Result<String, FilesFailure> {
    let failed = |source| FilesFailure::Source { path: file.to_owned(), source };
    let place: Place = place.parse()?;
    let (mut source, size): (Box<dyn Read>, _) = if file == LocalPath::new("-") {
        (Box::new(io::stdin().lock()), None)
    } else {
        let source = File::open(file).map_err(failed)?;
        let metadata = source.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        // Files of /proc and /sys have no length, or an invented one, so it is only expected.
        let is_known = metadata.is_file() && metadata.len() > 0;
        (Box::new(source), is_known.then_some(ByteLen(metadata.len())))
    };
    let owner = changing(&place, owner)?;
    let path = destination(&owner, &place, file)?;
    let mut progress = Progress::new(size);
    let options = UploadOptions { size, replace: may_replace(replace) };
    let put = owner.put(&path, &mut source, options, &mut |done| progress.at(done));
    drop(progress);
    let (number, inode) = put.map_err(named_remedy)?;
    Ok(output::show(&show::Node::new(&path, number, &inode), json, show::put))
}

/// The path of a new file: in a directory that exists, it has the name of its source.
fn destination(
    files: &Paths<AnyFiles>,
    place: &Place,
    file: &LocalPath,
) -> Result<Path, FilesFailure> {
    let is_directory = || match files.stat(&place.path) {
        Ok((_, inode)) => inode.kind == Kind::Directory,
        Err(_) => false,
    };
    match file.file_name() {
        Some(name) if file != LocalPath::new("-") && (place.is_directory || is_directory()) => {
            Ok(place.path.join(&Name::new(name.as_encoded_bytes())?))
        }
        _ => Ok(place.path.clone()),
    }
}

fn get(
    place: &str,
    file: &LocalPath,
    replace: &ReplaceArgs,
    json: bool,
) -> Result<String, FilesFailure> {
    let place: Place = place.parse()?;
    let files = reading(&place)?;
    let (number, inode) = files.stat(&place.path)?;
    let mut progress = Progress::new(Some(inode.size));
    let mut advance = |done| progress.at(done);
    if file == LocalPath::new("-") {
        files.get(&place.path, &mut io::stdout().lock(), &mut advance)?;
        return Ok(String::new());
    }
    let file = match place.path.names().last() {
        Some(name) if file.is_dir() => file.join(OsStr::from_bytes(name.as_bytes())),
        _ => file.to_owned(),
    };
    let mut copy = |sink: &mut dyn Write| files.get(&place.path, sink, &mut advance).map(drop);
    destination::write(&file, replace.replace, &mut copy)?;
    drop(progress);
    let node = show::Node::new(&place.path, number, &inode);
    Ok(output::show(&node, json, |node| show::got(node, &file)))
}

fn rename(
    from: &str,
    to: &str,
    replace: &ReplaceArgs,
    owner: OwnerArgs,
    json: bool,
) -> Result<String, FilesFailure> {
    let from: Place = from.parse()?;
    let to = from.sibling(to)?;
    let renamed = changing(&from, owner)?.rename(&from.path, &to, may_replace(replace));
    renamed.map_err(named_remedy)?;
    Ok(output::show(&show::Renamed::new(&from.path, &to), json, show::renamed))
}

fn check(volume: &str, json: bool) -> Result<ExitCode, Failure> {
    let place: Place = volume.parse()?;
    place.refuse_path()?;
    let client = connect(&place)?;
    let opened = client.open_named().map_err(FilesFailure::from)?;
    let disk: Arc<dyn Disk> = Arc::new(VolumeDisk::new(opened));
    let volume = disk.properties().name;
    // The node's last changes are checked, too.
    if let Some(files) = RemoteFiles::open(&client, &volume).map_err(FilesFailure::from)? {
        files.sync_all().map_err(FilesFailure::from)?;
    }
    let report = Files::open(disk).and_then(|files| files.check());
    let report = report.map_err(FilesFailure::from)?;
    print(&output::show(&show::Checked::new(&volume, &report), json, show::checked))?;
    match report.is_sound() {
        true => Ok(ExitCode::SUCCESS),
        false => {
            let count = report.report.fault_count + u64::from(!report.is_store_sound);
            Err(FilesFailure::Unsound { volume, count }.into())
        }
    }
}
