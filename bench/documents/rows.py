"""The statements and methods of the documents, in their order."""

from __future__ import annotations

from bench.documents.shown import (
    Show,
    advice,
    by_mix,
    changed,
    counted,
    finding,
    gains,
    latencies,
    of_clients,
    printed,
    rate,
    series,
    stated,
)

Row = tuple[str, str, str, Show]
"""Heading, statement, command, and what shows it."""
IN_FLIGHT = r"in flight +(.*)\n +engine +(.*)"
MANY = "more than 300,000 IOPS × 0.1"
TOTAL = r"^total:[^|]*\|[^|]*\|[^|]*\| +([\d.]+)"
NO_METADATA = (
    "noticeable benefits (no value); the embedded volume has no limit of such operations, nor that parallelism"
)
ACCEPTED = "planned unmodified; tests/test_documents.py runs it smaller"
SCRIPT = "planned unmodified; tests/test_documents.py runs it smaller"
IOPS, THROUGHPUT, NCONNECT = "anf-regular-iops", "anf-regular-throughput", "anf-nconnect"
OUT, UP = "anf-large-scale-out", "anf-large-scale-up"
FILES, CLIENTS = "azure-files-nconnect", "azure-files-clients"

A: tuple[Row, ...] = (
    ("4 KiB random, caching", "about 460,000 reads per second", IOPS, stated("random-4k-cached", "IOPS", "read")),
    ("4 KiB random, caching", "about 130,000 writes per second", IOPS, stated("random-4k-cached", "IOPS", "write")),
    ("4 KiB random, caching", "IOPS fall as writes rise", IOPS, by_mix("random-4k-cached", "falls (chart)")),
    ("4 KiB random, no caching", "about 388,000 reads per second", IOPS, stated("random-4k", "IOPS", "read")),
    ("4 KiB random, no caching", "about 120,000 writes per second", IOPS, stated("random-4k", "IOPS", "write")),
    ("4 KiB random, no caching", "IOPS fall as writes rise", IOPS, by_mix("random-4k", "falls (chart)")),
    ("8 KiB random, no caching", "about 293,000 reads per second", IOPS, stated("random-8k", "IOPS", "read")),
    ("8 KiB random, no caching", "about 111,000 writes per second", IOPS, stated("random-8k", "IOPS", "write")),
    ("8 KiB random, no caching", "IOPS fall as writes rise", IOPS, by_mix("random-8k", "falls (chart)")),
    (
        "side by side",
        "caching adds a little: without it reads −17 %, writes −8 %",
        IOPS,
        gains("random-4k", "0.84 × reads, 0.92 × writes; fitted: a server cache"),
    ),
    ("64 KiB, caching", "about 4,500 MiB/s of reads", THROUGHPUT, stated("sequential-64k-cached", "MiB/s", "read")),
    ("64 KiB, caching", "about 1,600 MiB/s of writes", THROUGHPUT, stated("sequential-64k-cached", "MiB/s", "write")),
    ("64 KiB, no caching", "about 3,600 MiB/s of reads", THROUGHPUT, stated("sequential-64k", "MiB/s", "read")),
    ("64 KiB, no caching", "about 2,400 MiB/s of writes", THROUGHPUT, stated("sequential-64k", "MiB/s", "write")),
    (
        "64 KiB, no caching",
        "50:50 has the total of pure reads",
        THROUGHPUT,
        stated("sequential-64k", "MiB/s", "total", read_percent=50),
    ),
    ("256 KiB, no caching", "about 3,500 MiB/s of reads", THROUGHPUT, stated("sequential-256k", "MiB/s", "read")),
    ("256 KiB, no caching", "about 2,500 MiB/s of writes", THROUGHPUT, stated("sequential-256k", "MiB/s", "write")),
    (
        "256 KiB, no caching",
        "50:50 is above pure reads",
        THROUGHPUT,
        by_mix(
            "sequential-256k",
            "50:50 above pure reads (chart); fitted: a limit of operations, and one of reads",
        ),
    ),
    (
        "64 and 256 KiB",
        "64 KiB is ahead for pure reads, 256 KiB for writes and mixes",
        THROUGHPUT,
        gains("sequential-256k", "0.97 × reads, 1.04 × writes; mixes ahead. No limit of a volume knows the block size"),
    ),
    (
        "cache comparison",
        "64 KiB reads 4,500 MiB/s with caching, 3,600 without",
        THROUGHPUT,
        gains(
            "sequential-64k",
            "0.80 × reads; fitted: a server cache. Writes are not: the page has 1,600 MiB/s with it, 2,400 without",
        ),
    ),
    (
        "nconnect, 4 KiB",
        "more reads per second with nconnect (2020: about 200,000)",
        NCONNECT,
        stated("random-4k-read", "IOPS"),
    ),
    ("nconnect, 4 KiB", "reads: gain (2020: 3 ×)", NCONNECT, stated("random-4k-read", "×")),
    ("nconnect, 4 KiB", "writes per second (2020: about 135,000)", NCONNECT, stated("random-4k-write", "IOPS")),
    ("nconnect, 4 KiB", "writes: gain (2020: 3 ×)", NCONNECT, stated("random-4k-write", "×")),
    (
        "nconnect, 4 KiB",
        "lower latency with nconnect, depth 256",
        NCONNECT,
        latencies("random-4k-read", "lower (chart)", depth=256),
    ),
    ("nconnect, 64 KiB", "reads (2020: about 3,500 MiB/s)", NCONNECT, stated("sequential-64k-read", "MiB/s")),
    ("nconnect, 64 KiB", "reads: gain (2020: 2.3 ×)", NCONNECT, stated("sequential-64k-read", "×")),
    ("nconnect, 64 KiB", "writes: no gain (2020)", NCONNECT, stated("sequential-64k-write", "×")),
)
B: tuple[Row, ...] = (
    ("tests", "8 KiB random read: more than 300,000 IOPS", "anf-vdbench", stated("random-read-8k", "IOPS")),
    ("tests", "8 KiB random write", "anf-vdbench", rate("random-write-8k")),
    ("tests", "64 KiB sequential read: 4,500 MiB/s", "anf-vdbench", stated("sequential-read-64k", "MiB/s")),
    ("tests", "64 KiB sequential write", "anf-vdbench", rate("sequential-write-64k")),
    ("tests", "64 KiB sequential, 50 % reads", "anf-vdbench", rate("sequential-mix-64k")),
    ("tests", "8 KiB random, 50 % reads", "anf-vdbench", rate("random-mix-8k")),
    (
        "bandwidth",
        "70.31 TiB at the Premium level give 4,500 MiB/s",
        "size-premium",
        printed(r"carries ([\d,]+ MiB/s)", "4,500 MiB/s", "1.00"),
    ),
    (
        "latency",
        "distance raises latency, and lowers IOPS at the same depth",
        "anf-vdbench",
        gains("latency-8k", "lower (chart)", target="far"),
    ),
    (
        "latency",
        "either set of clients exceeds 300,000 reads per second: the distant one",
        "anf-vdbench",
        rate("latency-8k", f"{MANY}", target="far", depth=768),
    ),
    (
        "summary",
        "response times below 1 ms with more than 300,000 IOPS",
        "max-1ms",
        finding("highest rate", f"{MANY}; 1 ms is 10 ms at this speed", 0.1, 300_000),
    ),
    (
        "latency",
        "response curve near the volume",
        "curve",
        finding("capacity", MANY, 0.1, 300_000),
    ),
    (
        "script",
        "TCP windows grow with the round trip: rmem_max, tcp_rmem",
        "doctor-windows",
        printed(r"^(red +TCP windows.*)$", "too small for a round trip of 4 ms; a composed machine"),
    ),
    (
        "script",
        "24 hosts of six files each, RndRead, 25 threads for each file: 24 load clients on one machine",
        "vdbench-24-clients",
        of_clients("more than 300,000 IOPS × 0.02; the clients share six files", 6000),
    ),
    (
        "script",
        "Little's law: threads = latency × IOPS; its example says 4.0",
        "size-littles-law",
        printed(r"in flight = (.*)$", "0.0013 s × 5,000/s = 6.5 (the page's 4.0 is an error)"),
    ),
    *(
        (
            "script",
            f"parameter file {pattern}",
            f"vdbench-{pattern}",
            printed(r"\A(.*)\n", SCRIPT),
        )
        for pattern in ("FillWrite", "SeqRead", "SeqWrite", "RndRead", "RndWrite", "SeqMix", "RndMix")
    ),
)
Ranges = dict[str, tuple[str, float | None, float]]
READS: Ranges = dict.fromkeys(("4k", "8k", "64k", "1024k"), ("2 to 4 ×", 2.0, 4.0))
WRITES: Ranges = dict.fromkeys(("4k", "8k"), ("no value for this size", None, 0.0))
WRITES |= dict.fromkeys(("64k", "1024k"), ("3 ×", 3.0, 3.0))
C: tuple[Row, ...] = (
    (
        "read-ahead",
        "read_ahead_kb 15,360 on kernels from 5.4",
        "doctor",
        printed(r"^(red +read-ahead.*)$", "128 KiB is too little; the udev rule is in --fix"),
    ),
    (
        "table",
        "writes of 64 KiB: 3 ×",
        FILES,
        stated("nconnect", "×", on="write", block_bytes=65536),
    ),
    ("table", "writes of 1 MiB: 3 ×", FILES, stated("nconnect", "×", on="write", block_bytes=1048576)),
    ("table", "reads of 64 KiB: 2 to 4 ×", FILES, stated("nconnect", "×", on="read", block_bytes=65536)),
    ("table", "reads of 1 MiB: 2 to 4 ×", FILES, stated("nconnect", "×", on="read", block_bytes=1048576)),
    ("table", "reads of 4 KiB: 2 to 4 ×", FILES, stated("connections", "×")),
    (
        "nconnect=4",
        "more than 4 connections gain nothing more, and can cost",
        FILES,
        gains("connections", "4 is best; congestion of the network is not emulated"),
    ),
    ("benefits", "about 20 clients reach 10 GiB/s without nconnect", CLIENTS, stated("clients", "MiB/s", nconnect=1)),
    ("benefits", "6 or 7 clients reach 10 GiB/s with nconnect", CLIENTS, stated("clients", "MiB/s", nconnect=4)),
    (
        "mounts",
        "case 1: each storage account behind its private endpoint has its own nconnect",
        "doctor-case-1",
        printed(r"^(green +shared connections +/mnt/b.*)$", "supported; a composed machine"),
    ),
    (
        "mounts",
        "case 3: several shares of one account behind a private endpoint have one nconnect",
        "doctor-case-3",
        printed(r"^(green +shared connections +/mnt/b.*)$", "supported; a composed machine"),
    ),
    (
        "requirements",
        "nconnect needs kernel 5.3",
        "doctor-old-kernel",
        printed(r"^(yellow +connections.*)$", "a composed machine with kernel 4.18"),
    ),
    (
        "queue depth",
        "at most 64 requests in flight",
        "doctor-depth",
        printed(r"^(yellow +queue depth.*)$", "more gain nothing; a composed machine"),
    ),
    (
        "mounts",
        "mounts of one address share the connections of the first",
        "doctor-shared",
        printed(r"^(red +shared connections.*)$", "shared (case 2), named by the doctor"),
    ),
    *(
        (
            "commands",
            f"{kind} {block}, depth 64",
            f"fio-{kind}-{block}",
            printed(IN_FLIGHT, ACCEPTED),
        )
        for kind in ("randread", "randwrite")
        for block in ("4k", "8k", "64k", "1024k")
    ),
    *(
        (
            "commands",
            f"{kind} {block}, depth 64, run with small files for 1 s: nconnect=4 over 1",
            f"fio-{kind}-{block}-small",
            changed(said, low, high),
        )
        for kind, sizes in (("randread", READS), ("randwrite", WRITES))
        for block, (said, low, high) in sizes.items()
    ),
    (
        "considerations",
        "a single thread at a depth below 16 gains nothing: table of green, yellow and red",
        FILES,
        advice("depth below 16: yellow or red (image)"),
    ),
)
D: tuple[Row, ...] = (
    *(
        (
            "summary",
            f"{level} level: {figure} MiB/s",
            f"size-large-{level.lower()}",
            printed(r"carries ([\d,]+ MiB/s)", f"{figure} MiB/s", "1.00"),
        )
        for level, figure in (("Ultra", "12,800"), ("Premium", "6,400"), ("Standard", "1,600"))
    ),
    *(
        ("summary", f"many files are created, removed and renamed: {name}, {of}", name, series(of, NO_METADATA))
        for name, of in (("vcs", "checkout"), ("vcs", "branch-switch"), ("eda", "frontend"))
    ),
    ("tests", "rsize of 65536 and 262144: similar", "rsize", changed("similar: 1 ×", 1.0, 1.0)),
    ("tests", "wsize of 65536 and 262144: similar", "wsize", changed("similar: 1 ×", 1.0, 1.0)),
    ("scale-out", "12,761 MiB/s of 256 KiB sequential reads", OUT, stated("sequential-256k", "MiB/s", "read")),
    ("scale-out", "about 8,518 MiB/s of 256 KiB sequential writes", OUT, stated("sequential-256k", "MiB/s", "write")),
    ("scale-out", "about 709,000 8 KiB random reads per second", OUT, stated("random-8k", "IOPS", "read")),
    ("scale-out", "about 474,000 8 KiB random writes per second", OUT, stated("random-8k", "IOPS", "write")),
    (
        "scale-up",
        "about 10,000 MiB/s of reads",
        UP,
        stated("sequential-256k", "MiB/s", on="read", nconnect=16),
    ),
    ("scale-up", "reads: 10 ×", UP, stated("sequential-256k", "×", on="read")),
    ("scale-up", "6,600 MiB/s of writes", UP, stated("sequential-256k", "MiB/s", on="write", nconnect=16)),
    ("scale-up", "writes: 4 ×", UP, stated("sequential-256k", "×", on="write")),
    ("scale-up", "about 426,000 reads per second", UP, stated("random-8k", "IOPS", on="read", nconnect=16)),
    ("scale-up", "reads: 7 ×", UP, stated("random-8k", "×", on="read")),
    ("scale-up", "about 405,000 writes per second", UP, stated("random-8k", "IOPS", on="write", nconnect=16)),
    ("scale-up", "writes: 7.2 ×", UP, stated("random-8k", "×", on="write")),
)
E: tuple[Row, ...] = (
    ("DiskSpd", "the write command", "diskspd-writes", printed(IN_FLIGHT, ACCEPTED)),
    ("DiskSpd", "13,052.65 write IOPS; the limit is 12,800", "azure-disk", stated("max-write-iops", "IOPS")),
    ("DiskSpd", "the read command", "diskspd-reads", printed(IN_FLIGHT, ACCEPTED)),
    ("DiskSpd", "78,521.23 read IOPS; the limit is 77,000", "azure-disk", stated("max-read-iops", "IOPS")),
    (
        "DiskSpd",
        "the write command, run with a file of 8 MiB for 3 s: 13,052.65 IOPS",
        "diskspd-writes-small",
        counted(TOTAL, "13,053 IOPS × 0.1; a limit of 12,800 IOPS", "IOPS", 1305.265),
    ),
    (
        "DiskSpd",
        "the read command, run with a file of 8 MiB for 3 s: 78,521.23 IOPS",
        "diskspd-reads-small",
        counted(TOTAL, "78,521 IOPS × 0.1; a limit of 77,000 IOPS", "IOPS", 7852.123),
    ),
    ("DiskSpd", "maximum throughput with 64 KiB: writes", "azure-disk", rate("max-write-throughput", "no value")),
    ("DiskSpd", "maximum throughput with 64 KiB: reads", "azure-disk", rate("max-read-throughput", "no value")),
    ("fio", "job file fiowrite.ini", "fio-fiowrite", printed(IN_FLIGHT, ACCEPTED)),
    ("fio", "13,100 write IOPS", "azure-disk", stated("max-write-iops-4k", "IOPS")),
    ("fio", "job file fioread.ini", "fio-fioread", printed(IN_FLIGHT, ACCEPTED)),
    ("fio", "78,600 read IOPS", "azure-disk", stated("max-read-iops", "IOPS", number=1)),
    ("fio", "job file fioreadwrite.ini", "fio-fioreadwrite", printed(IN_FLIGHT, ACCEPTED)),
    ("fio", "78,300 reads per second with concurrent writes", "azure-disk", stated("combined-iops", "IOPS", "read")),
    ("fio", "12,600 writes per second with concurrent reads", "azure-disk", stated("combined-iops", "IOPS", "write")),
    ("fio", "maximum combined throughput with 64 KiB", "azure-disk", rate("max-throughput", "no value")),
)
DOCUMENTS: tuple[tuple[str, tuple[Row, ...]], ...] = (
    ("Regular volumes, Linux", A),
    ("vdbench, 2019", B),
    ("NFS Azure file shares", C),
    ("Large volumes, Linux", D),
    ("Benchmark a disk", E),
)
