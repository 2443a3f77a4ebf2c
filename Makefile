# nearflash: what a person types. CI types the same.
#
#   make demo     build, serve flash over a real socket, and see its speed beside the limit
#   make test     everything that proves it works, real Linux hosts included
#   make lint     formatting, lints, documentation, licences
#   make bench    the table of docs/performance.md, measured here (some minutes, a quiet machine)
#   make install  the daemon, its unit and its documents (PREFIX=/usr/local)

CARGO ?= cargo
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 10
SIM_SEEDS ?= 64
BIN = target/release/nearflash

.PHONY: all build deps-build deps-test demo test test-code test-docs test-guest fuzz lint bench install clean

all: build

deps-build:
	@scripts/deps build

deps-test: deps-build
	@scripts/deps test

build: deps-build
	$(CARGO) build --release --locked --package nearflash-cli

demo: build
	$(BIN) demo

test: deps-test build test-code test-docs test-guest fuzz

# Unit, property and simulation tests, and the node over real sockets.
test-code:
	SIM_SEEDS=$(SIM_SEEDS) $(CARGO) test --locked --workspace --exclude nearflash-interop

# The commands of the README, as written.
test-docs: build
	scripts/test-readme $(BIN)

# The Linux kernel's own host, in a guest.
test-guest: build
	NEARFLASH_BIN=$(abspath $(BIN)) $(CARGO) test --locked --package nearflash-interop -- --nocapture --test-threads=1

fuzz: deps-test
	scripts/fuzz $(FUZZ_SECONDS)

lint: deps-build
	scripts/lint

bench: build
	NEARFLASH_BIN=$(abspath $(BIN)) $(CARGO) bench --locked --package nearflash-bench

install: build
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/nearflash
	install -D -m 644 packaging/systemd/nearflash.service $(DESTDIR)$(PREFIX)/lib/systemd/system/nearflash.service
	install -D -m 644 docs/operations.md $(DESTDIR)$(PREFIX)/share/doc/nearflash/operations.md

clean:
	$(CARGO) clean
