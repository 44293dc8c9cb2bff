"""Kinds of servers that are held out: they were written without a look at the rules, and no rule is changed for them.

Their counts say how often iocurve is right on servers that its rules were not made for. A kind that a rule was changed
for moves to ``kinds``, and others take its place. Right names are chosen as there.
"""

from __future__ import annotations

import random

from bench.limits.case import Case, Load, held_out, logarithmic, service
from bench.limits.kinds import BYTES, DEPTH, IOPS, SPEED, capped, waiting_depth


@held_out("a cap on operations: token bucket that gets its tokens every 1 to 50 ms")
def cap_refilled_by_ticks(draw: random.Random) -> Case:
    burst = logarithmic(draw, 1, 100)
    return capped(draw, f"ticks,rate={{rate}},burst={burst:.0f},period_ms={logarithmic(draw, 1, 50)}")


@held_out("a cap on operations of which others use up to half; what they leave changes every 50 to 300 ms")
def cap_shared_with_others(draw: random.Random) -> Case:
    share, period_ms = draw.uniform(0.5, 0.9), logarithmic(draw, 50, 300)
    return capped(draw, f"shared,rate={{rate}},share={share:.2f},period_ms={period_ms}")


@held_out("a cap on operations that counts one for each 16 or 32 KiB; with larger blocks it may be called one on bytes")
def cap_in_units_of_bytes(draw: random.Random) -> Case:
    unit_kib, block_kib = draw.choice((16, 32)), draw.choice((4, 16, 64, 128))
    rate = logarithmic(draw, 500, 4000)
    latency, mean_s = service(draw, 80, 500)
    per_s = rate / max(1, block_kib / unit_kib)
    cap = f"bucket,rate={rate},unit_bytes={unit_kib * 1024},burst={max(1, block_kib // unit_kib) * 8}"
    right = IOPS | BYTES if block_kib > unit_kib else IOPS
    load = Load(waiting_depth(draw, per_s, mean_s), block_kib)
    return Case((f"delay,service={latency}", cap), (1,), right, load)


@held_out("a server that works on everything that waits at once, up to 2 to 8 requests, and then on the next batch")
def server_in_batches(draw: random.Random) -> Case:
    count = draw.randint(2, 8)
    shape, _ = service(draw, 1000, 5000, "cel")
    load = Load(count * draw.choice((4, 6, 8)), read_percent=draw.choice((100, 0)))
    return Case((f"batches,count={count},service={shape}",), (0,), SPEED, load)


@held_out("1 to 6 stations; each request that waits makes them slower by 0.3 to 2 %")
def stations_that_contend(draw: random.Random) -> Case:
    count = draw.randint(1, 6)
    shape, _ = service(draw, 400 * count, 1500 * count, "cel")
    limit = f"stations,count={count},service={shape},contention={draw.uniform(0.003, 0.02):.4f}"
    return Case((limit,), (0,), SPEED, Load(max(8, count * draw.choice((4, 6)))))


@held_out("2 to 8 stations before or behind faster ones, as a processor and its disks")
def stations_in_two_stages(draw: random.Random) -> Case:
    count, other = draw.randint(2, 8), draw.randint(1, 4)
    per_s = logarithmic(draw, 500, 2500)
    slow, _ = service(draw, count / per_s * 1e6, count / per_s * 1e6 * 1.001, "cel")
    fast_us = other / per_s / draw.uniform(1.6, 4) * 1e6
    fast, _ = service(draw, fast_us, fast_us * 1.001, "cel")
    limits = [f"stations,count={count},service={slow}", f"stations,count={other},service={fast}"]
    place = draw.choice((0, 1))
    return Case(
        tuple(limits if place == 0 else reversed(limits)), (place,), SPEED, Load(count * draw.choice((4, 6, 8)))
    )


@held_out("a server with 2 to 16 threads, each with one request until its reply, which takes a random time")
def threads_of_a_server(draw: random.Random) -> Case:
    count = draw.choice((2, 4, 8, 16))
    shape, _ = service(draw, 400 * count, 1500 * count, "cel")
    load = Load(count * draw.choice((4, 6)), connections=draw.choice((1, 2)))
    return Case((f"in_flight,count={count}", f"delay,service={shape}"), (0,), SPEED, load)


@held_out("a latency that grows with the bytes of a request")
def latency_for_bytes(draw: random.Random) -> Case:
    depth, block_kib = draw.choice((1, 2, 4)), draw.choice((4, 16, 64))
    shape, _ = service(draw, depth * 300, depth * 1000, "cel")
    limit = f"delay,service={shape},us_per_kib={draw.uniform(5, 40):.1f}"
    return Case((limit,), (0,), DEPTH, Load(depth, block_kib))


@held_out("a latency of which 10 to 60 % of the places have a tenfold one, as two tiers of disks")
def latency_of_two_tiers(draw: random.Random) -> Case:
    depth, mean = draw.choice((1, 2, 4)), logarithmic(draw, 200, 600)
    slow, _ = service(draw, mean * 9, mean * 9.01, "ce")
    limits = (f"delay,service=exponential:{mean}", f"tier,share={draw.uniform(0.1, 0.6):.2f},service={slow}")
    return Case(limits, (0, 1), DEPTH, Load(depth))
