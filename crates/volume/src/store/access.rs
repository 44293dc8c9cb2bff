//! Permissions: the mode of a file against the caller's `AUTH_SYS` credential, as Unix servers check it.
//!
//! Nothing proves the caller's identity: `AUTH_SYS` has the client state it.

use iocurve_wire::nfs3::access::{
    ACCESS3_DELETE, ACCESS3_EXECUTE, ACCESS3_EXTEND, ACCESS3_LOOKUP, ACCESS3_MODIFY, ACCESS3_READ,
};
use iocurve_wire::nfs3::{fattr3, ftype3, nfsstat3, sattr3, set_time};
use iocurve_wire::rpc::AUTH_SYS_GIDS_MAX;

/// Permission to read, as in the lowest three bits of a mode.
pub(crate) const READ: u32 = 4;
/// Permission to write.
pub(crate) const WRITE: u32 = 2;
/// Permission to execute a file or to search a directory.
pub(crate) const EXECUTE: u32 = 1;

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const STICKY: u32 = 0o1000;
const GROUP_EXECUTE: u32 = 0o010;

/// The user whose call is executed; new files belong to it. Clients state it (`AUTH_SYS`), the rules of the export may squash it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Other groups; unused places repeat `gid`.
    groups: [u32; AUTH_SYS_GIDS_MAX],
    pub(crate) rights: Rights,
}

/// Rights that the rules of an export give or take, whoever the user is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Rights {
    /// Nothing may be changed.
    pub(crate) read_only: bool,
    /// Files may be given set-user-ID and set-group-ID.
    pub(crate) suid: bool,
    /// Root may make devices.
    pub(crate) dev: bool,
}

impl Caller {
    /// A caller with no other groups and no further rights.
    pub(crate) const fn new(uid: u32, gid: u32) -> Self {
        let rights = Rights { read_only: false, suid: false, dev: false };
        Self { uid, gid, groups: [gid; AUTH_SYS_GIDS_MAX], rights }
    }

    /// Adds other groups, of which the first [`AUTH_SYS_GIDS_MAX`] count.
    #[must_use]
    pub(crate) fn with_groups(mut self, groups: &[u32]) -> Self {
        self.groups.iter_mut().zip(groups).for_each(|(own, group)| *own = *group);
        self
    }

    /// The caller with another user in the place of root, and another group in the place of root's.
    pub(crate) fn without_root(mut self, uid: u32, gid: u32) -> Self {
        let groups = self.groups.iter_mut().chain([&mut self.gid]);
        groups.filter(|group| **group == 0).for_each(|group| *group = gid);
        if self.uid == 0 {
            self.uid = uid;
        }
        self
    }

    pub(crate) fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// True if the caller is in a group; root is in every one.
    pub(crate) fn is_in(&self, gid: u32) -> bool {
        self.is_root() || self.gid == gid || self.groups.contains(&gid)
    }
}

/// True if the caller has all permissions in `wanted`. Root may do everything but execute files that nobody may execute.
pub(crate) fn may(caller: &Caller, file: &fattr3, wanted: u32) -> bool {
    if caller.is_root() {
        return wanted & EXECUTE == 0 || file.file_type == ftype3::NF3DIR || file.mode & 0o111 != 0;
    }
    Permissions::of(file).granted(caller) & wanted == wanted
}

/// The attributes of a file that permissions depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permissions {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Permissions {
    pub(crate) fn of(file: &fattr3) -> Self {
        Self { mode: file.mode, uid: file.uid, gid: file.gid }
    }

    /// Fails with `NFS3ERR_ACCES` unless the caller may READ the file. Its owner always may, since the mode may have changed after
    /// the file was opened; callers that may execute the file must be able to load it (RFC 1813 §4.4).
    #[inline]
    pub(crate) fn check_read(self, caller: &Caller) -> Result<(), nfsstat3> {
        self.check_transfer(caller, READ | EXECUTE)
    }

    /// Fails with `NFS3ERR_ACCES` unless the caller may WRITE the file. Its owner always may, since the mode may have changed after
    /// the file was opened (RFC 1813 §4.4).
    #[inline]
    pub(crate) fn check_write(self, caller: &Caller) -> Result<(), nfsstat3> {
        self.check_transfer(caller, WRITE)
    }

    /// Fails unless the caller owns the file, is root or has one of these permissions.
    #[inline]
    fn check_transfer(self, caller: &Caller, sufficient: u32) -> Result<(), nfsstat3> {
        let may = caller.uid == self.uid || caller.is_root() || self.granted(caller) & sufficient != 0;
        if may { Ok(()) } else { Err(nfsstat3::NFS3ERR_ACCES) }
    }

    /// The permissions of the first class that the caller belongs to: owner, group, others.
    fn granted(self, caller: &Caller) -> u32 {
        let shift = match () {
            () if caller.uid == self.uid => 6,
            () if caller.is_in(self.gid) => 3,
            () => 0,
        };
        self.mode >> shift & (READ | WRITE | EXECUTE)
    }
}

/// Fails with `NFS3ERR_ACCES` unless [`may`].
pub(crate) fn check(caller: &Caller, file: &fattr3, wanted: u32) -> Result<(), nfsstat3> {
    if may(caller, file, wanted) { Ok(()) } else { Err(nfsstat3::NFS3ERR_ACCES) }
}

/// The result of ACCESS (RFC 1813 §3.3.4): the bits of `asked` that are granted.
pub(crate) fn granted(caller: &Caller, file: &fattr3, asked: u32) -> u32 {
    let of_file = [(ACCESS3_READ, READ), (ACCESS3_MODIFY, WRITE), (ACCESS3_EXTEND, WRITE), (ACCESS3_EXECUTE, EXECUTE)];
    let of_directory = [
        (ACCESS3_READ, READ),
        (ACCESS3_LOOKUP, EXECUTE),
        (ACCESS3_MODIFY, WRITE),
        (ACCESS3_EXTEND, WRITE),
        (ACCESS3_DELETE, WRITE),
    ];
    let bits = if file.file_type == ftype3::NF3DIR { &of_directory[..] } else { &of_file[..] };
    let is_granted = |bit: u32, wanted: u32| {
        asked & bit != 0 && !(caller.rights.read_only && wanted == WRITE) && may(caller, file, wanted)
    };
    bits.iter().filter(|(bit, wanted)| is_granted(*bit, *wanted)).map(|(bit, _)| bit).sum()
}

/// Checks that the caller may remove `file` from `directory`. In a sticky directory only the owners of directory and file may.
pub(crate) fn check_removal(caller: &Caller, directory: &fattr3, file: &fattr3) -> Result<(), nfsstat3> {
    check(caller, directory, WRITE | EXECUTE)?;
    let owns = caller.is_root() || caller.uid == directory.uid || caller.uid == file.uid;
    if directory.mode & STICKY == 0 || owns { Ok(()) } else { Err(nfsstat3::NFS3ERR_PERM) }
}

/// Checks a SETATTR, and returns the attributes to set: a change of owner clears set-user-ID and set-group-ID.
pub(crate) fn check_setattr(caller: &Caller, file: &fattr3, new: &sattr3) -> Result<sattr3, nfsstat3> {
    let owns = caller.is_root() || caller.uid == file.uid;
    let is_other_owner = new.uid.is_some_and(|uid| uid != file.uid);
    let is_strange_group = new.gid.is_some_and(|gid| gid != file.gid && !caller.is_in(gid));
    let is_client_time = |time| matches!(time, set_time::SET_TO_CLIENT_TIME(_));
    let is_server_time = |time| matches!(time, set_time::SET_TO_SERVER_TIME(()));
    let needs_ownership = new.mode.is_some()
        || new.uid.is_some()
        || new.gid.is_some()
        || is_client_time(new.atime)
        || is_client_time(new.mtime);
    if needs_ownership && !owns || !caller.is_root() && (is_other_owner || is_strange_group) {
        return Err(nfsstat3::NFS3ERR_PERM);
    }
    let needs_writing = new.size.is_some() || is_server_time(new.atime) || is_server_time(new.mtime);
    if needs_writing && !owns {
        check(caller, file, WRITE)?;
    }
    Ok(sattr3 { mode: new_mode(caller, file, new), ..*new })
}

/// The mode after a SETATTR, if it changes.
fn new_mode(caller: &Caller, file: &fattr3, new: &sattr3) -> Option<u32> {
    let gid = new.gid.unwrap_or(file.gid);
    let asked = new.mode.map(|mode| allowed_mode(caller, file.file_type, mode));
    let asked = asked.map(|mode| if caller.is_in(gid) { mode } else { mode & !SET_GID });
    let changes_hands = file.file_type != ftype3::NF3DIR && (new.uid.is_some() || new.gid.is_some());
    let is_cut = file.file_type == ftype3::NF3REG && new.size.is_some() && !caller.is_root();
    if !changes_hands && !is_cut {
        return asked;
    }
    let mode = asked.unwrap_or(file.mode);
    let kept = without_privileges(mode);
    if kept == file.mode && new.mode.is_none() { None } else { Some(kept) }
}

/// A mode that a file may be given: without set-user-ID and set-group-ID unless the export allows them. Directories give no rights by
/// them, but pass on their group.
fn allowed_mode(caller: &Caller, file_type: ftype3, mode: u32) -> u32 {
    if caller.rights.suid || file_type == ftype3::NF3DIR { mode } else { mode & !(SET_UID | SET_GID) }
}

/// Checks that the caller may make a special file: a device takes root, and an export that allows devices.
pub(crate) fn check_special(caller: &Caller, file_type: ftype3) -> Result<(), nfsstat3> {
    let is_device = matches!(file_type, ftype3::NF3BLK | ftype3::NF3CHR);
    if is_device && !(caller.is_root() && caller.rights.dev) { Err(nfsstat3::NFS3ERR_PERM) } else { Ok(()) }
}

/// A mode without set-user-ID and, where the group may execute, set-group-ID (elsewhere it stands for mandatory locks).
pub(crate) fn without_privileges(mode: u32) -> u32 {
    if mode & GROUP_EXECUTE != 0 { mode & !(SET_UID | SET_GID) } else { mode & !SET_UID }
}

/// The owner of a new file in `directory`: a directory with set-group-ID passes on its group.
pub(crate) fn creator(caller: &Caller, directory: &fattr3) -> Caller {
    if directory.mode & SET_GID == 0 {
        return *caller;
    }
    Caller { rights: caller.rights, ..Caller::new(caller.uid, directory.gid) }
}

/// The attributes that a caller may give a new file of this type in `directory`. Only root gives files away.
pub(crate) fn initial(caller: &Caller, directory: &fattr3, file_type: ftype3, new: &sattr3) -> sattr3 {
    let mut new = *new;
    if !caller.is_root() {
        (new.uid, new.gid) = (None, None);
    }
    let inherits = directory.mode & SET_GID != 0;
    new.mode = new.mode.map(|mode| match (file_type, allowed_mode(caller, file_type, mode)) {
        (ftype3::NF3DIR, mode) if inherits => mode | SET_GID,
        (ftype3::NF3DIR, mode) => mode,
        (_, mode) if mode & GROUP_EXECUTE != 0 && inherits && !caller.is_in(directory.gid) => mode & !SET_GID,
        (_, mode) => mode,
    });
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use iocurve_wire::nfs3::{nfstime3, specdata3};

    const ROOT: Caller = Caller::new(0, 0);
    const OWNER: Caller = Caller::new(10, 100);
    const OTHER: Caller = Caller::new(11, 101);

    fn member() -> Caller {
        Caller::new(12, 102).with_groups(&[7, 100])
    }

    /// The caller of an export that allows set-user-ID and devices.
    const fn trusted(caller: Caller) -> Caller {
        Caller { rights: Rights { read_only: false, suid: true, dev: true }, ..caller }
    }

    fn file(file_type: ftype3, mode: u32) -> fattr3 {
        let (time, rdev) = (nfstime3::default(), specdata3::default());
        let (nlink, uid, gid) = (1, 10, 100);
        fattr3 {
            file_type,
            mode,
            nlink,
            uid,
            gid,
            size: 0,
            used: 0,
            rdev,
            fsid: 0,
            fileid: 1,
            atime: time,
            mtime: time,
            ctime: time,
        }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let odd = file(ftype3::NF3REG, 0o047);
        assert!(!may(&OWNER, &odd, READ), "the owner is no other");
        assert!(may(&member(), &odd, READ) && !may(&member(), &odd, WRITE));
        assert!(may(&OTHER, &odd, READ | WRITE | EXECUTE));
        assert!(may(&ROOT, &odd, READ | WRITE | EXECUTE));
        assert!(!may(&ROOT, &file(ftype3::NF3REG, 0o666), EXECUTE));
        assert!(may(&ROOT, &file(ftype3::NF3DIR, 0), EXECUTE));
    }

    #[test]
    fn data_are_for_owners_and_for_those_whom_the_mode_allows() {
        let refused = Err(nfsstat3::NFS3ERR_ACCES);
        let cases = [
            // mode, who, READ, WRITE
            (0o000, OWNER, Ok(()), Ok(())),
            (0o000, ROOT, Ok(()), Ok(())),
            (0o000, OTHER, refused, refused),
            (0o640, member(), Ok(()), refused),
            (0o604, member(), refused, refused),
            (0o602, OTHER, refused, Ok(())),
            (0o701, OTHER, Ok(()), refused),
            (0o710, member(), Ok(()), refused),
        ];
        for (mode, caller, read, write) in cases {
            let permissions = Permissions::of(&file(ftype3::NF3REG, mode));
            let checked = (permissions.check_read(&caller), permissions.check_write(&caller));
            assert_eq!(checked, (read, write), "{mode:o} {caller:?}");
        }
    }

    #[test]
    fn access_answers_what_was_asked() {
        let all = 0x3f;
        assert_eq!(granted(&OWNER, &file(ftype3::NF3REG, 0o640), all), ACCESS3_READ | ACCESS3_MODIFY | ACCESS3_EXTEND);
        assert_eq!(granted(&member(), &file(ftype3::NF3REG, 0o640), all), ACCESS3_READ);
        assert_eq!(granted(&OTHER, &file(ftype3::NF3REG, 0o640), all), 0);
        assert_eq!(granted(&OTHER, &file(ftype3::NF3DIR, 0o755), all), ACCESS3_READ | ACCESS3_LOOKUP);
        assert_eq!(granted(&OWNER, &file(ftype3::NF3DIR, 0o755), ACCESS3_DELETE), ACCESS3_DELETE);
    }

    #[test]
    fn only_owners_take_files_from_a_sticky_directory() {
        let shared = fattr3 { uid: 1, ..file(ftype3::NF3DIR, 0o1777) };
        let mine = file(ftype3::NF3REG, 0o644);
        assert_eq!(check_removal(&OWNER, &shared, &mine), Ok(()));
        assert_eq!(check_removal(&Caller::new(1, 1), &shared, &mine), Ok(()));
        assert_eq!(check_removal(&ROOT, &shared, &mine), Ok(()));
        assert_eq!(check_removal(&OTHER, &shared, &mine), Err(nfsstat3::NFS3ERR_PERM));
        assert_eq!(check_removal(&OTHER, &file(ftype3::NF3DIR, 0o755), &mine), Err(nfsstat3::NFS3ERR_ACCES));
    }

    #[test]
    fn attributes_are_set_by_owners() {
        let mine = file(ftype3::NF3REG, 0o646);
        let mode = sattr3 { mode: Some(0o600), ..sattr3::default() };
        let uid = sattr3 { uid: Some(11), ..sattr3::default() };
        let gid = |gid| sattr3 { gid: Some(gid), ..sattr3::default() };
        let now = sattr3 { mtime: set_time::SET_TO_SERVER_TIME(()), ..sattr3::default() };
        let then = sattr3 { mtime: set_time::SET_TO_CLIENT_TIME(nfstime3::default()), ..sattr3::default() };
        let set = |caller: &Caller, new: &sattr3| check_setattr(caller, &mine, new).map(drop);
        let refused = Err(nfsstat3::NFS3ERR_PERM);
        assert_eq!((set(&OWNER, &mode), set(&OTHER, &mode), set(&ROOT, &mode)), (Ok(()), refused, Ok(())));
        assert_eq!((set(&OWNER, &uid), set(&OTHER, &uid), set(&ROOT, &uid)), (refused, refused, Ok(())));
        assert_eq!((set(&OWNER, &gid(100)), set(&OWNER, &gid(5)), set(&ROOT, &gid(5))), (Ok(()), refused, Ok(())));
        assert_eq!(set(&Caller::new(10, 1).with_groups(&[5]), &gid(5)), Ok(()));
        assert_eq!((set(&OTHER, &now), set(&OTHER, &then)), (Ok(()), refused));
        assert_eq!(set(&member(), &now), Err(nfsstat3::NFS3ERR_ACCES));
    }

    #[test]
    fn privileges_do_not_outlive_a_change_of_owner() {
        let mode =
            |file: fattr3, caller: &Caller, new: sattr3| check_setattr(&trusted(*caller), &file, &new).unwrap().mode;
        let chown = sattr3 { uid: Some(11), ..sattr3::default() };
        let with_mode = sattr3 { mode: Some(0o6711), ..chown };
        assert_eq!(mode(file(ftype3::NF3REG, 0o6755), &ROOT, chown), Some(0o755));
        assert_eq!(mode(file(ftype3::NF3REG, 0o755), &ROOT, chown), None);
        assert_eq!(mode(file(ftype3::NF3REG, 0o6745), &ROOT, chown), Some(0o2745));
        assert_eq!(mode(file(ftype3::NF3DIR, 0o6755), &ROOT, chown), None);
        assert_eq!(mode(file(ftype3::NF3REG, 0o644), &ROOT, with_mode), Some(0o711));
        let chmod = sattr3 { mode: Some(0o2755), ..sattr3::default() };
        let strange = fattr3 { gid: 5, ..file(ftype3::NF3REG, 0o644) };
        assert_eq!(mode(strange, &OWNER, chmod), Some(0o755));
        assert_eq!(mode(strange, &ROOT, chmod), Some(0o2755));
    }

    #[test]
    fn new_files_take_the_group_of_a_directory_that_says_so() {
        let plain = file(ftype3::NF3DIR, 0o777);
        let handing_on = file(ftype3::NF3DIR, 0o2777);
        assert_eq!((creator(&OTHER, &plain).gid, creator(&OTHER, &handing_on).gid), (101, 100));
        let new = sattr3 { mode: Some(0o755), uid: Some(1), gid: Some(1), ..sattr3::default() };
        let made = initial(&OTHER, &handing_on, ftype3::NF3DIR, &new);
        assert_eq!((made.mode, made.uid, made.gid), (Some(0o2755), None, None));
        let made = initial(&ROOT, &plain, ftype3::NF3DIR, &new);
        assert_eq!((made.mode, made.uid, made.gid), (Some(0o755), Some(1), Some(1)));
        let privileged = sattr3 { mode: Some(0o2755), ..new };
        assert_eq!(initial(&trusted(OTHER), &handing_on, ftype3::NF3REG, &privileged).mode, Some(0o755));
        assert_eq!(initial(&trusted(member()), &handing_on, ftype3::NF3REG, &privileged).mode, Some(0o2755));
        assert_eq!(creator(&trusted(OTHER), &handing_on).rights, trusted(OTHER).rights);
    }

    #[test]
    fn privileges_are_given_only_where_the_export_allows_them() {
        let directory = file(ftype3::NF3DIR, 0o777);
        let asked = sattr3 { mode: Some(0o6755), ..sattr3::default() };
        let made = |caller: &Caller, file_type| initial(caller, &directory, file_type, &asked).mode;
        assert_eq!((made(&ROOT, ftype3::NF3REG), made(&OWNER, ftype3::NF3FIFO)), (Some(0o755), Some(0o755)));
        assert_eq!(made(&trusted(ROOT), ftype3::NF3REG), Some(0o6755));
        assert_eq!(made(&OWNER, ftype3::NF3DIR), Some(0o6755), "directories pass on their group by it");
        let set = |caller: &Caller, file: &fattr3| check_setattr(caller, file, &asked).unwrap().mode;
        assert_eq!(set(&OWNER, &file(ftype3::NF3REG, 0o644)), Some(0o755));
        assert_eq!(set(&trusted(OWNER), &file(ftype3::NF3REG, 0o644)), Some(0o6755));
        assert_eq!(set(&OWNER, &file(ftype3::NF3DIR, 0o755)), Some(0o6755));
    }

    #[test]
    fn devices_take_root_and_an_export_that_allows_them() {
        let refused = Err(nfsstat3::NFS3ERR_PERM);
        let made = |caller: &Caller| check_special(caller, ftype3::NF3CHR);
        assert_eq!((made(&ROOT), made(&trusted(OWNER)), made(&trusted(ROOT))), (refused, refused, Ok(())));
        assert_eq!(check_special(&OWNER, ftype3::NF3FIFO), Ok(()));
    }

    #[test]
    fn on_a_read_only_export_access_grants_no_change() {
        let all = 0x3f;
        let reader = Caller { rights: Rights { read_only: true, ..Rights::default() }, ..OWNER };
        assert_eq!(granted(&reader, &file(ftype3::NF3REG, 0o700), all), ACCESS3_READ | ACCESS3_EXECUTE);
        assert_eq!(granted(&reader, &file(ftype3::NF3DIR, 0o700), all), ACCESS3_READ | ACCESS3_LOOKUP);
    }

    #[test]
    fn root_gives_way_to_the_anonymous_user() {
        assert_eq!(ROOT.without_root(7, 8), Caller::new(7, 8));
        assert_eq!(OWNER.without_root(7, 8), OWNER);
    }
}
