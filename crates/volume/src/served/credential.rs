//! From the credential of a call to the caller it stands for (RFC 5531 §8, App. A).
//!
//! `AUTH_SYS` is no authentication: the client states a user, and nothing proves it.

use iocurve_wire::rpc::{AUTH_SYS_GIDS_MAX, auth_flavor, auth_stat, authsys_parms, opaque_auth};
use iocurve_wire::xdr::from_bytes;

use super::Export;
use super::rules::ClientAccess;
use crate::store::access::Caller;

/// Longest name of a machine in `AUTH_SYS` (RFC 5531 App. A).
const MACHINE_NAME_BYTES_MAX: usize = 255;

/// No export has this number.
const NO_EXPORT: usize = usize::MAX;

/// The last credential of a connection, and its caller in the last export: nearly every call brings the same ones.
#[derive(Debug)]
pub(crate) struct Credential {
    flavor: u32,
    body: Vec<u8>,
    /// The user that the client states; `None` if it states none.
    stated: Option<Caller>,
    /// Number of the export that `caller` is for.
    export: usize,
    caller: Caller,
}

impl Credential {
    /// Takes the credential of a call.
    #[inline]
    pub(crate) fn take(&mut self, cred: &opaque_auth<'_>) -> Result<(), auth_stat> {
        if cred.flavor != self.flavor || cred.body != self.body { self.replace(cred) } else { Ok(()) }
    }

    #[cold]
    fn replace(&mut self, cred: &opaque_auth<'_>) -> Result<(), auth_stat> {
        self.stated = stated(cred)?;
        self.export = NO_EXPORT;
        self.flavor = cred.flavor;
        self.body.clear();
        self.body.extend_from_slice(cred.body);
        Ok(())
    }

    /// The user that the client states; `None` if it states none.
    pub(crate) fn stated(&self) -> Option<Caller> {
        self.stated
    }

    /// Works out the caller that the credential stands for in an export, of which the client has this access.
    #[inline]
    pub(crate) fn enter(&mut self, export: &Export, access: ClientAccess) {
        if self.export != export.number {
            self.squash(export, access);
        }
    }

    #[cold]
    fn squash(&mut self, export: &Export, access: ClientAccess) {
        self.caller = export.rules.caller(self.stated.as_ref(), access);
        self.export = export.number;
    }

    /// The caller in the export that was entered last.
    #[inline]
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }
}

impl Default for Credential {
    fn default() -> Self {
        let (body, caller) = (Vec::new(), Caller::default());
        Self { flavor: auth_flavor::AUTH_NONE, body, stated: None, export: NO_EXPORT, caller }
    }
}

fn stated(cred: &opaque_auth<'_>) -> Result<Option<Caller>, auth_stat> {
    match cred.flavor {
        auth_flavor::AUTH_NONE => Ok(None),
        auth_flavor::AUTH_SYS => {
            let parms: authsys_parms<'_> = from_bytes(cred.body).map_err(|_| auth_stat::AUTH_BADCRED)?;
            let is_legal = parms.gids.len() <= AUTH_SYS_GIDS_MAX && parms.machinename.len() <= MACHINE_NAME_BYTES_MAX;
            let caller = Caller::new(parms.uid, parms.gid).with_groups(&parms.gids);
            is_legal.then_some(Some(caller)).ok_or(auth_stat::AUTH_BADCRED)
        }
        _ => Err(auth_stat::AUTH_BADCRED),
    }
}
