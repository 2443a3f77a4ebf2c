# nearflash: what a person types. CI types the same.
#
#   make build    the program nearflash
#   make all      everything that make install installs: nearflash, nearflash-study, the libraries, licences
#   make demo     build, serve flash over a real socket, and see its speed next to the limit
#   make demo-cluster  a mirrored volume outlives kill -9 of its primary, on this machine (needs etcd)
#   make test     what proves that it works, on one debug build: 11 to 15 minutes on two cores
#   make test-all the same, and every guest, fuzzing, release builds, Python, packages, lints: an hour
#   make lint     formatting, lints, rooms, documentation, licences
#   make python   the package for Python, as a wheel in target/wheels
#   make bench    the table of docs/performance.md, measured here (some minutes, a quiet machine)
#   make install  the programs, unit, manual and documents, the libraries (PREFIX=/usr/local)
#   make packages a Debian package and an archive of static programs, in target/packages

CARGO ?= cargo
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
UNITDIR ?= $(PREFIX)/lib/systemd/system
SHARE = $(PREFIX)/share
DOC = $(SHARE)/doc/nearflash
FUZZ_SECONDS ?= 5
CARGO_TARGET_DIR ?= target
BUILT ?= $(CARGO_TARGET_DIR)/release
BIN = $(BUILT)/nearflash
# The library of `nearflash run`, where that command finds it.
PRELOAD = libnearflash_preload.so
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
# Before 1.0 every minor version is another library.
SONAME = libnearflash.so.$(basename $(VERSION))

.PHONY: build all deps-build deps-python deps-test demo demo-cluster python test test-all test-code test-docs test-python test-guest test-packages \
  fuzz lint bench install install-programs packages clean

.DEFAULT_GOAL := build

deps-build:
	@scripts/deps build

deps-python: deps-build
	@scripts/deps python

deps-test: deps-build
	@scripts/deps test

build: deps-build
	$(CARGO) build --release --locked --package nearflash-cli

# A library in another program must not abort it: it has a profile of its own.
all: deps-build
	$(CARGO) build --release --locked --package nearflash-cli --package nearflash-study --package nearflash-c
	$(CARGO) build --profile python --locked --package nearflash-preload
	cp $(CARGO_TARGET_DIR)/python/$(PRELOAD) $(BUILT)/
	@scripts/third-party nearflash-cli nearflash-study nearflash-c nearflash-preload >$(BUILT)/third-party.txt

python: deps-python
	@scripts/python build

demo: build
	$(BIN) demo

# Three nodes and their etcds, on addresses of the loopback network.
demo-cluster: build
	$(BIN) demo --cluster

# One debug build, and all that can be tested with it in 11 to 15 minutes.
test:
	@scripts/test

test-all: test
	@scripts/test-rest
	@$(MAKE) --silent test-packages

# The packages, each on a machine that has nothing else of nearflash.
test-packages: deps-test packages
	$(CARGO) test --locked --workspace --test packages -- --ignored --nocapture

# Unit, property and simulation tests, the fuzzers' corpus, and nodes over real sockets.
test-code: deps-build
	$(CARGO) build --locked --workspace --lib --bins --tests
	NEARFLASH_BIN=$(abspath $(CARGO_TARGET_DIR)/debug/nearflash) $(CARGO) test --locked --workspace

# The commands of the documents, as written. Python is the one that has our package.
test-docs: all python deps-test
	PATH="$(abspath $(CARGO_TARGET_DIR)/python-env/bin):$$PATH" scripts/test-readme $(BIN)

# The package for Python, and the files that pandas and others make of volumes.
test-python: build python
	NEARFLASH_BIN=$(abspath $(BIN)) scripts/python test

# Other people's programs: the Linux kernel's own hosts in guests, libiscsi's conformance suite, QEMU.
test-guest: deps-test
	scripts/run-tests build
	scripts/run-tests one libiscsi --ignored --nocapture --test-threads=1
	scripts/run-tests one qemu --ignored --nocapture --test-threads=1
	scripts/guests all

fuzz:
	@scripts/deps test-all
	scripts/fuzz $(FUZZ_SECONDS)

lint:
	@scripts/deps lint
	scripts/lint

bench: build
	NEARFLASH_BIN=$(abspath $(BIN)) $(CARGO) bench --locked --no-fail-fast --package nearflash-tables

# What `make all` has made, so that root needs no Rust. The unit names /usr/local, which becomes PREFIX; a
# configuration that is there is left alone.
install: install-programs
	test -e $(DESTDIR)$(SYSCONFDIR)/nearflash/nearflash.toml || \
	  install -D -m 644 packaging/nearflash.toml $(DESTDIR)$(SYSCONFDIR)/nearflash/nearflash.toml
	install -D -m 644 bindings/c/include/nearflash.h $(DESTDIR)$(PREFIX)/include/nearflash.h
	install -D -m 644 $(BUILT)/libnearflash_c.a $(DESTDIR)$(PREFIX)/lib/libnearflash.a
	strip --strip-debug $(DESTDIR)$(PREFIX)/lib/libnearflash.a
	install -m 755 $(BUILT)/libnearflash_c.so $(DESTDIR)$(PREFIX)/lib/libnearflash.so.$(VERSION)
	ln -sf libnearflash.so.$(VERSION) $(DESTDIR)$(PREFIX)/lib/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(PREFIX)/lib/libnearflash.so
	install -D -m 644 $(BUILT)/$(PRELOAD) $(DESTDIR)$(PREFIX)/lib/nearflash/$(PRELOAD)
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' bindings/c/nearflash.pc.in \
	  >$(DESTDIR)$(PREFIX)/lib/pkgconfig/nearflash.pc
	if test -z "$(DESTDIR)" && test "$$(id -u)" = 0; then ldconfig; fi

# In the folders that they have here, so that their links lead somewhere.
DOCUMENTS = README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE-MIT LICENSE-APACHE \
  $$(find docs client/examples findings -type f) bindings/python/README.md bindings/c/include/nearflash.h bindings/c/examples/example.c \
  fuzz/README.md tests/interop/README.md tests/model/README.md

# The programs, their manual pages, completions, unit, documents and licences.
install-programs:
	@test -x $(BIN)-study || { echo "nothing to install: run 'make all' first" >&2; exit 1; }
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/nearflash
	install -m 755 $(BIN)-study $(DESTDIR)$(PREFIX)/bin/nearflash-study
	install -d $(DESTDIR)$(SHARE)/man/man1
	$(BIN) manual-pages $(DESTDIR)$(SHARE)/man/man1
	$(BIN)-study manual-pages $(DESTDIR)$(SHARE)/man/man1
	install -d $(DESTDIR)$(SHARE)/bash-completion/completions $(DESTDIR)$(SHARE)/zsh/site-functions \
	  $(DESTDIR)$(SHARE)/fish/vendor_completions.d
	for program in nearflash nearflash-study; do \
	  $(BUILT)/$$program completions bash >$(DESTDIR)$(SHARE)/bash-completion/completions/$$program && \
	  $(BUILT)/$$program completions zsh >$(DESTDIR)$(SHARE)/zsh/site-functions/_$$program && \
	  $(BUILT)/$$program completions fish >$(DESTDIR)$(SHARE)/fish/vendor_completions.d/$$program.fish || exit 1; \
	done
	install -d $(DESTDIR)$(UNITDIR)
	sed 's|/usr/local|$(PREFIX)|g' packaging/systemd/nearflash.service >$(DESTDIR)$(UNITDIR)/nearflash.service
	install -d $(DESTDIR)$(DOC)
	install -m 644 packaging/nearflash.toml packaging/cost.toml packaging/monitoring/alerts.yaml \
	  packaging/monitoring/dashboard.json $(DESTDIR)$(DOC)/
	for file in $(DOCUMENTS); do install -D -m 644 $$file $(DESTDIR)$(DOC)/$$file || exit 1; done
	if test -e $(BUILT)/third-party.txt; then install -m 644 $(BUILT)/third-party.txt $(DESTDIR)$(DOC)/; fi

# A Debian package and an archive of static programs, in target/packages.
packages: deps-build
	scripts/package

clean:
	$(CARGO) clean
