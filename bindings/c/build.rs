//! Sets the soname of the shared library: before 1.0, the minor version is a part of it, since the
//! ABI may change.

fn main() {
    let version =
        |part: &str| std::env::var(format!("CARGO_PKG_VERSION_{part}")).unwrap_or_default();
    let soname = format!("libnearflash.so.{}.{}", version("MAJOR"), version("MINOR"));
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    println!("cargo:rerun-if-changed=build.rs");
}
