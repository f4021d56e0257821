//! Hands the compiler's version and the target on to the program, which prints them with figures.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=HEDDLE_RUSTC={}", version.trim());
    println!("cargo::rustc-env=HEDDLE_TARGET={}", env::var("TARGET").unwrap_or_else(|_| "unknown".into()));
    println!("cargo::rustc-env=HEDDLE_PROFILE={}", env::var("PROFILE").unwrap_or_else(|_| "unknown".into()));
}
