//! The commands to a running node: each makes a call and shows its answer.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nearflash_access::GrantRange;
use nearflash_api::client::{ControlError, ask, ask_all};
use nearflash_api::socket::default_data_dir;
use nearflash_api::{
    Call, ChapAdd, ChapList, ChapMutual, ChapRemove, ControllerKey, CredentialCreate,
    CredentialList, CredentialRemove, DeviceClear, DeviceList, GrantAdd, GrantList, GrantRevoke,
    GrantSeal, HostAdd, HostAllow, HostDeny, HostList, HostRemove, HostRotate, HostUnlist,
    HostVolume, JobCancel, JobInfo, JobList, JobShow, JobWait, MetricsShow, NewCredential,
    NewToken, NodeDrain, NodeUndrain, OneAccount, OneCredential, OneJob, OneNode, OneToken,
    OneVolume, ReservationClear, ReservationList, StatusShow, TokenCreate, TokenList, TokenRemove,
    VolumeList, VolumeMove, VolumeRemove, VolumeResize, VolumeShow,
};
use nearflash_units::ByteLen;

use crate::apply::{NO_ACCOUNT, NO_CREDENTIAL, NoKeyLeft};
use crate::args::{
    ChapSubcommand, CredentialSubcommand, DeviceSubcommand, DhchapArgs, GrantSubcommand,
    HostSubcommand, JobArgs, JobSubcommand, NodeArgs, PskArgs, ReservationSubcommand,
    TokenSubcommand, VolumeRight,
};
use crate::calendar::Lifetime;
use crate::confirm::confirm;
use crate::failure::Failure;
use crate::new_volume::new_volume;
use crate::output::{self, print, show};
use crate::seal_url::Minted;
use crate::secret::{SecretFile, read_secret};
use crate::volume_args::VolumeSubcommand;
use crate::{job, seal_url, tables};

type Done = Result<ExitCode, Failure>;

pub(crate) fn run_status(node: &NodeArgs) -> Done {
    control(node, StatusShow {}, tables::status)
}

pub(crate) fn run_metrics(node: &NodeArgs) -> Done {
    control(node, MetricsShow {}, |metrics| metrics.text.clone())
}

pub(crate) fn run_volume(node: &NodeArgs, subcommand: VolumeSubcommand) -> Done {
    match subcommand {
        VolumeSubcommand::Create { volume, given, no_wait } => {
            let call = new_volume(volume, given)?;
            change((node, &call.name.clone()), call, no_wait, ("created", None))
        }
        VolumeSubcommand::Show { name } => {
            control(node, VolumeShow { name }, tables::volume_detail)
        }
        VolumeSubcommand::List => {
            control(node, VolumeList {}, |answer| tables::volumes(&answer.volumes))
        }
        VolumeSubcommand::Resize { name, size, shrink, force, yes, no_wait } => {
            confirm(yes || !shrink, || {
                Ok(format!(
                    "Shrink {} to {size}? The data past the new end is lost.",
                    described(node, &name)?
                ))
            })?;
            let call = VolumeResize { name: name.clone(), bytes: size.0, shrink, force };
            change((node, &name), call, no_wait, ("resized", Some(size)))
        }
        VolumeSubcommand::Move { name, from, to, no_wait } => {
            run_move(node, VolumeMove { name, node: from, to }, no_wait)
        }
        VolumeSubcommand::Remove { name, force, yes } => {
            confirm(yes, || Ok(format!("Remove {}, and its data?", described(node, &name)?)))?;
            let call = VolumeRemove { name: name.clone(), force };
            change((node, &name), call, false, ("removed", None))
        }
    }
}

/// Begins a job that moves replicas, and waits for it.
fn run_move(node: &NodeArgs, call: impl Call<Answer = OneJob> + Send, no_wait: bool) -> Done {
    let mut answer = answer(node, call)?;
    if !no_wait {
        answer.job = wait(node, answer.job.id)?;
    }
    print(&show(&answer, node.json, |answer| output::job(&answer.job)))?;
    Ok(ExitCode::SUCCESS)
}

/// Drains a node, or places replicas on it again.
pub(crate) fn run_drain(node: &NodeArgs, subject: String, undo: bool, no_wait: bool) -> Done {
    if undo {
        let text = |it: &OneNode| format!("node '{}' gets replicas again\n", it.node);
        return control(node, NodeUndrain { node: subject }, text);
    }
    run_move(node, NodeDrain { node: subject }, no_wait)
}

/// A volume with its size, for a question about it.
fn described(node: &NodeArgs, name: &str) -> Result<String, Failure> {
    let volumes = answer(node, VolumeList {})?.volumes;
    let volume = volumes.iter().find(|volume| volume.name == name);
    // The node refuses a volume that does not exist, with the reason.
    Ok(volume.map_or_else(|| format!("volume '{name}'"), output::sentence))
}

/// Changes a volume, and waits for the job that completes the change. `to` is the size that it gets.
fn change<C: Call<Answer = OneVolume> + Send>(
    (node, name): (&NodeArgs, &str),
    call: C,
    no_wait: bool,
    (done, to): (&str, Option<ByteLen>),
) -> Done {
    let data_dir = data_dir(node)?;
    let mut answer = ask(&data_dir, call)?;
    if let Some(job) = answer.job.as_ref().filter(|_| !no_wait) {
        answer.job = Some(wait(node, job.id)?);
        let shown = ask(&data_dir, VolumeShow { name: name.to_owned() });
        answer.volume = shown.map_or(answer.volume, |shown| shown.volume);
        answer.volume.job = None;
    }
    let text = |answer: &OneVolume| {
        let note = answer.note.as_ref().map_or(String::new(), |note| format!("{note}\n"));
        let job = answer.job.as_ref().filter(|job| !job.state.is_over());
        match job.zip(to) {
            Some((job, to)) => output::resizing(&answer.volume, to, job) + &note,
            None => output::volume(done, &answer.volume, job) + &note,
        }
    };
    print(&show(&answer, node.json, text))?;
    Ok(ExitCode::SUCCESS)
}

/// A warning after the last key of a protocol was removed.
fn warning(node: &NodeArgs, is_last: bool, left: &NoKeyLeft) -> Result<String, Failure> {
    if !is_last {
        return Ok(String::new());
    }
    let is_closed = answer(node, StatusShow {})?.closed.iter().any(|it| it == left.protocol);
    let text = if is_closed { left.closed } else { left.open };
    Ok(format!("warning: {text}\n"))
}

pub(crate) fn run_credential(node: &NodeArgs, subcommand: CredentialSubcommand) -> Done {
    match subcommand {
        CredentialSubcommand::Create { id, expires, secret_file } => {
            let call = CredentialCreate { id, expires_at: expires.map(Lifetime::end) };
            match secret_file {
                None => control_secret(node, call, |made| {
                    output::with_secret(&made.credential, &made.secret.0)
                }),
                Some(path) => create_with_file(node, call, &path),
            }
        }
        CredentialSubcommand::List => {
            control(node, CredentialList {}, |answer| tables::credentials(&answer.credentials))
        }
        CredentialSubcommand::Remove { id } => {
            let removed = answer(node, CredentialRemove { id })?;
            let is_last = answer(node, CredentialList {})?.credentials.is_empty();
            let warning = warning(node, is_last, &NO_CREDENTIAL)?;
            let text = |removed: &OneCredential| {
                output::credential_removed(&removed.credential) + &warning
            };
            print(&show(&removed, node.json, text))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Creates a credential whose secret is written to a file. The file is created first, since a
/// secret that cannot be stored would be lost.
fn create_with_file(node: &NodeArgs, call: CredentialCreate, path: &Path) -> Done {
    let file = SecretFile::create(path)?;
    let made = answer(node, call)?;
    file.keep(&made.secret)?;
    let NewCredential { credential, unconfirmed, .. } = made;
    let shown = OneCredential { credential, unconfirmed };
    let text = |made: &OneCredential| output::credential_made(&made.credential);
    print(&show(&shown, node.json, text))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn run_grant(node: &NodeArgs, subcommand: GrantSubcommand) -> Done {
    match subcommand {
        GrantSubcommand::Add { id, volume, range, path, rights, expires } => {
            let range = range.unwrap_or(GrantRange::WHOLE);
            let call = GrantAdd {
                credential: id,
                volume,
                path,
                start: range.start().0,
                end: range.end().map(|end| end.0),
                rights: rights.to_string(),
                expires_at: expires.map(Lifetime::end),
            };
            control(node, call, |made| output::grant("added", &made.grant))
        }
        GrantSubcommand::Seal { volume, range, rights, lifetime, at } => {
            let range = range.unwrap_or(GrantRange::WHOLE);
            // Without an address there would be a seal that nobody can use.
            let place = match at {
                Some(at) => seal_url::place_at(&at)?,
                None => seal_url::place_of(&answer(node, StatusShow {})?)?,
            };
            let call = GrantSeal {
                volume: volume.clone(),
                start: range.start().0,
                end: range.end().map(|end| end.0),
                rights: rights.to_string(),
                expires_at: lifetime.end(),
            };
            let minted = Minted::at(&place, &volume, answer(node, call)?);
            print_secret(&show(&minted, node.json, Minted::text))?;
            Ok(ExitCode::SUCCESS)
        }
        GrantSubcommand::List { id } => {
            let call = GrantList { credential: id };
            control(node, call, |answer| tables::grants(&answer.grants))
        }
        GrantSubcommand::Remove { number } => {
            let call = GrantRevoke { number };
            control(node, call, |removed| output::grant("removed", &removed.grant))
        }
    }
}

fn host_volumes(given: &[VolumeRight]) -> Vec<HostVolume> {
    let volume =
        |it: &VolumeRight| HostVolume { volume: it.volume.clone(), rights: it.rights.to_string() };
    given.iter().map(volume).collect()
}

fn allow(node: &NodeArgs, host: String, volumes: &[VolumeRight], only: bool) -> Done {
    let call = HostAllow { host, volumes: host_volumes(volumes), only };
    control(node, call, |answer| output::volumes_of(&answer.list))
}

/// How the name of an initiator begins. RFC 7143, 4.2.7.
const INITIATORS: [&str; 3] = ["iqn.", "eui.", "naa."];

pub(crate) fn run_host(node: &NodeArgs, subcommand: HostSubcommand) -> Done {
    match subcommand {
        HostSubcommand::Add { host, volumes, dhchap, psk } => {
            if INITIATORS.iter().any(|prefix| host.starts_with(prefix)) {
                if dhchap.is_given() || psk.psk_file.is_some() || volumes.is_empty() {
                    return Err(Failure::InitiatorHasNoKeys { initiator: host });
                }
                return allow(node, host, &volumes, true);
            }
            let volumes = (!volumes.is_empty()).then(|| host_volumes(&volumes));
            let call = HostAdd { volumes, ..host_add(host, dhchap, psk)? };
            control_secret(node, call, output::host_made)
        }
        HostSubcommand::Rotate { nqn, dhchap_key, psk_file, overlap } => {
            let read = |path: Option<PathBuf>| path.as_deref().map(read_secret).transpose();
            let (key, psk) = (read(dhchap_key)?, read(psk_file)?);
            let call = HostRotate { nqn, key, psk, previous_until: overlap.map(Lifetime::end) };
            control_secret(node, call, output::host_rotated)
        }
        HostSubcommand::Allow { host, volumes, only } => allow(node, host, &volumes, only),
        HostSubcommand::Deny { host, volumes } => {
            control(node, HostDeny { host, volumes }, |answer| output::volumes_of(&answer.list))
        }
        HostSubcommand::Unlist { host } => {
            let list = answer(node, HostUnlist { host })?;
            let left = answer(node, HostList {})?;
            print(&show(&list, node.json, |it| output::unlisted(&it.list, &left)))?;
            Ok(ExitCode::SUCCESS)
        }
        HostSubcommand::List => control(node, HostList {}, tables::hosts),
        HostSubcommand::Remove { host, forget } => {
            let removed = answer(node, HostRemove { nqn: host, forget })?;
            let left = answer(node, HostList {})?;
            print(&show(&removed, node.json, |it| output::host_removed(it, &left)))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn host_add(nqn: String, dhchap: DhchapArgs, psk: PskArgs) -> Result<HostAdd, Failure> {
    let read = |path: Option<PathBuf>| path.as_deref().map(read_secret).transpose();
    let (key, controller_key) = (read(dhchap.dhchap_key)?, read(dhchap.dhchap_ctrl_key)?);
    let is_mutual = dhchap.mutual || controller_key.is_some();
    let controller = is_mutual.then_some(ControllerKey { key: controller_key });
    let DhchapArgs { hash, group, .. } = dhchap;
    let (psk, psk_derivation, tls) = (read(psk.psk_file)?, psk.psk_derivation, psk.tls);
    let (volumes, replace) = (None, false);
    Ok(HostAdd { nqn, key, controller, volumes, hash, group, replace, psk, psk_derivation, tls })
}

pub(crate) fn run_chap(node: &NodeArgs, subcommand: ChapSubcommand) -> Done {
    match subcommand {
        ChapSubcommand::Add { user, initiators, secret_file, mutual_user, mutual_secret_file } => {
            let read = |path: Option<PathBuf>| path.as_deref().map(read_secret).transpose();
            let (secret, mutual_secret) = (read(secret_file)?, read(mutual_secret_file)?);
            let mutual = mutual_user.map(|user| ChapMutual { user, secret: mutual_secret });
            let call = ChapAdd { user, secret, mutual, initiators, replace: false };
            control_secret(node, call, output::chap_made)
        }
        ChapSubcommand::List => {
            control(node, ChapList {}, |answer| tables::accounts(&answer.accounts))
        }
        ChapSubcommand::Remove { user } => {
            let removed = answer(node, ChapRemove { user })?;
            let is_last = answer(node, ChapList {})?.accounts.is_empty();
            let warning = warning(node, is_last, &NO_ACCOUNT)?;
            let text = |it: &OneAccount| output::chap_removed(it) + &warning;
            print(&show(&removed, node.json, text))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

pub(crate) fn run_token(node: &NodeArgs, subcommand: TokenSubcommand) -> Done {
    match subcommand {
        TokenSubcommand::Create { name, scope, expires, secret_file } => {
            let call = TokenCreate { name, scope, expires_at: expires.map(Lifetime::end) };
            let Some(path) = secret_file else {
                return control_secret(node, call, |made| {
                    output::token_with_secret(&made.token, &made.secret.0)
                });
            };
            // The file is created first, since a secret that cannot be stored would be lost.
            let file = SecretFile::create(&path)?;
            let made = answer(node, call)?;
            file.keep(&made.secret)?;
            let NewToken { token, unconfirmed, .. } = made;
            let shown = OneToken { token, unconfirmed };
            print(&show(&shown, node.json, |made| output::token("created", &made.token)))?;
            Ok(ExitCode::SUCCESS)
        }
        TokenSubcommand::List => {
            control(node, TokenList {}, |answer| tables::tokens(&answer.tokens))
        }
        TokenSubcommand::Remove { name } => {
            control(node, TokenRemove { name }, |it| output::token("removed", &it.token))
        }
    }
}

pub(crate) fn run_reservation(node: &NodeArgs, subcommand: ReservationSubcommand) -> Done {
    match subcommand {
        ReservationSubcommand::List { volume } => {
            let call = ReservationList { volume };
            control(node, call, |answer| tables::reservations(&answer.reservations))
        }
        ReservationSubcommand::Clear { volume } => {
            let call = ReservationClear { volume };
            control(node, call, |cleared| output::cleared(&cleared.reservation))
        }
    }
}

pub(crate) fn run_device(node: &NodeArgs, subcommand: DeviceSubcommand) -> Done {
    match subcommand {
        DeviceSubcommand::List => {
            control(node, DeviceList {}, |answer| tables::device_list(&answer.devices))
        }
        DeviceSubcommand::Clear { name } => {
            let devices = answer(node, DeviceList {})?.devices;
            let was_suspect = devices.iter().any(|device| device.name == name && device.suspect);
            control(node, DeviceClear { name }, |it| match was_suspect {
                true => format!("cleared the suspect state of device '{}'\n", it.device.name),
                false => format!("device '{}' is not suspect: nothing to clear\n", it.device.name),
            })
        }
    }
}

pub(crate) fn run_job(node: &NodeArgs, subcommand: JobSubcommand) -> Done {
    match subcommand {
        JobSubcommand::List => control(node, JobList {}, |answer| tables::jobs(&answer.jobs)),
        JobSubcommand::Show(JobArgs { id }) => {
            control(node, JobShow { id }, |answer| output::job(&answer.job))
        }
        JobSubcommand::Cancel(JobArgs { id }) => {
            control(node, JobCancel { id }, |answer| output::job(&answer.job))
        }
        JobSubcommand::Wait(JobArgs { id }) => {
            let over = OneJob { job: wait(node, id)? };
            print(&show(&over, node.json, |over| output::job(&over.job)))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Makes a call and shows its answer.
fn control<C: Call>(node: &NodeArgs, call: C, text: impl FnOnce(&C::Answer) -> String) -> Done {
    print(&show(&answer(node, call)?, node.json, text))?;
    Ok(ExitCode::SUCCESS)
}

/// Makes a call that creates a secret, which nobody can ask for again.
fn control_secret<C: Call>(
    node: &NodeArgs,
    call: C,
    text: impl FnOnce(&C::Answer) -> String,
) -> Done {
    print_secret(&show(&answer(node, call)?, node.json, text))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a secret, also to a reader that has gone: it is lost then.
fn print_secret(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::SecretLost)
}

fn answer<C: Call>(node: &NodeArgs, call: C) -> Result<C::Answer, Failure> {
    let (answer, unconfirmed) = ask_all(&data_dir(node)?, call)?;
    if !unconfirmed.is_empty() {
        eprintln!("nearflash: warning: {}", output::unconfirmed(&unconfirmed));
    }
    Ok(answer)
}

fn wait(node: &NodeArgs, id: u64) -> Result<JobInfo, Failure> {
    let data_dir = data_dir(node)?;
    job::wait(id, |call: JobWait| -> Result<JobInfo, ControlError> {
        Ok(ask(&data_dir, call)?.job)
    })
}

pub(crate) fn data_dir(node: &NodeArgs) -> Result<PathBuf, Failure> {
    Ok(node.data_dir.clone().map_or_else(default_data_dir, Ok)?)
}
