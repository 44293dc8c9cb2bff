"""The kinds of servers whose limits iocurve has to name, as policies of the stub server.

A kind draws everything that its name leaves open: rates, bursts, distributions, depth, block size, connections, and
often a second limit that is too far above to bind. A new kind is a function here; nothing else knows it. The right
names come from what the server does and what a client could find out, not from how iocurve finds it:

- a cap on operations, by whatever mechanism, is an IOPS limit; a cap on bytes is a throughput limit; of reads,
  writes, a client or a connection, if it counts only these;
- stations that each work on one request at a time are the server's speed;
- a delay that everyone has at the same time is latency, so that the depth holds the load down.
"""

from __future__ import annotations

import random

from bench.limits.case import Case, Load, kind, logarithmic, service

IOPS = frozenset({"volume_iops"})
BYTES = frozenset({"volume_throughput"})
SPEED = frozenset({"server_parallelism"})
DEPTH = frozenset({"depth"})


def _latency(draw: random.Random, low_us: float = 80, high_us: float = 500) -> tuple[str, float]:
    shape, mean_s = service(draw, low_us, high_us)
    return f"delay,service={shape}", mean_s


def waiting_depth(draw: random.Random, per_s: float, latency_s: float, times: float = 4) -> int:
    """Draws a depth at which most requests wait at a limit of ``per_s`` operations per second."""
    least = times * per_s * latency_s
    return draw.choice([depth for depth in (8, 12, 16, 24, 32, 48, 64, 96) if depth >= least] or [128])


def capped(draw: random.Random, policy: str, right: frozenset[str] = IOPS, read_percent: int | None = None) -> Case:
    """A cap on operations behind some latency; ``policy`` has a place for the rate."""
    rate = logarithmic(draw, 500, 4000)
    latency, mean_s = _latency(draw)
    limits = [latency, policy.format(rate=rate)]
    block_kib = draw.choice((4, 4, 8, 16))
    if draw.random() < 0.3:
        limits.append(f"bucket,unit=b,rate={rate * block_kib * 1024 * draw.uniform(3, 8):.0f},burst=4194304")
    depth = waiting_depth(draw, rate, mean_s)
    workers = draw.choice((1, 1, 2))
    percent = draw.choice((100, 100, 100, 70, 50, 0)) if read_percent is None else read_percent
    load = Load(depth // workers, block_kib, read_percent=percent, workers=workers, connections=draw.choice((1, 1, 2)))
    return Case(tuple(limits), (1,), right, load)


def _capped_bytes(
    draw: random.Random, policy: str, right: frozenset[str] = BYTES, read_percent: int | None = None
) -> Case:
    """A cap on bytes behind some latency; ``policy`` has places for the rate and the burst."""
    rate = logarithmic(draw, 20, 70) * 2**20
    block_kib = draw.choice((16, 32, 64))
    per_s = rate / block_kib / 1024
    latency, mean_s = _latency(draw)
    burst = block_kib * 1024 * logarithmic(draw, 1, 64)
    limits = [latency, policy.format(rate=f"{rate:.0f}", burst=f"{burst:.0f}")]
    if draw.random() < 0.3:
        limits.append(f"bucket,rate={per_s * draw.uniform(3, 8):.0f},burst=100")
    percent = draw.choice((100, 100, 70, 0)) if read_percent is None else read_percent
    load = Load(waiting_depth(draw, per_s, mean_s), block_kib, read_percent=percent, connections=draw.choice((1, 1, 2)))
    return Case(tuple(limits), (1,), right, load)


# Caps on operations.


@kind("a cap on operations, paced: no two start closer together than the rate allows")
def cap_paced(draw: random.Random) -> Case:
    return capped(draw, "bucket,rate={rate},burst=1")


@kind("a cap on operations: token bucket of 2 to 20")
def cap_burst_to_20(draw: random.Random) -> Case:
    return capped(draw, f"bucket,rate={{rate}},burst={draw.randint(2, 20)}")


@kind("a cap on operations: token bucket of 20 to 300")
def cap_burst_to_300(draw: random.Random) -> Case:
    return capped(draw, f"bucket,rate={{rate}},burst={logarithmic(draw, 20, 300):.0f}")


@kind("a cap on operations: token bucket of 300 to 3,000, which the load's ramp empties")
def cap_burst_to_3000(draw: random.Random) -> Case:
    rate = logarithmic(draw, 500, 1500)
    limits = ("delay,service=constant:1000", f"bucket,rate={rate},burst={logarithmic(draw, 300, 3000):.0f}")
    return Case(limits, (1,), IOPS, Load(depth=16, ramp_s=0.5))


@kind("a cap on operations: as many in each window of 1 to 20 ms of the server's clock")
def cap_by_windows_to_20_ms(draw: random.Random) -> Case:
    return capped(draw, f"window,rate={{rate}},period_ms={logarithmic(draw, 2, 20)}")


@kind("a cap on operations: as many in each window of 20 ms to 1 s")
def cap_by_windows_to_1_s(draw: random.Random) -> Case:
    return capped(draw, f"window,rate={{rate}},period_ms={logarithmic(draw, 20, 1000)}")


@kind("a cap on operations: as many in any 5 to 500 ms (a sliding window)")
def cap_by_sliding_window(draw: random.Random) -> Case:
    return capped(draw, f"sliding,rate={{rate}},period_ms={logarithmic(draw, 5, 500)}")


@kind("a cap on operations: a smoothed rate (time constant 2 to 200 ms) may not exceed it")
def cap_on_smoothed_rate(draw: random.Random) -> Case:
    return capped(draw, f"smooth,rate={{rate}},period_ms={logarithmic(draw, 2, 200)}")


@kind("a cap on operations whose rate grows and falls by a quarter (AIMD)")
def cap_that_adapts(draw: random.Random) -> Case:
    return capped(draw, f"adaptive,rate={{rate}},period_ms={logarithmic(draw, 10, 100)}")


@kind("a cap on operations of which a write counts as two to four; of writes alone it may be called a cap on writes")
def cap_where_writes_cost_more(draw: random.Random) -> Case:
    percent = draw.choice((100, 0, 50))
    right = IOPS | {"volume_write_iops"} if percent == 0 else IOPS
    return capped(draw, f"bucket,rate={{rate}},burst=10,write_cost={draw.randint(2, 4)}", right, percent)


@kind("a cap on reads alone")
def cap_on_reads(draw: random.Random) -> Case:
    policy = f"bucket,of=r,rate={{rate}},burst={logarithmic(draw, 1, 200):.0f}"
    return capped(draw, policy, frozenset({"volume_read_iops"}), read_percent=100)


@kind("a cap on writes alone")
def cap_on_writes(draw: random.Random) -> Case:
    policy = f"bucket,of=w,rate={{rate}},burst={logarithmic(draw, 1, 200):.0f}"
    return capped(draw, policy, frozenset({"volume_write_iops"}), read_percent=0)


# Caps on bytes.


@kind("a cap on bytes: token bucket of 1 to 64 blocks")
def byte_cap(draw: random.Random) -> Case:
    return _capped_bytes(draw, "bucket,unit=b,rate={rate},burst={burst}")


@kind("a cap on bytes in each window of 2 to 200 ms")
def byte_cap_by_windows(draw: random.Random) -> Case:
    return _capped_bytes(draw, f"window,unit=b,rate={{rate}},period_ms={logarithmic(draw, 2, 200)}")


@kind("a cap on a smoothed rate of bytes")
def byte_cap_on_smoothed_rate(draw: random.Random) -> Case:
    return _capped_bytes(draw, f"smooth,unit=b,rate={{rate}},period_ms={logarithmic(draw, 5, 200)}")


@kind("a cap on the bytes of reads alone")
def byte_cap_on_reads(draw: random.Random) -> Case:
    right = frozenset({"volume_read_throughput"})
    return _capped_bytes(draw, "bucket,unit=b,of=r,rate={rate},burst={burst}", right, read_percent=100)


@kind("a cap on the bytes of writes alone")
def byte_cap_on_writes(draw: random.Random) -> Case:
    right = frozenset({"volume_write_throughput"})
    return _capped_bytes(draw, "bucket,unit=b,of=w,rate={rate},burst={burst}", right, read_percent=0)


@kind("one station whose time is proportional to the bytes, as a link's: a throughput limit, or the server's speed")
def one_link(draw: random.Random) -> Case:
    rate = logarithmic(draw, 20, 70) * 2**20
    block_kib = draw.choice((16, 32, 64))
    latency, mean_s = _latency(draw)
    link = f"stations,count=1,us_per_kib={1024e6 / rate:.3f}"
    depth = waiting_depth(draw, rate / block_kib / 1024, mean_s)
    return Case((latency, link), (1,), BYTES | SPEED, Load(depth, block_kib))


# Caps of a connection or a client.


@kind("a cap on the operations of a connection; also right: its requests in flight, as both ask for more connections")
def cap_of_a_connection(draw: random.Random) -> Case:
    right = frozenset({"connection_iops", "connection_requests"})
    case = capped(draw, f"bucket,per=c,rate={{rate}},burst={logarithmic(draw, 1, 100):.0f}", right, 100)
    return Case(case.limits, case.binding, right, Load(case.load.in_flight, case.load.block_kib))


@kind("a cap on the bytes of a connection")
def byte_cap_of_a_connection(draw: random.Random) -> Case:
    right = frozenset({"connection_throughput"})
    case = _capped_bytes(draw, "bucket,unit=b,per=c,rate={rate},burst={burst}", right, 100)
    return Case(case.limits, case.binding, right, Load(case.load.depth, case.load.block_kib))


@kind("a cap on the operations of a client's address")
def cap_of_a_client(draw: random.Random) -> Case:
    policy = f"bucket,per=a,rate={{rate}},burst={logarithmic(draw, 1, 100):.0f}"
    return capped(draw, policy, frozenset({"client_iops"}), draw.choice((100, 0)))


@kind("a cap on the bytes that a client's address reads")
def byte_cap_of_a_clients_reads(draw: random.Random) -> Case:
    policy = "bucket,unit=b,of=r,per=a,rate={rate},burst={burst}"
    return _capped_bytes(draw, policy, frozenset({"client_read"}), 100)


@kind("a cap on the bytes that a client's address writes")
def byte_cap_of_a_clients_writes(draw: random.Random) -> Case:
    policy = "bucket,unit=b,of=w,per=a,rate={rate},burst={burst}"
    return _capped_bytes(draw, policy, frozenset({"client_egress"}), 0)


@kind("a server works on 2 to 8 requests of a connection at once, each for a constant or random time")
def requests_of_a_connection(draw: random.Random) -> Case:
    count = draw.randint(2, 8)
    shape, _ = service(draw, 1000 * count / 3, 1000 * count, "cel")
    load = Load(depth=count * draw.choice((4, 6, 8)), read_percent=draw.choice((100, 100, 0)))
    limits = (f"in_flight,per=c,count={count}", f"delay,service={shape}")
    return Case(limits, (0,), frozenset({"connection_requests"}), load)


# The server's speed.


def _stations(draw: random.Random, shapes: str, extra: str = "", counts: tuple[int, int] = (1, 8)) -> Case:
    count, per_s = draw.randint(*counts), logarithmic(draw, 500, 3000)
    shape, _ = service(draw, count / per_s * 1e6, count / per_s * 1e6 * 1.001, shapes)
    load = Load(max(8, count * draw.choice((4, 6, 8))), draw.choice((4, 8)), draw.choice((1, 2)), draw.choice((100, 0)))
    return Case((f"stations,count={count},service={shape}{extra}",), (0,), SPEED, load)


@kind("2 to 8 stations, constant service time")
def stations_constant(draw: random.Random) -> Case:
    return _stations(draw, "c", counts=(2, 8))


@kind("one station, constant service time: it differs from a paced cap only in its latency at low load")
def one_station_constant(draw: random.Random) -> Case:
    return _stations(draw, "c", counts=(1, 1))


@kind("1 to 8 stations, exponential service time")
def stations_exponential(draw: random.Random) -> Case:
    return _stations(draw, "e")


@kind("1 to 8 stations, lognormal or bimodal service time")
def stations_lognormal_or_bimodal(draw: random.Random) -> Case:
    return _stations(draw, "lb")


@kind("1 to 8 stations, Pareto service time")
def stations_with_a_heavy_tail(draw: random.Random) -> Case:
    return _stations(draw, "p")


@kind("1 to 8 stations whose time has a part for each KiB")
def stations_with_time_for_bytes(draw: random.Random) -> Case:
    return _stations(draw, "ce", f",us_per_kib={draw.uniform(10, 60):.1f}")


@kind("1 to 8 stations that pause for 5 to 15 % of the time")
def stations_that_pause(draw: random.Random) -> Case:
    case, period = _stations(draw, "cel"), draw.uniform(60, 300)
    pauses = f"pauses,period_ms={period:.0f},pause_ms={period * draw.uniform(0.05, 0.15):.0f}"
    return Case((pauses, *case.limits), (1,), SPEED, case.load)


@kind("1 to 8 stations that become slower by 30 to 60 % in mid-run")
def stations_that_slow_down(draw: random.Random) -> Case:
    # Each has a cost of one, so that what they have granted is a number of operations.
    return _stations(draw, "ce", f",after={draw.randint(300, 900)},factor={draw.uniform(0.4, 0.7):.2f}")


@kind("requests for one file are served one after the other; to this load the server works on one at a time")
def lock_of_a_file(draw: random.Random) -> Case:
    shape, _ = service(draw, 300, 1500, "cel")
    return Case((f"stations,count=1,per=f,service={shape}",), (0,), SPEED, Load(draw.choice((8, 16, 32))))


# Latency.


def _delayed(draw: random.Random, shapes: str, *more: str) -> Case:
    depth = draw.choice((1, 2, 4, 6))
    shape, _ = service(draw, depth * 400, depth * 2000, shapes)
    load = Load(depth, draw.choice((4, 8, 16)), 1, draw.choice((100, 100, 0)))
    return Case((f"delay,service={shape}", *more), (0,), DEPTH, load)


@kind("a constant latency")
def latency_constant(draw: random.Random) -> Case:
    return _delayed(draw, "c")


@kind("a latency with jitter")
def latency_with_jitter(draw: random.Random) -> Case:
    return _delayed(draw, "elb")


@kind("a latency with a heavy tail (Pareto)")
def latency_with_a_heavy_tail(draw: random.Random) -> Case:
    return _delayed(draw, "p")


@kind("a latency, and pauses for 5 to 15 % of the time")
def latency_and_pauses(draw: random.Random) -> Case:
    period = draw.uniform(60, 300)
    return _delayed(draw, "ce", f"pauses,period_ms={period:.0f},pause_ms={period * draw.uniform(0.05, 0.15):.0f}")


@kind("a latency, and a cap or stations 3 to 6 times above what the depth allows")
def latency_below_a_far_limit(draw: random.Random) -> Case:
    depth = draw.choice((1, 2, 4))
    shape, mean_s = service(draw, depth * 600, depth * 2000, "cel")
    rate = depth / mean_s * draw.uniform(3, 6)
    limit = draw.choice((f"bucket,rate={rate:.0f},burst=10", f"stations,count=2,service=constant:{2e6 / rate:.0f}"))
    return Case((f"delay,service={shape}", limit), (0,), DEPTH, Load(depth))


@kind("the first read of a place takes 2 to 5 ms, a later one a tenth: latency either way")
def latency_of_a_first_read(draw: random.Random) -> Case:
    mean = logarithmic(draw, 2000, 5000)
    limits = (f"cache,service=constant:{mean}", f"delay,service=exponential:{mean / 10:.0f}")
    return Case(limits, (0, 1), DEPTH, Load(draw.choice((1, 2, 4)), size_mib=draw.choice((1, 2, 4))))


# Changes in mid-run.


@kind("credits for 0.4 to 0.8 s of a higher rate, then the base rate: spent credits, or the base as a cap")
def credits_spent_in_mid_run(draw: random.Random) -> Case:
    base = logarithmic(draw, 400, 1000)
    burst_rate = base * draw.uniform(2, 3)
    credits = (burst_rate - base) * draw.uniform(0.6, 1.0)
    latency, mean_s = _latency(draw)
    limits = (latency, f"bucket,rate={base},burst={credits:.0f}", f"bucket,rate={burst_rate:.0f},burst=20")
    right = frozenset({"burst_credits", "burst_iops", "volume_iops"})
    return Case(limits, (1, 2), right, Load(waiting_depth(draw, burst_rate, mean_s), runtime_s=1.8))


@kind(
    "a cap that falls by 30 to 60 % in mid-run; from outside it cannot be told from spent credits, which is right, too"
)
def cap_that_falls_in_mid_run(draw: random.Random) -> Case:
    rate = logarithmic(draw, 600, 3000)
    latency, mean_s = _latency(draw)
    change = f"after={rate * draw.uniform(0.5, 0.9):.0f},factor={draw.uniform(0.4, 0.7):.2f}"
    limits = (latency, f"bucket,rate={rate},burst={draw.choice((1, 10, 50))},{change}")
    load = Load(waiting_depth(draw, rate, mean_s), runtime_s=1.5)
    return Case(limits, (1,), IOPS | {"burst_credits"}, load)


# Two limits.


@kind("caps on operations and on bytes within 5 % of each other: both names are right")
def caps_within_5_percent(draw: random.Random) -> Case:
    rate, block_kib = logarithmic(draw, 500, 2500), draw.choice((8, 16, 32))
    latency, mean_s = _latency(draw)
    of_bytes = rate * block_kib * 1024 * draw.uniform(0.95, 1.05)
    limits = (
        latency,
        f"bucket,rate={rate},burst=10",
        f"bucket,unit=b,rate={of_bytes:.0f},burst={40 * block_kib * 1024}",
    )
    return Case(limits, (1, 2), IOPS | BYTES, Load(waiting_depth(draw, rate, mean_s), block_kib))


@kind("a cap on operations, and one on bytes 30 to 80 % above it at this block size")
def cap_below_a_byte_cap(draw: random.Random) -> Case:
    rate, block_kib = logarithmic(draw, 500, 2500), draw.choice((8, 16, 32))
    latency, mean_s = _latency(draw)
    of_bytes = rate * block_kib * 1024 * draw.uniform(1.3, 1.8)
    limits = (
        latency,
        f"bucket,rate={rate},burst=10",
        f"bucket,unit=b,rate={of_bytes:.0f},burst={8 * block_kib * 1024}",
    )
    return Case(limits, (1,), IOPS, Load(waiting_depth(draw, rate, mean_s), block_kib))


@kind("a cap of a connection, and the volume's 30 to 80 % above it")
def connection_cap_below_a_cap(draw: random.Random) -> Case:
    rate = logarithmic(draw, 500, 2500)
    latency, mean_s = _latency(draw)
    limits = (
        latency,
        f"bucket,per=c,rate={rate},burst=10",
        f"bucket,rate={rate * draw.uniform(1.3, 1.8):.0f},burst=10",
    )
    right = frozenset({"connection_iops", "connection_requests"})
    return Case(limits, (1,), right, Load(waiting_depth(draw, rate, mean_s)))


@kind("stations, and a cap 20 to 60 % above their speed")
def stations_below_a_cap(draw: random.Random) -> Case:
    count, per_s = draw.randint(1, 6), logarithmic(draw, 500, 2000)
    shape, _ = service(draw, count / per_s * 1e6, count / per_s * 1e6 * 1.001, "cel")
    cap = f"bucket,rate={per_s * draw.uniform(1.2, 1.6):.0f},burst={draw.randint(1, 20)}"
    return Case((cap, f"stations,count={count},service={shape}"), (1,), SPEED, Load(max(8, 6 * count)))


@kind("a cap, and stations 20 to 60 % faster than it")
def cap_below_stations(draw: random.Random) -> Case:
    count, per_s = draw.randint(2, 6), logarithmic(draw, 500, 2000)
    mean = count / per_s / draw.uniform(1.2, 1.6) * 1e6
    shape, _ = service(draw, mean, mean * 1.001, "ce")
    cap = f"bucket,rate={per_s},burst={draw.randint(1, 20)}"
    return Case((cap, f"stations,count={count},service={shape}"), (0,), IOPS, Load(8 * count))


# The load holds itself down.


@kind("the load asks for a rate, 30 to 90 % of a cap")
def rate_of_the_load(draw: random.Random) -> Case:
    cap = logarithmic(draw, 1000, 4000)
    rate = round(cap * draw.uniform(0.3, 0.9))
    latency, _ = _latency(draw)
    load = Load(64, keys=f"rate_total_operations = {rate}")
    return Case((latency, f"bucket,rate={cap},burst=20"), (), frozenset({"rate"}), load, rate)


@kind("two jobs ask for different rates")
def rates_of_two_jobs(draw: random.Random) -> Case:
    first, second = draw.randint(200, 600), draw.randint(200, 600)
    latency, _ = _latency(draw)
    load = Load(32, keys=f"rate_total_operations = {first}", others=(f"rate_total_operations = {second}",))
    return Case((latency,), (), frozenset({"rate", "group_rate"}), load, first + second)


@kind("the load thinks for 2 to 6 ms after each operation")
def think_time(draw: random.Random) -> Case:
    latency, _ = _latency(draw)
    return Case((latency,), (), frozenset({"think_time"}), Load(1, keys=f'think = "{draw.uniform(2, 6):.1f}ms"'))
