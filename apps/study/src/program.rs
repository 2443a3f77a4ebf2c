//! The two programs of a run: this one, which measures, and `nearflash`, which is measured.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use nearflash_bench::compare::find;
use sha2::{Digest as _, Sha256};

use crate::error::StudyError;

/// The running program.
const OWN: &str = "/proc/self/exe";
/// The name of the node's program.
const NODE: &str = "nearflash";

/// The path of the node's program: `NEARFLASH_BIN`, or `nearflash` next to this program, or in PATH.
/// `None` if neither is found and the variable is not set.
pub(crate) fn node() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("NEARFLASH_BIN") {
        return Some(named.into());
    }
    let own = std::env::current_exe().ok();
    let sibling = own.map(|own| own.with_file_name(NODE)).filter(|it| it.is_file());
    sibling.or_else(|| find(NODE))
}

/// The build: the SHA-256 of both programs. The version alone does not identify it, and neither
/// does a commit with a dirty work tree.
pub(crate) fn build(node: Option<&Path>) -> Result<String, StudyError> {
    let mut hash = Sha256::new();
    for path in [Some(Path::new(OWN)), node].into_iter().flatten() {
        add(&mut hash, path)
            .map_err(|source| StudyError::Program { path: path.to_owned(), source })?;
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn add(hash: &mut Sha256, path: &Path) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut part = vec![0; 1 << 20];
    loop {
        match file.read(&mut part)? {
            0 => return Ok(()),
            len => hash.update(&part[..len]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_node_is_another_build() {
        let node = |bytes: &[u8]| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), bytes).unwrap();
            build(Some(file.path())).unwrap()
        };
        assert_eq!(node(b"a").len(), 64);
        assert_eq!(node(b"a"), node(b"a"));
        assert_ne!(node(b"a"), node(b"b"));
        assert_ne!(node(b"a"), build(None).unwrap());
    }

    #[test]
    fn a_program_that_cannot_be_read_is_named_with_the_remedy() {
        let message = build(Some(Path::new("/nowhere/nearflash"))).unwrap_err().to_string();
        assert!(message.contains("/nowhere/nearflash"), "{message}");
        assert!(message.contains("NEARFLASH_BIN"), "{message}");
    }
}
