use iocurve_wire::nfs3::createhow3;

use super::*;
use crate::store::Files;
use crate::store::directory::DirectoryStore;
use crate::store::handle::HandleKey;
use crate::store::memory::MemoryStore;

const BLOCK: u64 = 4096;

fn store(inner: Files, kind: FaultKind, rate: f64, log: Option<FaultLog>) -> FaultyStore<Files> {
    let faults = Faults { rates: vec![FaultRate { kind, rate }], seed: 7, log: None };
    FaultyStore::new(inner, "/vol".to_owned(), faults, log)
}

fn memory(kind: FaultKind, rate: f64) -> FaultyStore<Files> {
    store(Files::Memory(MemoryStore::new(*b"faulty-1", 1 << 30, 1 << 30).unwrap()), kind, rate, None)
}

fn create(store: &FaultyStore<Files>) -> nfs_fh3 {
    let what = Creation::File(createhow3::UNCHECKED(sattr3::default()));
    store.create(&OWN, store.root().as_bytes(), b"data", what).result.unwrap().handle
}

fn write(store: &FaultyStore<Files>, file: &nfs_fh3, offset: u64, data: &[u8]) -> Result<u64, nfsstat3> {
    store.write(&OWN, file.as_bytes(), offset, data, stable_how::UNSTABLE).map(|written| written.after.size)
}

fn read(store: &FaultyStore<Files>, file: &nfs_fh3, offset: u64, count: u32) -> Result<Vec<u8>, nfsstat3> {
    let _guard = crossbeam_epoch::pin();
    let mut batch = Batch::default();
    let read = store.read(&OWN, file.as_bytes(), offset, count, &mut batch)?;
    Ok(data_of(&mut batch, read.count))
}

/// The stored content, without faults of a READ.
fn stored(store: &FaultyStore<Files>, file: &nfs_fh3, offset: u64, length: usize) -> Vec<u8> {
    store.content(file.as_bytes(), offset, length).unwrap()
}

#[test]
fn a_read_with_a_flipped_bit_differs_in_that_bit_and_the_store_is_right() {
    let store = memory(FaultKind::FlipBit, 1e-4);
    let file = create(&store);
    let data = vec![0; 1 << 16];
    write(&store, &file, 0, &data).unwrap();
    let got = read(&store, &file, 0, 1 << 16).unwrap();
    let flipped: u32 = got.iter().map(|byte| byte.count_ones()).sum();
    // 52 are expected, with a standard deviation of 7.
    assert!((20..90).contains(&flipped), "{flipped}");
    assert_eq!(store.counts(), FaultStats { flip_bit: flipped.into(), ..FaultStats::default() });
    assert_eq!(stored(&store, &file, 0, 1 << 16), data);
}

#[test]
fn a_torn_write_ends_between_two_sectors() {
    let store = memory(FaultKind::TornWrite, 1.0);
    let file = create(&store);
    for number in 0..64 {
        assert_eq!(write(&store, &file, number * BLOCK, &[1; BLOCK as usize]), Ok((number + 1) * BLOCK));
        let got = stored(&store, &file, number * BLOCK, BLOCK as usize);
        let kept = got.iter().take_while(|byte| **byte == 1).count();
        assert!(kept % 512 == 0 && (512..4096).contains(&kept), "{kept}");
        assert!(got[kept..].iter().all(|byte| *byte == 0));
    }
    write(&store, &file, 0, &[2; 512]).unwrap();
    assert_eq!(stored(&store, &file, 0, 512), [2; 512], "one sector cannot be torn");
    assert_eq!(store.counts().torn_write, 64);
}

#[test]
fn a_lost_write_is_acknowledged_and_the_file_grows() {
    let store = memory(FaultKind::LostWrite, 1.0);
    let file = create(&store);
    assert_eq!(write(&store, &file, BLOCK, &[1; 4096]), Ok(2 * BLOCK));
    assert_eq!(read(&store, &file, 0, 8192).unwrap(), [0; 8192]);
    assert_eq!(store.counts().lost_write, 1);
    write(&store, &file, BLOCK, &[0; 4096]).unwrap();
    assert_eq!(store.counts().lost_write, 1, "zeros over zeros lose nothing");
}

#[test]
fn a_stale_read_has_the_content_before_the_newest_write() {
    let store = memory(FaultKind::StaleRead, 1.0);
    let file = create(&store);
    for version in 1..=3 {
        write(&store, &file, 0, &[version; 4096]).unwrap();
    }
    assert_eq!(read(&store, &file, 0, 4096).unwrap(), [2; 4096]);
    assert_eq!(read(&store, &file, 512, 1024).unwrap(), [2; 1024]);
    assert_eq!(stored(&store, &file, 0, 4096), [3; 4096]);
    assert_eq!(store.counts().stale_read, 2);
    assert_eq!(read(&store, &file, 4096, 512).unwrap(), [0; 0]);
}

#[test]
fn a_misdirected_write_is_elsewhere_in_the_file() {
    let store = memory(FaultKind::MisdirectedWrite, 1.0);
    let file = create(&store);
    assert_eq!(write(&store, &file, 0, &[9; 4096]), Ok(BLOCK), "there is no other place yet");
    for block in 1..8 {
        let before = stored(&store, &file, 0, (8 * BLOCK) as usize);
        assert_eq!(write(&store, &file, block * BLOCK, &[block as u8; 4096]), Ok((block + 1) * BLOCK));
        let after = stored(&store, &file, 0, (8 * BLOCK) as usize);
        let changed: Vec<_> = (0..8).filter(|at| before[at * 4096..][..4096] != after[at * 4096..][..4096]).collect();
        assert_eq!(changed.len(), 1);
        assert!(changed[0] != block as usize && after[changed[0] * 4096] == block as u8);
    }
    assert_eq!(store.counts().misdirected_write, 7);
}

#[test]
fn operations_fail_with_the_status_of_their_kind() {
    let (io, full) = (memory(FaultKind::Eio, 1.0), memory(FaultKind::Enospc, 1.0));
    let (file, other) = (create(&io), create(&full));
    assert_eq!(write(&io, &file, 0, &[1; 512]), Err(nfsstat3::NFS3ERR_IO));
    assert_eq!(read(&io, &file, 0, 512), Err(nfsstat3::NFS3ERR_IO));
    assert_eq!(write(&full, &other, 0, &[1; 512]), Err(nfsstat3::NFS3ERR_NOSPC));
    assert_eq!(read(&full, &other, 0, 512), Ok(Vec::new()));
    assert_eq!((io.counts().eio, full.counts().enospc), (2, 1));
}

#[test]
fn both_stores_have_the_same_faults_and_the_log_names_them() {
    let directory = tempfile::tempdir().unwrap();
    let key = HandleKey::new(*b"the key of tests");
    let [first, second] = [0, 1].map(|number| {
        let path = directory.path().join(format!("log{number}"));
        let log = Some(FaultLog::create(&path).unwrap());
        let inner = if number == 0 {
            Files::Memory(MemoryStore::new(*b"faulty-1", 1 << 30, 1 << 30).unwrap())
        } else {
            let place = directory.path().join("files");
            std::fs::create_dir(&place).unwrap();
            Files::Directory(DirectoryStore::open(&place, 1 << 30, key, true).unwrap())
        };
        let store = store(inner, FaultKind::LostWrite, 0.1, log);
        let file = create(&store);
        for version in 1..=4 {
            for block in 0..16 {
                write(&store, &file, block * BLOCK, &[version; 4096]).unwrap();
            }
        }
        assert!(FaultLog::create(&path).is_err(), "a file that is there is kept");
        std::fs::read_to_string(path).unwrap()
    });
    assert_eq!(first, second);
    let records: Vec<serde_json::Value> = first.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!records.is_empty());
    for record in records {
        let number = |field: &str| record[field].as_u64().unwrap();
        assert_eq!(record["file"], "data");
        assert_eq!((record["fault"].as_str(), record["operation"].as_str()), (Some("lost-write"), Some("WRITE")));
        assert_eq!((number("length"), number("offset") % BLOCK), (BLOCK, 0));
        assert_eq!(number("write"), (number("generation") - 1) * 16 + number("offset") / BLOCK + 1);
        assert!(number("found_generation") < number("generation"));
    }
}

#[test]
fn data_that_arrive_in_pieces_are_hit_as_well() {
    let store = memory(FaultKind::LostWrite, 1.0);
    let file = create(&store);
    let mut buffer = store.begin_write(&OWN, file.as_bytes(), 0, 1 << 18).unwrap();
    buffer.copy_from(&vec![5; 1 << 18]);
    assert_eq!(store.finish_write(buffer, stable_how::UNSTABLE).unwrap().after.size, 1 << 18);
    assert_eq!(stored(&store, &file, 0, 1 << 18), vec![0; 1 << 18]);
}
