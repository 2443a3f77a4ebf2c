//! The file of an earlier schema, which is kept when it is upgraded: `catalog.redb.schema<n>`. The version that
//! wrote it can go on with it, until a run of this version has ended in order. A later start would lose too much.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use nearflash_data_dir::{make_private_file, sync_dir};

use crate::upgrade::SCHEMA;

fn former(path: &Path, schema: usize) -> PathBuf {
    path.with_extension(format!("redb.schema{schema}"))
}

/// Copies a catalog of that schema, which nobody has open.
pub(crate) fn keep(path: &Path, schema: usize) -> io::Result<()> {
    let part = path.with_extension("redb.former.part");
    std::fs::copy(path, &part)?;
    make_private_file(&part)?;
    File::open(&part)?.sync_all()?;
    std::fs::rename(&part, former(path, schema))?;
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// Deletes the copies. One that stays is of no harm: the next upgrade replaces it.
pub(crate) fn forget(path: &Path) {
    for schema in 1..SCHEMA {
        let _ = std::fs::remove_file(former(path, schema));
    }
}
