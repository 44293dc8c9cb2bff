//! From the credential of a call to the caller it stands for (RFC 5531 §8, App. A).

use iocurve_wire::rpc::{AUTH_SYS_GIDS_MAX, auth_flavor, auth_stat, authsys_parms, opaque_auth};
use iocurve_wire::xdr::from_bytes;

use crate::store::access::Caller;

/// Longest name of a machine in `AUTH_SYS` (RFC 5531 App. A).
const MACHINE_NAME_BYTES_MAX: usize = 255;

/// The user that NFS servers traditionally map unknown users to.
const NOBODY: Caller = Caller::new(65534, 65534);

/// The last credential of a connection with its caller: nearly every call brings the same one.
#[derive(Debug)]
pub(crate) struct Credential {
    flavor: u32,
    body: Vec<u8>,
    caller: Caller,
}

impl Credential {
    /// Returns the caller that a credential stands for.
    #[inline]
    pub(crate) fn caller(&mut self, cred: &opaque_auth<'_>) -> Result<&Caller, auth_stat> {
        if cred.flavor != self.flavor || cred.body != self.body {
            self.caller = caller(cred)?;
            self.flavor = cred.flavor;
            self.body.clear();
            self.body.extend_from_slice(cred.body);
        }
        Ok(&self.caller)
    }
}

impl Default for Credential {
    fn default() -> Self {
        Self { flavor: auth_flavor::AUTH_NONE, body: Vec::new(), caller: NOBODY }
    }
}

fn caller(cred: &opaque_auth<'_>) -> Result<Caller, auth_stat> {
    match cred.flavor {
        auth_flavor::AUTH_NONE => Ok(NOBODY),
        auth_flavor::AUTH_SYS => {
            let parms: authsys_parms<'_> = from_bytes(cred.body).map_err(|_| auth_stat::AUTH_BADCRED)?;
            let is_legal = parms.gids.len() <= AUTH_SYS_GIDS_MAX && parms.machinename.len() <= MACHINE_NAME_BYTES_MAX;
            let caller = Caller::new(parms.uid, parms.gid).with_groups(&parms.gids);
            is_legal.then_some(caller).ok_or(auth_stat::AUTH_BADCRED)
        }
        _ => Err(auth_stat::AUTH_BADCRED),
    }
}
