//! Serves a volume until its standard input ends: `serve PORT [MIB_PER_S [DIRECTORY]]`; 0 MiB/s is without limit.

use std::io::{self, Write};

use iocurve_volume::{Cap, ExportConfig, Limits, StoreConfig, Volume, VolumeConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().map_or(Ok(0), |port| port.parse())?;
    let mib_per_s: u64 = arguments.next().map_or(Ok(0), |rate| rate.parse())?;
    let store = match arguments.next() {
        Some(path) => StoreConfig::Directory { path: path.into(), is_async: false },
        None => StoreConfig::Memory { limit_bytes: 8 << 30 },
    };
    let limits = if mib_per_s == 0 { Limits::default() } else { Limits::of([Cap::bytes_per_s(mib_per_s << 20)]) };
    let exports = vec![ExportConfig { store, limits, ..ExportConfig::default() }];
    let volume = Volume::start(&VolumeConfig { port, exports, ..VolumeConfig::default() })?;
    tell(&format!("nfs://127.0.0.1/vol?nfsport={0}&mountport={0}", volume.port()))?;
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    let stopped = volume.stop()?;
    tell(&format!("{stopped:#?}"))?;
    Ok(())
}

/// Prints a line. A reader that has gone is no failure.
fn tell(line: &str) -> io::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
