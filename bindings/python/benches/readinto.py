"""What Python adds to a read of the Rust client.

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
READS = 50_000
ROUNDS = 5


def mean_latency(volume: nearflash.Volume, buffer: bytearray, places: list[int]) -> float:
    """In microseconds."""
    readinto = volume.readinto
    began = time.perf_counter_ns()
    for place in places:
        readinto(buffer, place)
    return (time.perf_counter_ns() - began) / 1000 / len(places)


def main() -> None:
    with nearflash.open(sys.argv[1], spin_max=0.01) as volume:
        places = [LENGTH * random.randrange(volume.size // LENGTH) for _ in range(READS)]
        for what, length in [("4 KiB", LENGTH), ("nothing", 0)]:
            buffer = bytearray(length)
            means = [mean_latency(volume, buffer, places) for _ in range(ROUNDS)]
            rounds = " ".join(f"{mean:.2f}" for mean in means)
            print(f"reads of {what}: {statistics.median(means):.2f} µs (rounds: {rounds})")


if __name__ == "__main__":
    main()
