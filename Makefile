# hopbyte
#   make demo      the whole loop on real input in a minute; for your own set FABRIC= TRAFFIC= (below)
#   make test      all tests of CI
#   make test-full  what is too long for every change: every algorithm and refusal on one to nine PEs, kinds of memory
#                  in a virtual machine with three NUMA nodes; test-lab-full: collectives on railed hosts, torchrun
#   make test-mpi  the preload libraries and the probes under Open MPI and MPICH, ten more minutes
#   make blame-faults  hopbyte blame on drawn faults of simulated machines up to 4,608 routers (SEED, ROUNDS, LARGE=no)
#   make blame-lab  the same with real jobs in a lab of 64 routers (needs root; SEED, SETS of ten faults, three minutes each)
#   make lint      formatting, lints, the project's rules, API documentation without warnings
#   make build     the release binary, target/release/hopbyte
#   make install   the binary, libhopbyte, man pages, completions, systemd units and the published experiments below PREFIX
#                  (default ~/.local); with an MPI installed, the preload libraries and the probes for it too
#   make deb wheel dist static  into dist/: a Debian package; a wheel (wheel-musl: for Alpine); a tarball that builds
#                  without a network; a program without shared libraries. make test-packaging installs them in empty roots
#   make mpi       installs Open MPI and MPICH where permitted; preload libraries and probes for both
#   make pictures  draws the book's pictures of machines again
#   make docs      the book as HTML under build/book, man pages under build/man
#   make bench     measured speeds; bench-observe: agent and collector beside LDMS's; bench-model:
#                  flows beside SimGrid; bench-map: the mapper
#                  beside Scotch, Zoltan2, TreeMatch, KaHIP, SharedMap, IntMap and Mt-KaHyPar, into bench/results/map.json;
#                  bench-scale: time and memory as machines of every family double, into bench/results/scale.md;
#                  bench-hosts: training plans on hosts with GPUs, into bench/results/hosts.json;
#                  bench-predict: predicted and measured run times of LAMMPS, GROMACS, CP2K, FFTW, Meep and ABINIT on emulated
#                  machines, as root, most of an hour, into bench/results/predict.json (QUICK=--quick: minutes;
#                  PEERS=folder of LogGOPSim, txt2bin and htsim_uec, built from spcl/atlahs);
#                  bench-runtime: figures of paper 004 on this machine (ROUNDS=3), into bench/results/runtime.json and the book
#   make fuzz      every reader and server against malformed input, FUZZ_SECONDS each; fuzz-nightly: all of them for
#                  an hour together, with their corpora minimised and their executions counted
# Needs a Rust toolchain (rustup), Python 3.11, a C compiler and make. Other missing programs are
# installed with the system's package manager where permitted, otherwise listed.

CARGO ?= cargo
PYTHON ?= python3
PREFIX ?= $(HOME)/.local
FUZZ_SECONDS ?= 30
# Where cargo puts programs: below the platform's name if the environment names one, as conda's compilers do.
BUILDS := $(or $(CARGO_TARGET_DIR),target)
TARGET := $(BUILDS)$(addprefix /,$(CARGO_BUILD_TARGET))
HOPBYTE := $(TARGET)/release/hopbyte
# Programs and libraries under test: those that the Rust tests built, so that nothing is built twice.
TESTED := $(abspath $(TARGET))/debug
VENV := build/venv

# make demo FABRIC=subnet.txt ROUTES=lfts TRAFFIC=app.mat NODES='n[01-16]:4' …
option = $(if $($(1)),--$(2) '$($(1))')
DEMO_OPTIONS = $(call option,FABRIC,fabric) $(call option,ROUTES,routes) \
  $(call option,SYSTEM_MAP,system-map) $(call option,NAMES,names) $(call option,TRAFFIC,traffic) \
  $(call option,NODES,nodes) $(call option,RANKS_PER_NODE,ranks-per-node) \
  $(call option,CURRENT,current) $(call option,BACKGROUND,background) \
  $(call option,SECONDS,seconds) $(call option,OUT,out)

.PHONY: demo test lint build build-capi install install-built docs pictures bench bench-observe bench-model bench-map bench-hosts bench-runtime bench-scale fuzz fuzz-nightly clean help
.PHONY: mpi programs test-mpi test-rust test-capi test-loop test-formats test-python test-web test-mpi-preload test-probes
.PHONY: test-shmem test-full test-infiniband test-lab test-slurm test-collect test-simgrid
.DEFAULT_GOAL := help

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | sed '/^make demo FABRIC/,$$d'

demo: build
	@$(HOPBYTE) demo $(DEMO_OPTIONS)

build:
	@$(CARGO) build --locked --release -p hopbyte-cli -p hopbyte-collect --bins

# libhopbyte, for applications that remap themselves; built with the command's packages to share their objects.
build-capi:
	@$(CARGO) build --locked --release -p hopbyte-cli -p hopbyte-collect -p hopbyte-capi

programs:
	@$(CARGO) build --locked --workspace --lib --bins --tests

# Cheap checks first, then two suites at a time, since most of them wait for processes and ticks; every suite's output comes
# as a whole when it ends. The page's frames are timed without another suite. Line tables would make a cold build half as long again.
.PHONY: suites
test: export CARGO_PROFILE_DEV_DEBUG = 0
test: lint programs
	@$(MAKE) --no-print-directory -j2 --output-sync=target suites
	@$(MAKE) --no-print-directory test-web
suites: test-lab test-rust test-sanitize test-collect test-python test-loop test-capi test-slurm test-infiniband test-simgrid test-formats

# Some 400 runs under Open MPI and MPICH: ten more minutes, hence separate from `make test`.
test-mpi: test-mpi-preload test-probes

lint:
	$(CARGO) fmt --all --check
	$(PYTHON) scripts/house.py
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --quiet --locked --no-deps --workspace

# Stores, trees and certificates of tests are in memory if it has room: a disk takes up to a hundred times as long.
MEMORY = $(shell test "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 1000000 2>/dev/null && echo /dev/shm || echo $${TMPDIR:-/tmp})
test-rust faults: export TMPDIR := $(MEMORY)
test-rust:
	$(CARGO) test --locked --workspace

# Ctrl-C at twenty moments of each of five large searches, with the optimised command, in two seconds; `make test-rust`
# tries a sample of smaller ones.
.PHONY: interrupts
interrupts:
	$(CARGO) build --release --locked -p hopbyte-cli
	HOPBYTE_INTERRUPTS=all HOPBYTE=$(abspath $(HOPBYTE)) $(CARGO) test --locked -p hopbyte-cli --test interrupts -- --nocapture

# Every fault of the store's tests, of which `make test-rust` tries a sample.
.PHONY: faults
faults:
	HOPBYTE_FAULTS=all $(CARGO) test --locked -p hopbyte-collect --test faults -- --nocapture

# `hopbyte blame` against faults drawn at random on simulated machines of up to 4,608 routers, and against machines without any.
# make blame-faults SEED=2 ROUNDS=16; LARGE=no takes four small machines.
SEED ?= 1
.PHONY: blame-faults
blame-faults: build
	scripts/need.sh gcc=gcc
	$(PYTHON) bench/blame/run.py --hopbyte $(HOPBYTE) --seed $(SEED) --rounds $(or $(ROUNDS),100) $(if $(filter no,$(LARGE)),--small)

# The same with real jobs over TCP in a lab of 64 routers and 128 nodes; needs root.
SETS ?= 20
.PHONY: blame-lab
blame-lab: build
	scripts/need.sh gcc=gcc ip=iproute2 iptables=iptables
	$(PYTHON) bench/blame/lab.py --hopbyte $(HOPBYTE) --seed $(SEED) --sets $(SETS)

# Longer histories of the acknowledgement protocol, of which `make test-rust` explores short ones.
.PHONY: histories
histories:
	$(CARGO) test --release --locked -p hopbyte-collect --lib histories -- --include-ignored --nocapture --test-threads 1

# The folders of other languages have their own Makefile with `deps` and `test`.
# The preload libraries under the address, undefined-behaviour and thread sanitizers; libhopbyte's are in test-capi.
.PHONY: test-sanitize
test-sanitize: mpi
	$(MAKE) -C mpi test-sanitize

test-mpi-preload:
	$(MAKE) -C mpi deps && $(MAKE) -C mpi test
test-probes:
	$(MAKE) -C probes deps && $(MAKE) -C probes test

# Teams and reductions under Open MPI's OpenSHMEM; a minute. Without one that can be installed, a note.
test-shmem:
	@$(MAKE) -s -C shmem deps && $(MAKE) -C shmem test || { status=$$?; command -v oshrun >/dev/null && exit $$status; \
	  echo "no OpenSHMEM here, and none could be installed: tests/shmem did not run" >&2; }

test-full:
	$(MAKE) -C shmem test FULL=1
	$(MAKE) -C mpi test FULL=1 TESTS="-k test_memory_vm"

test-web: programs
	scripts/need.sh npm=npm && cd web && npm ci --silent && HOPBYTE=$(TESTED)/hopbyte npm test

# The README's commands on captures; certificates recomputed by a script that shares no code; `hopbyte run` killed at
# every step; the JSON of all commands of the book against docs/schemas.
test-loop: programs packages
	scripts/need.sh zstd=zstd strace=strace gcc=gcc
	$(VENV)/bin/pytest -q -rs tests/loop && $(VENV)/bin/pytest -q -rs tests/schemas

# A wheel with the tests' profile, which shares their objects; `pip install .` optimises.
test-python: export MATURIN_PEP517_ARGS = --profile dev --features tests
test-python: packages
	$(VENV)/bin/pip install -q --upgrade '.[dev]'
	$(VENV)/bin/ruff check python tests scripts && $(VENV)/bin/pytest -q

# A real OpenSM on simulated fabrics; installs opensm, ibsim-utils and infiniband-diags where permitted.
test-infiniband: programs packages
	$(VENV)/bin/pytest -q tests/infiniband

# Output of `fabric convert`, read by Graphviz, networkx and SimGrid; pictures as PDF by librsvg.
test-formats: programs packages
	scripts/need.sh nop=graphviz g++=g++ /usr/include/simgrid=libsimgrid-dev rsvg-convert=librsvg2-bin
	$(VENV)/bin/pytest -q tests/formats

# libhopbyte from C and Fortran, against a running oracle.
test-capi: programs
	scripts/need.sh gcc=gcc gfortran=gfortran nm=binutils pkg-config=pkgconf && tests/capi/run.sh $(TESTED)

# Emulated clusters of network namespaces: needs root, checked before the start.
test-lab: programs mpi packages
	scripts/need.sh ip=iproute2 iptables=iptables
	$(VENV)/bin/pytest -q -rs tests/lab

# Probes and preload libraries for Open MPI and MPICH, which are installed first: separate makes, since a make
# looks for MPIs when it starts.
mpi:
	$(MAKE) -s -C probes deps
	$(MAKE) -s -C probes all
	$(MAKE) -s -C mpi all

# The cases of test-lab that take minutes: all collectives on hosts with several ports, and a real torchrun.
.PHONY: test-lab-full
test-lab-full: programs packages
	scripts/need.sh ip=iproute2 torchrun=python3-torch
	HOPBYTE_LAB_FULL=1 $(VENV)/bin/pytest -q -rs tests/lab/test_hosts.py tests/lab/test_torchrun.py

# A real Slurm on this machine, controller and node daemons, runs hopbyte's files for it; needs root.
test-slurm: programs packages
	scripts/need.sh /usr/sbin/slurmctld=slurm-wlm /usr/sbin/slurmd=slurm-wlm
	$(VENV)/bin/pytest -q tests/slurm

# A collector read by real Prometheus, VictoriaMetrics, pandas, DuckDB and polars, and on a real NATS server; missing
# programs are skipped and listed.
# These tests mostly wait for ticks, hence workers.
COLLECT_WORKERS ?= 3
test-collect: programs packages
	$(VENV)/bin/pytest -q -rs -n $(COLLECT_WORKERS) tests/collect

# Those of all suites in one call: pip does not expect another one beside it.
.PHONY: packages
packages: $(VENV)/bin/python
	@$(VENV)/bin/pip install -q pytest pytest-xdist jsonschema networkx pandas pyarrow duckdb polars

$(VENV)/bin/python:
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || scripts/need.sh /usr/share/python-wheels=python3-venv
	@$(PYTHON) -m venv $(VENV)

install: build build-capi
	@$(MAKE) --no-print-directory install-built

# What packages carry: optimised across crates, which takes several minutes more.
DIST := dist
.PHONY: build-dist install-dist deb wheel dist static sbom test-packaging install-shared
build-dist:
	@$(CARGO) build --locked --profile dist -p hopbyte-cli -p hopbyte-collect -p hopbyte-capi

# What recipes call after build-dist.
install-dist:
	@$(MAKE) --no-print-directory install-built BUILT=$(TARGET)/dist

deb: build-dist sbom
	scripts/deb.sh $(TARGET)/dist $(DIST)

# Also `make wheel WHEEL_PROFILE=dev` for a quick one. Built on an old distribution, it runs on all newer ones.
WHEEL_PROFILE ?= dist
wheel: sbom $(VENV)/bin/python
	scripts/wheel.sh $(VENV)/bin/python $(WHEEL_PROFILE) $(DIST)

STATIC ?= $(shell uname -m)-unknown-linux-musl
# For Alpine and other systems with musl, built on this one.
.PHONY: wheel-musl
wheel-musl: sbom $(VENV)/bin/python
	scripts/need.sh musl-gcc=musl-tools
	! command -v rustup >/dev/null || rustup target add $(STATIC)
	scripts/wheel.sh $(VENV)/bin/python $(WHEEL_PROFILE) $(DIST) $(STATIC)

dist:
	scripts/dist.sh $(DIST)

# For any Linux of this processor; musl's allocator makes threaded searches slower.
static:
	scripts/need.sh musl-gcc=musl-tools
	! command -v rustup >/dev/null || rustup target add $(STATIC)
	$(CARGO) build --locked --profile dist --target $(STATIC) --config packaging/static.toml -p hopbyte-cli -p hopbyte-collect --bins
	install -D -s -m 755 -t $(DIST)/static $(BUILDS)/$(STATIC)/dist/hopbyte $(BUILDS)/$(STATIC)/dist/hopbyte-agent

# Bill of materials (CycloneDX) and the licences of all crates.
sbom:
	@$(PYTHON) scripts/sbom.py build/sbom

# Debian package and wheel in an empty Debian root, the tarball without a network, the static program in an empty folder:
# five minutes after their builds, hence separate from `make test`. Needs root and a Debian mirror.
test-packaging: mpi deb wheel wheel-musl dist static
	scripts/need.sh debootstrap=debootstrap lintian=lintian rpmspec=rpm /usr/share/modules/init/sh=environment-modules
	$(VENV)/bin/pip install -q pytest cyclonedx-bom 'cyclonedx-python-lib[json-validation]' py-rattler-build
	$(VENV)/bin/pytest -q -rs tests/packaging

# The same from the folder BUILT, without building, as the test of libhopbyte does.
BUILT ?= $(TARGET)/release
install-built:
	install -D -m 755 $(BUILT)/hopbyte $(DESTDIR)$(PREFIX)/bin/hopbyte
	install -D -m 755 $(BUILT)/hopbyte-agent $(DESTDIR)$(PREFIX)/bin/hopbyte-agent
	install -D -m 755 $(BUILT)/libhopbyte.so $(DESTDIR)$(PREFIX)/lib/libhopbyte.so
	install -D -m 644 $(BUILT)/libhopbyte.a $(DESTDIR)$(PREFIX)/lib/libhopbyte.a
	install -D -m 644 crates/capi/include/hopbyte.h $(DESTDIR)$(PREFIX)/include/hopbyte.h
	mkdir -p $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed -e 's|@PREFIX@|$(PREFIX)|' -e "s|@VERSION@|$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)|" \
	  crates/capi/hopbyte.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/hopbyte.pc
	$(BUILT)/hopbyte --quiet generate man $(DESTDIR)$(PREFIX)/share/man/man1
	$(BUILT)/hopbyte --quiet generate completions build/completions
	install -D -m 644 build/completions/hopbyte.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/hopbyte
	install -D -m 644 build/completions/_hopbyte $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_hopbyte
	install -D -m 644 build/completions/hopbyte.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/hopbyte.fish
	for unit in agent collect; do \
	  mkdir -p $(DESTDIR)$(PREFIX)/lib/systemd/system && sed 's|/usr/bin/|$(PREFIX)/bin/|' packaging/hopbyte-$$unit.service \
	    > $(DESTDIR)$(PREFIX)/lib/systemd/system/hopbyte-$$unit.service; done
	install -D -m 644 packaging/hopbyte-sysusers.conf $(DESTDIR)$(PREFIX)/lib/sysusers.d/hopbyte.conf
	@$(MAKE) --no-print-directory install-shared
	scripts/install_mpi.sh $(DESTDIR)$(PREFIX)

# What the command looks for below its prefix, and the sources of what has to be compiled for a site's own MPI.
install-shared:
	install -d $(DESTDIR)$(PREFIX)/share/hopbyte/scenarios
	install -m 644 scenarios/*.toml $(DESTDIR)$(PREFIX)/share/hopbyte/scenarios
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/hopbyte packaging/agent.toml packaging/collect.toml \
	  packaging/hopbyte.toml packaging/grafana-dashboard.json packaging/prometheus-rules.yml
	git -C . ls-files mpi probes shmem scripts/need.sh crates/capi/include 2>/dev/null | grep -v /bench/ | \
	  { grep . || find mpi probes shmem scripts/need.sh crates/capi/include -type f ! -path '*/bench/*' ! -path '*/__pycache__/*'; } | \
	  tar -c -T - | (mkdir -p $(DESTDIR)$(PREFIX)/share/hopbyte/src && tar -x --no-same-owner -C $(DESTDIR)$(PREFIX)/share/hopbyte/src)

pictures:
	HOPBYTE_PICTURES=write $(CARGO) test --locked -p hopbyte-cli --test pictures

docs: build
	$(HOPBYTE) --quiet generate man build/man
	command -v mdbook >/dev/null || $(CARGO) install --locked mdbook
	PATH="$$PATH:$$HOME/.cargo/bin" mdbook build docs

# Fat trees of up to 506,530 switch ports: written, read, checked and routed; then every family as it doubles, and whole
# machines, some twenty minutes.
bench-scale: build
	$(PYTHON) bench/scale/run.py $(HOPBYTE)
	$(PYTHON) bench/scale/growth.py $(HOPBYTE)

bench:
	$(CARGO) bench --locked --workspace

# The flow model beside SimGrid (libsimgrid-dev), minutes, and the packet model's curve; the small cases
# are a test.
bench-model:
	$(PYTHON) bench/model/run.py

# The agent and the collector beside LDMS's (built first, five minutes; skipped if that fails), then
# whole machines. Makes a network namespace, so needs root.
bench-observe: build
	-bench/ldms.sh build/peers/ldms
	$(PYTHON) bench/agent/run.py --hopbyte $(HOPBYTE) --rounds 3 --ldms build/peers/ldms
	$(PYTHON) bench/collect/aggregator.py build/peers/ldms --cargo $(CARGO)
	$(CARGO) bench -q --locked -p hopbyte-collect --bench collect -- --seconds 10 --nodes 10000
	$(CARGO) bench -q --locked -p hopbyte-collect --bench collect -- --seconds 10 --nodes 10000 --udp
	$(CARGO) bench -q --locked -p hopbyte-collect --bench collect -- --seconds 10 --nodes 27648 --udp
	$(CARGO) bench -q --locked -p hopbyte-collect --bench collect -- --seconds 10 --nodes 27648 --shards 2

# The mapper beside other tools on the same problems (libscotch-dev, libtrilinos-zoltan2-dev with its
# tpetra, xpetra, kokkos-kernels and zoltan parts, pip's mtkahypar, kahip and chszlablib, IntMap from its repository);
# the time of every map is simulated, also by SimGrid.
# Peers that cannot be installed here are skipped and listed; so are P5f and P5d if their mesh cannot be generated.
bench-map:
	-@$(MAKE) --no-print-directory build/mesh/p5.graph
	-scripts/need.sh gcc=gcc mpicxx=libopenmpi-dev /usr/include/scotch-int64=libscotch-dev \
		/usr/include/simgrid/s4u.hpp=libsimgrid-dev g++=g++ $(foreach part,zoltan2 tpetra xpetra kokkos kokkos-kernels teuchos zoltan epetra,/usr/share/doc/libtrilinos-$(part)-dev=libtrilinos-$(part)-dev)
	-$(PYTHON) -m venv build/peers
	-$(foreach peer,mtkahypar kahip chszlablib,build/peers/bin/pip install -q $(peer);)
	-bench/map/intmap.sh build/peers/intmap
	$(PYTHON) bench/map/run.py --python $(abspath build/peers/bin/python)
	$(PYTHON) bench/map/hierarchy.py --python $(abspath build/peers/bin/python)
	$(PYTHON) bench/map/real.py

# Probes and libraries for every MPI here; some panels need root for network namespaces.
bench-runtime:
	$(MAKE) -s -C mpi deps
	scripts/need.sh oshcc=libopenmpi-dev oshrun=openmpi-bin
	$(PYTHON) bench/runtime/run.py $(if $(ROUNDS),--rounds $(ROUNDS))

bench-hosts: build
	$(PYTHON) bench/hosts/run.py --hopbyte $(HOPBYTE)

# Programs that others wrote, in the lab; SimGrid replays the same traces.
.PHONY: bench-predict
bench-predict: build mpi
	scripts/need.sh lmp=lammps gmx_mpi=gromacs cp2k.popt=cp2k meep=meep-openmpi abinit=abinit /usr/include/fftw3-mpi.h=libfftw3-mpi-dev \
	  /usr/include/fftw3.h=libfftw3-dev smpirun=libsimgrid-dev ip=iproute2 gcc=gcc
	$(PYTHON) bench/predict/run.py --hopbyte $(HOPBYTE) $(if $(PEERS),--peers $(PEERS)) $(QUICK)

# The irregular mesh of problems P5f and P5d, about a minute; the script compares it with the measured one.
build/mesh/p5.graph: bench/map/mesh.py
	scripts/need.sh gpmetis=metis
	$(PYTHON) -m venv build/peers && build/peers/bin/pip install -q numpy scipy
	build/peers/bin/python bench/map/mesh.py $(@D)

test-simgrid: programs
	scripts/need.sh /usr/include/simgrid/s4u.hpp=libsimgrid-dev g++=g++ zstd=zstd && $(PYTHON) bench/model/run.py --quick
	$(PYTHON) tests/simgrid/replay.py $(TESTED)/hopbyte
	$(PYTHON) tests/simgrid/predict.py $(TESTED)/hopbyte

fuzz:
	$(PYTHON) scripts/fuzz.py --seconds $(FUZZ_SECONDS)

fuzz-nightly:
	$(PYTHON) scripts/fuzz.py --total-seconds 3600 --count --keep

clean:
	$(CARGO) clean
	rm -rf build out
