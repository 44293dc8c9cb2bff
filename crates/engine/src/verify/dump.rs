//! Dumps of blocks that differ.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// Writes the received block, and the expected one if it is known, into the current directory under fio's names:
/// `NAME.OFFSET.received` and `NAME.OFFSET.expected`. Existing files are kept. Returns a message about the files
/// written.
pub(super) fn dump(path: &str, offset: u64, received: &[u8], expected: Option<&[u8]>) -> String {
    let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let pieces = [("received", Some(received)), ("expected", expected)];
    let texts = pieces.iter().filter_map(|(what, bytes)| {
        let name = format!("{name}.{offset}.{what}");
        Some(match write_new(Path::new(&name), (*bytes)?) {
            Ok(()) => format!("{what} data are in {name}"),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => format!("{name} already exists and is kept"),
            Err(error) => format!("{name} could not be written: {error}"),
        })
    });
    texts.collect::<Vec<_>>().join(", ")
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    File::options().write(true).create_new(true).open(path)?.write_all(bytes)
}
