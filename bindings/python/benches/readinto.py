"""What Python adds to a read of the Rust client.

    python benches/readinto.py direct://HOST:PORT/VOLUME

Reads 4 KiB at depth 1 into one buffer, at random places. Beside it, the same in Rust:

    nearflash bench direct://HOST:PORT/VOLUME --rw randread --bs 4KiB --iodepth 1
"""

import random
import statistics
import sys
import time

import nearflash

LENGTH = 4096
READS = 100_000
ROUNDS = 5


def main() -> None:
    with nearflash.open(sys.argv[1], spin_max=0.01) as volume:
        places = [LENGTH * random.randrange(volume.size // LENGTH) for _ in range(READS)]
        buffer = bytearray(LENGTH)
        means = []
        for _ in range(ROUNDS):
            began = time.perf_counter_ns()
            for place in places:
                volume.readinto(buffer, place)
            means.append((time.perf_counter_ns() - began) / READS)
    rounds = ", ".join(f"{mean / 1000:.2f}" for mean in means)
    print(f"mean latency of {READS} reads, by round: {rounds} µs; median {statistics.median(means) / 1000:.2f} µs")


if __name__ == "__main__":
    main()
