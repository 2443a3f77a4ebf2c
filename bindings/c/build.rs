//! Gives the shared library its name for the dynamic linker: before 1.0 every minor version is
//! another library.

fn main() {
    let version =
        |part: &str| std::env::var(format!("CARGO_PKG_VERSION_{part}")).unwrap_or_default();
    let soname = format!("libnearflash.so.{}.{}", version("MAJOR"), version("MINOR"));
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    println!("cargo:rerun-if-changed=build.rs");
}
