//! The calls of the metadata engine in `NFSv4.1`: each operation is one COMPOUND, and files are open.

use iocurve_wire::nfs4::attributes::{
    Attributes, FATTR4_CHANGE, FATTR4_FILEID, FATTR4_MODE, FATTR4_NUMLINKS, FATTR4_OWNER, FATTR4_OWNER_GROUP,
    FATTR4_SIZE, FATTR4_SPACE_USED, FATTR4_TIME_ACCESS, FATTR4_TIME_METADATA, FATTR4_TIME_MODIFY, FATTR4_TYPE, bitmap4,
};
use iocurve_wire::nfs4::operations::{
    ACCESS4args, COMMIT4args, CREATE4args, LOOKUP4args, READ4args, REMOVE4args, RENAME4args, SETATTR4args, WRITE4args,
    access, createhow4, createtype4, nfs_argop4, nfs_resop4, open_claim4, openflag4,
};
use iocurve_wire::nfs4::{settime4, stable_how4, stateid4};
use iocurve_wire::xdr::{from_bytes, to_bytes};

use super::super::metadata::{Answer, DIRECTORY_MODE, Entry, MetadataCalls, Object, Written, granted};
use super::super::protocol::Judgement;
use super::session::{FILE_MODE, Handle, Open, Session, close, get, open_by_handle, open_either_way, put, take_handle};
use super::{Nfs4, stability, status};
use crate::plan::Durability;

/// Attributes that stat(2) asks for.
const STAT: bitmap4 = bitmap4::of(&[
    FATTR4_TYPE,
    FATTR4_CHANGE,
    FATTR4_SIZE,
    FATTR4_FILEID,
    FATTR4_MODE,
    FATTR4_NUMLINKS,
    FATTR4_OWNER,
    FATTR4_OWNER_GROUP,
    FATTR4_SPACE_USED,
    FATTR4_TIME_ACCESS,
    FATTR4_TIME_METADATA,
    FATTR4_TIME_MODIFY,
]);

impl<'a> MetadataCalls<'a, Nfs4> for Session<'a> {
    type Open = Open;

    fn root(&self) -> Handle {
        self.root.clone()
    }

    fn look_up(&mut self, entry: &Entry<'_, Handle>) -> Answer<Handle> {
        let mut handle = Vec::new();
        let calls = [put(entry.directory), look_up(entry), nfs_argop4::GETFH(())];
        granted!(self.carry_out(&calls, |result| take_handle(&result, &mut handle)));
        Ok(Ok(handle))
    }

    fn create_open(&mut self, entry: &Entry<'_, Handle>) -> Answer<Open> {
        let mode = to_bytes(&Attributes { mode: Some(FILE_MODE), ..Attributes::default() });
        let attributes = from_bytes(&mode).expect("attributes that were made here");
        self.open_entry(entry, openflag4::OPEN4_CREATE(createhow4::UNCHECKED4(attributes)))
    }

    fn open_file(&mut self, entry: &Entry<'_, Handle>) -> Answer<Open> {
        self.open_entry(entry, openflag4::OPEN4_NOCREATE(()))
    }

    fn close_file(&mut self, open: Open) -> Answer<()> {
        close(self.client(), &open.handle, open.stateid).map(Ok)
    }

    fn get_attributes(&mut self, object: &Object<'_, Handle, Open>) -> Answer<()> {
        self.on_object(object, get(STAT), |_| {})
    }

    fn set_times(&mut self, object: &Object<'_, Handle, Open>) -> Answer<()> {
        let now = Some(settime4::SET_TO_SERVER_TIME4(()));
        let times = to_bytes(&Attributes { time_access_set: now, time_modify_set: now, ..Attributes::default() });
        let obj_attributes = from_bytes(&times).expect("attributes that were made here");
        let set = SETATTR4args { stateid: stateid4::ANONYMOUS, obj_attributes };
        self.on_object(object, nfs_argop4::SETATTR(set), |_| {})
    }

    fn may_read(&mut self, object: &Object<'_, Handle, Open>) -> Answer<bool> {
        let mut granted = 0;
        let asked = nfs_argop4::ACCESS(ACCESS4args { access: access::ACCESS3_READ });
        granted!(self.on_object(object, asked, |result| {
            if let nfs_resop4::ACCESS(Ok(checked)) = result {
                granted = checked.access;
            }
        }));
        Ok(Ok(granted & access::ACCESS3_READ != 0))
    }

    fn rename(&mut self, from: &Entry<'_, Handle>, to: &Entry<'_, Handle>) -> Answer<()> {
        let rename = RENAME4args { oldname: from.name.as_bytes(), newname: to.name.as_bytes() };
        let calls = [put(from.directory), nfs_argop4::SAVEFH(()), put(to.directory), nfs_argop4::RENAME(rename)];
        self.carry_out(&calls, |_| {})
    }

    fn remove_file(&mut self, entry: &Entry<'_, Handle>) -> Answer<()> {
        let remove = REMOVE4args { target: entry.name.as_bytes() };
        self.carry_out(&[put(entry.directory), nfs_argop4::REMOVE(remove)], |_| {})
    }

    fn make_directory(&mut self, entry: &Entry<'_, Handle>) -> Answer<Option<Handle>> {
        let mode = to_bytes(&Attributes { mode: Some(DIRECTORY_MODE), ..Attributes::default() });
        let createattrs = from_bytes(&mode).expect("attributes that were made here");
        let create = CREATE4args { objtype: createtype4::NF4DIR(()), objname: entry.name.as_bytes(), createattrs };
        let mut handle = Vec::new();
        let calls = [put(entry.directory), nfs_argop4::CREATE(create), nfs_argop4::GETFH(())];
        granted!(self.carry_out(&calls, |result| take_handle(&result, &mut handle)));
        Ok(Ok(Some(handle)))
    }

    /// REMOVE takes directories as well.
    fn remove_directory(&mut self, entry: &Entry<'_, Handle>) -> Answer<()> {
        self.remove_file(entry)
    }

    fn read(&mut self, open: &mut Open, offset: u64, into: &mut [u8]) -> Answer<(u32, bool)> {
        let (count, mut read) = (into.len() as u32, None);
        let call = |stateid| nfs_argop4::READ(READ4args { stateid, offset, count });
        granted!(self.on_open(open, call, |result| {
            if let nfs_resop4::READ(Ok(found)) = result
                && let Some(place) = into.get_mut(..found.data.len())
            {
                place.copy_from_slice(found.data);
                read = Some((found.data.len() as u32, found.eof));
            }
        }));
        Ok(Ok(read.ok_or_else(|| self.client().rpc.invalid(&"it has more data than requested"))?))
    }

    fn write(&mut self, open: &mut Open, offset: u64, data: &[u8], durability: Durability) -> Answer<Written> {
        let (stable, mut written) = (stability(durability), None);
        let call = |stateid| nfs_argop4::WRITE(WRITE4args { stateid, offset, stable, data });
        granted!(self.on_open(open, call, |result| {
            if let nfs_resop4::WRITE(Ok(result)) = result {
                written = Some(result);
            }
        }));
        let written = written.ok_or_else(|| self.client().rpc.invalid(&"it lacks the result of a WRITE"))?;
        let is_unstable = written.committed == stable_how4::UNSTABLE;
        Ok(Ok(Written { bytes: written.count, is_unstable, verifier: written.writeverf }))
    }

    fn commit(&mut self, open: &Open) -> Answer<[u8; 8]> {
        let mut verifier = [0; 8];
        let commit = nfs_argop4::COMMIT(COMMIT4args { offset: 0, count: 0 });
        granted!(self.carry_out(&[put(&open.handle), commit], |result| {
            if let nfs_resop4::COMMIT(Ok(committed)) = result {
                verifier = committed.writeverf;
            }
        }));
        Ok(Ok(verifier))
    }
}

impl Session<'_> {
    fn open_entry(&mut self, entry: &Entry<'_, Handle>, how: openflag4<'_>) -> Answer<Open> {
        let claim = open_claim4::CLAIM_NULL(entry.name.as_bytes());
        let opened = open_either_way(self.client(), entry.name, entry.directory, how, claim)?;
        Ok(opened.map_err(|status| status as u32))
    }

    /// Carries an operation out on an object that an open or a name finds.
    fn on_object(
        &mut self,
        object: &Object<'_, Handle, Open>,
        operation: nfs_argop4<'_>,
        each: impl FnMut(nfs_resop4<'_>),
    ) -> Answer<()> {
        match object {
            Object::Open(open) => self.carry_out(&[put(&open.handle), operation], each),
            Object::Entry(entry) => self.carry_out(&[put(entry.directory), look_up(entry), operation], each),
        }
    }

    /// Carries an operation out under the state of an open. A state that the server has lost is replaced once.
    fn on_open<'d>(
        &mut self,
        open: &mut Open,
        operation: impl Fn(stateid4) -> nfs_argop4<'d>,
        mut each: impl FnMut(nfs_resop4<'_>),
    ) -> Answer<()> {
        let carried_out = self.carry_out(&[put(&open.handle), operation(open.stateid)], &mut each)?;
        match carried_out {
            Err(status) if status::judge(status) == Judgement::Recover => {
                *open = open_by_handle(self.client(), &open.path, &open.handle)?;
                self.carry_out(&[put(&open.handle), operation(open.stateid)], each)
            }
            carried_out => Ok(carried_out),
        }
    }

    fn carry_out(&mut self, operations: &[nfs_argop4<'_>], each: impl FnMut(nfs_resop4<'_>)) -> Answer<()> {
        Ok(self.client().compound(operations, each)?.map_err(|failed| failed.status as u32))
    }
}

fn look_up<'n>(entry: &Entry<'n, Handle>) -> nfs_argop4<'n> {
    nfs_argop4::LOOKUP(LOOKUP4args { objname: entry.name.as_bytes() })
}
