"""The time that Python adds to a read of the Rust client.

    python benches/readinto.py direct+local:PATH.sock/VOLUME

Reads 4 KiB at depth 1 into one buffer, at random places. The same in Rust is

    nearflash bench direct+local:PATH.sock/VOLUME --rw randread --bs 4KiB --iodepth 1 --runtime 2s

on the same cores of a quiet machine. Reads of nothing go all the way but for the node: they are
what the call itself costs.
"""

import random
import statistics
import sys
import time

import nearflash

LENGTH = 4096
READS = 200_000


def latencies(volume: nearflash.Volume, buffer: bytearray, places: list[int]) -> list[float]:
    """The time in microseconds, including some 50 ns to read the clock."""
    readinto, now = volume.readinto, time.perf_counter_ns
    taken = []
    for place in places:
        began = now()
        readinto(place, buffer)
        taken.append((now() - began) / 1000)
    return taken


def main() -> None:
    with nearflash.open(sys.argv[1], spin_max=0.01) as volume:
        places = [LENGTH * random.randrange(volume.size // LENGTH) for _ in range(READS)]
        for what, length in [("4 KiB", LENGTH), ("nothing", 0)]:
            taken = latencies(volume, bytearray(length), places)
            mean, cuts = statistics.fmean(taken), statistics.quantiles(taken, n=100)
            print(
                f"reads of {what}: mean {mean:.2f} µs, "
                f"p50 {cuts[49]:.2f} µs, p90 {cuts[89]:.2f} µs, p99 {cuts[98]:.2f} µs"
            )


if __name__ == "__main__":
    main()
