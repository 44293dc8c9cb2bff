//! Gives the version the commit that it is built from, where the sources lie in their own repository: `0.1.0+61e94f731c2a`.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    let version = env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let commit = commit().map(|commit| format!("+{commit}")).unwrap_or_default();
    println!("cargo:rustc-env=IOCURVE_VERSION={version}{commit}");
}

/// The commit of the working tree; none in a source distribution, which may lie in another repository.
fn commit() -> Option<String> {
    const ROOT: &str = "../..";
    println!("cargo:rerun-if-changed=build.rs");
    if !Path::new(ROOT).join(".git").exists() {
        return None;
    }
    // Both change with each commit and each checkout.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(ROOT, &["rev-parse", "--git-path", name])?;
        let path = Path::new(ROOT).join(path);
        if path.exists() {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    git(ROOT, &["rev-parse", "--short=12", "HEAD"])
}

fn git(directory: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(directory).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
