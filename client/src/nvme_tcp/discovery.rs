//! Discovery of the subsystems of a node and their addresses. NVMe Base 2.0, 5.16.1.23.

use nearflash_nvme::log::{DiscoveryEntry, DiscoveryHeader, GetLogPage, LogId, SubsystemType};
use nearflash_nvme::{NamespaceId, Nqn};
use nearflash_nvme_tcp::host::CommandData;
use zerocopy::FromBytes;

use super::controller::{Controller, short};
use super::error::HostError;
use super::options::Options;

/// The number of entries in one Get Log Page.
const ENTRIES_PER_PAGE: u64 = 16;
/// The maximum number of entries of a log; the rest is ignored.
const ENTRIES_MAX: u64 = 4096;
/// The maximum number of attempts to read the log, which may change meanwhile.
const ATTEMPTS_MAX: usize = 8;

/// An address of a subsystem.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Discovered {
    /// The subsystem's NQN.
    pub subsystem: String,
    /// TRADDR.
    pub address: String,
    /// TRSVCID.
    pub service: String,
    /// Whether it has namespaces; if not, it is a discovery subsystem.
    pub is_nvm: bool,
}

/// Reads the discovery log at `options.address`; `options.subsystem` is ignored.
///
/// # Errors
/// When the target cannot be reached, or has no discovery subsystem.
pub fn discover(options: &Options) -> Result<Vec<Discovered>, HostError> {
    let options = Options { subsystem: Nqn::discovery(), ..options.clone() };
    let mut controller = Controller::connect(&options)?;
    for _ in 0..ATTEMPTS_MAX {
        if let Some(entries) = read_log(&mut controller)? {
            return Ok(entries);
        }
    }
    Err(short("Get Log Page (discovery)"))
}

/// The whole log; `None` when it has changed meanwhile.
fn read_log(controller: &mut Controller) -> Result<Option<Vec<Discovered>>, HostError> {
    let (generation, count) = read_header(controller)?;
    let mut found = Vec::new();
    let mut next = 0;
    while next < count.min(ENTRIES_MAX) {
        let wanted = (count - next).min(ENTRIES_PER_PAGE);
        let data = read_page(controller, 1024 + next * 1024, wanted * 1024)?;
        let entries = <[DiscoveryEntry]>::ref_from_bytes(&data)
            .map_err(|_| short("Get Log Page (discovery)"))?;
        found.extend(entries.iter().filter_map(discovered));
        next += wanted;
    }
    let (generation_after, _) = read_header(controller)?;
    Ok((generation == generation_after).then_some(found))
}

fn read_header(controller: &mut Controller) -> Result<(u64, u64), HostError> {
    let data = read_page(controller, 0, 1024)?;
    let (header, _) =
        DiscoveryHeader::ref_from_prefix(&data).map_err(|_| short("Get Log Page (discovery)"))?;
    Ok((header.generation.get(), header.entries.get()))
}

fn read_page(controller: &mut Controller, offset: u64, len: u64) -> Result<Vec<u8>, HostError> {
    let len = u32::try_from(len).expect("a few entries of 1024 bytes");
    let page = GetLogPage { offset, ..GetLogPage::new(LogId::DISCOVERY, len) };
    let command = page.to_command(NamespaceId::NONE);
    let data = CommandData::SmallIncoming(len);
    Ok(controller.admin("Get Log Page (discovery)", &command, data)?.1)
}

fn discovered(entry: &DiscoveryEntry) -> Option<Discovered> {
    Some(Discovered {
        subsystem: entry.subsystem.get().ok()?.to_string(),
        address: entry.address.text(),
        service: entry.service.text(),
        is_nvm: entry.subsystem_type == SubsystemType::NVM,
    })
}
