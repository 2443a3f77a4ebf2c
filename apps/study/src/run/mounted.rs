//! A volume of files of the node, mounted for a measurement.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nearflash_bench::subject::Target;

use super::error::PointError;
use crate::plan::Medium;

/// How long a volume may take to be mounted.
const START_SPAN_MAX: Duration = Duration::from_secs(30);
/// The time between two looks at the directory.
const LOOK_SPAN: Duration = Duration::from_millis(10);

/// A mounted volume; unmounted on drop.
#[derive(Debug)]
pub(super) struct Mounted {
    program: PathBuf,
    dir: PathBuf,
    process: Child,
    /// The medium of the volume.
    pub(super) medium: Medium,
}

impl Mounted {
    /// Formats a volume, and mounts it on a new directory. The bytes of the volume are lost.
    pub(super) fn start(
        program: &Path,
        volume: &Target,
        dir: PathBuf,
        medium: Medium,
    ) -> Result<Self, PointError> {
        let url = volume.url();
        run(program, &["files", "format", "--force", &url])?;
        let failed = |error: std::io::Error| PointError::Mount(error.to_string());
        std::fs::create_dir_all(&dir).map_err(failed)?;
        let mut command = Command::new(program);
        command.args(["mount", "--foreground", &url]).arg(&dir);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let process = command.spawn().map_err(failed)?;
        let mut mounted = Self { program: program.to_owned(), dir, process, medium };
        mounted.wait()?;
        Ok(mounted)
    }

    /// The file that is measured.
    pub(super) fn file(&self) -> PathBuf {
        self.dir.join("file")
    }

    /// The process that answers the kernel.
    pub(super) fn process_id(&self) -> u32 {
        self.process.id()
    }

    fn wait(&mut self) -> Result<(), PointError> {
        let deadline = Instant::now() + START_SPAN_MAX;
        while !is_mount_point(&self.dir) {
            if matches!(self.process.try_wait(), Ok(Some(_))) {
                let mut said = String::new();
                if let Some(errors) = &mut self.process.stderr {
                    let _ = errors.read_to_string(&mut said);
                }
                return Err(PointError::Mount(said.trim().to_owned()));
            }
            if Instant::now() > deadline {
                return Err(PointError::Mount("it takes too long".to_owned()));
            }
            std::thread::sleep(LOOK_SPAN);
        }
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if run(&self.program, &["umount", &self.dir.to_string_lossy()]).is_err() {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

/// Whether the directory is on another device than the one above.
fn is_mount_point(dir: &Path) -> bool {
    let device = |path: &Path| path.metadata().map(|metadata| metadata.dev()).ok();
    let above = dir.parent().and_then(device);
    device(dir).is_some_and(|device| Some(device) != above)
}

fn run(program: &Path, words: &[&str]) -> Result<(), PointError> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| PointError::Mount(error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(PointError::Mount(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}
