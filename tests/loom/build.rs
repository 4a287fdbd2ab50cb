//! Sets `cfg(loom)` for this package alone; a flag for the compiler would set it for all it builds.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(loom)");
    println!("cargo::rustc-cfg=loom");
}
