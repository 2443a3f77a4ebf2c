# nearflash: what a person types. CI types the same.
#
#   make demo     build, serve flash over a real socket, and see its speed next to the limit
#   make test     what proves that it works, on one debug build: about 10 minutes on two cores
#   make test-all the same, and every guest, fuzzing, release builds, Python, lints: half an hour
#   make lint     formatting, lints, rooms, documentation, licences
#   make python   the package for Python, as a wheel in target/wheels
#   make bench    the table of docs/performance.md, measured here (some minutes, a quiet machine)
#   make install  the daemon, its unit and its documents, the library for C (PREFIX=/usr/local)

CARGO ?= cargo
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
FUZZ_SECONDS ?= 5
CARGO_TARGET_DIR ?= target
BUILT ?= $(CARGO_TARGET_DIR)/release
BIN = $(BUILT)/nearflash
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
# Before 1.0 every minor version is another library.
SONAME = libnearflash.so.$(basename $(VERSION))

.PHONY: all build deps-build deps-python deps-test demo python test test-all test-code test-docs test-python test-guest \
  fuzz lint bench install clean

all: build

deps-build:
	@scripts/deps build

deps-python: deps-build
	@scripts/deps python

deps-test: deps-build
	@scripts/deps test

build: deps-build
	$(CARGO) build --release --locked --package nearflash-cli --package nearflash-c

python: deps-python
	@scripts/python build

demo: build
	$(BIN) demo

# One debug build, and all that can be tested with it in about 10 minutes.
test:
	@scripts/test

test-all: test
	@scripts/test-rest

# Unit, property and simulation tests, the fuzzers' corpus, and nodes over real sockets.
test-code: deps-build
	$(CARGO) build --locked --workspace --lib --bins --tests
	NEARFLASH_BIN=$(abspath $(CARGO_TARGET_DIR)/debug/nearflash) $(CARGO) test --locked --workspace

# The commands of the documents, as written. Python is the one that has our package.
test-docs: build python
	PATH="$(abspath $(CARGO_TARGET_DIR)/python-env/bin):$$PATH" scripts/test-readme $(BIN)

# The package for Python, and the files that pandas and others make of volumes.
test-python: build python
	NEARFLASH_BIN=$(abspath $(BIN)) scripts/python test

# Other people's programs: the Linux kernel's own hosts in guests, libiscsi's conformance suite, QEMU.
test-guest: deps-test
	$(CARGO) test --locked --workspace --test nvme_tcp --test iscsi --test harness --test libiscsi --test qemu \
	  -- --ignored --nocapture --test-threads=1

fuzz:
	@scripts/deps test-all
	scripts/fuzz $(FUZZ_SECONDS)

lint:
	@scripts/deps lint
	scripts/lint

bench: build
	NEARFLASH_BIN=$(abspath $(BIN)) $(CARGO) bench --locked --package nearflash-bench

# What `make build` has made: so that root needs no Rust. The unit names /usr/local, which becomes
# PREFIX; a configuration that is there is left alone.
install:
	@test -x $(BIN) || { echo "nothing to install: run 'make build' first" >&2; exit 1; }
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/nearflash
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(PREFIX)/share/doc/nearflash
	sed 's|/usr/local|$(PREFIX)|g' packaging/systemd/nearflash.service \
	  >$(DESTDIR)$(PREFIX)/lib/systemd/system/nearflash.service
	install -m 644 docs/operations.md docs/applications.md docs/iscsi.md CHANGELOG.md packaging/nearflash.toml packaging/cost.toml $(DESTDIR)$(PREFIX)/share/doc/nearflash/
	test -e $(DESTDIR)$(SYSCONFDIR)/nearflash/nearflash.toml || \
	  install -D -m 644 packaging/nearflash.toml $(DESTDIR)$(SYSCONFDIR)/nearflash/nearflash.toml

	install -D -m 644 bindings/c/include/nearflash.h $(DESTDIR)$(PREFIX)/include/nearflash.h
	install -D -m 644 $(BUILT)/libnearflash_c.a $(DESTDIR)$(PREFIX)/lib/libnearflash.a
	install -m 755 $(BUILT)/libnearflash_c.so $(DESTDIR)$(PREFIX)/lib/libnearflash.so.$(VERSION)
	ln -sf libnearflash.so.$(VERSION) $(DESTDIR)$(PREFIX)/lib/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(PREFIX)/lib/libnearflash.so
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' bindings/c/nearflash.pc.in \
	  >$(DESTDIR)$(PREFIX)/lib/pkgconfig/nearflash.pc

clean:
	$(CARGO) clean
