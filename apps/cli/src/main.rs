//! The `nearflash` command.
fn main() {}
