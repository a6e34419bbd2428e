# Copy to REPOSITORY/packages/hopbyte/package.py; `url` is that of the tarball of `make dist`.
from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *


class Hopbyte(MakefilePackage):
    """Topology-aware rank placement for HPC networks, from the network's own dumps and counters."""

    homepage = "https://hopbyte.example/hopbyte"
    url = "https://hopbyte.example/hopbyte-0.1.0.tar.xz"

    license("MIT OR Apache-2.0")

    version("0.1.0")

    variant("mpi", default=True, description="Preload libraries and probes for the MPI")

    depends_on("c", type="build")
    depends_on("rust@1.90:", type="build")
    depends_on("gmake", type="build")
    depends_on("python@3.11:", type="build")
    depends_on("mpi", when="+mpi")

    def build(self, spec, prefix):
        make("build-dist", "CARGO=cargo --offline")

    def install(self, spec, prefix):
        make("install-dist", f"PREFIX={prefix}")

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        hopbyte = Executable(self.prefix.bin.hopbyte)
        hopbyte("fabric", "show", "torus:4x4x4")
