//! Port mapper (RFC 1833): all programs are on the port on which it is asked.

use iocurve_wire::portmap::{IPPROTO_TCP, PMAPPROC_DUMP, PMAPPROC_GETPORT, PMAPPROC_NULL, mapping, pmaplist};
use iocurve_wire::xdr::{Encode, List, Writer, from_bytes};

use super::call::{Call, Program, Refused};

/// Answers a call of the port mapper.
pub(super) fn answer(call: &Call<'_>, out: &mut Writer<'_>) -> Result<(), Refused> {
    match call.procedure {
        PMAPPROC_NULL => from_bytes::<()>(call.arguments)?,
        PMAPPROC_GETPORT => getport(&from_bytes(call.arguments)?, call.served.port).encode(out),
        PMAPPROC_DUMP => registered(call.served.port).encode(out),
        _ => return Err(Refused::Procedure),
    }
    Ok(())
}

fn getport(asked: &mapping, port: u16) -> u32 {
    let is_asked = |known: &mapping| (known.prog, known.vers, known.prot) == (asked.prog, asked.vers, asked.prot);
    registered(port).0.into_iter().find(is_asked).map_or(0, |known| known.port)
}

fn registered(port: u16) -> pmaplist {
    let mappings = Program::ALL.map(|program| {
        let (prog, vers) = program.number();
        mapping { prog, vers, prot: IPPROTO_TCP, port: u32::from(port) }
    });
    List(mappings.into())
}

#[cfg(test)]
mod tests {
    use iocurve_wire::nfs3::{NFS_PROGRAM, NFS_V3};

    use super::*;

    #[test]
    fn programs_are_found_by_number_version_and_protocol() {
        let asked = mapping { prog: NFS_PROGRAM, vers: NFS_V3, prot: IPPROTO_TCP, port: 0 };
        assert_eq!(getport(&asked, 2049), 2049);
        assert_eq!(getport(&mapping { vers: 4, ..asked.clone() }, 2049), 2049);
        assert_eq!(getport(&mapping { vers: 2, ..asked.clone() }, 2049), 0);
        assert_eq!(getport(&mapping { prot: 17, ..asked }, 2049), 0);
    }
}
