"""Builds a guest in C, with its stack of a pinned version: `build.py NAME WORK LIBRARY`.

The stack comes from a registry, as the file that its checksum says; nothing of it is changed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Stack:
    """The sources of a stack, and how they are compiled."""

    url: str
    sha256: str
    #: Patterns of its C files and its folders of headers, in the archive's one folder.
    sources: tuple[str, ...]
    include: tuple[str, ...]
    flags: tuple[str, ...] = ()
    #: Sources among the patterns that are left out.
    without: tuple[str, ...] = ()
    #: Files that its own build would write.
    written: Mapping[str, str] = field(default_factory=dict)


NGTCP2 = "1.25.0"
#: What picotls' own build takes for its portable cryptography, but for its random bytes.
PICOTLS = (
    "picotls pembase64 hpke asn1 ffx uecc cifra minicrypto-pem "
    "cifra/x25519 cifra/chacha20 cifra/aes128 cifra/aes256"
)
CIFRA = "aes blockwise chacha20 chash curve25519 drbg gcm gf128 hmac modes poly1305 sha256 sha512"
STACKS = {
    "ngtcp2": Stack(
        "https://static.crates.io/crates/ngtcp2-sys/ngtcp2-sys-0.2.0.crate",
        "bf62d961ed1802863baa278374a3293e748f27eb2b88a245ceb8f950a2ace287",
        ("deps/ngtcp2/lib/*.c",),
        ("deps/ngtcp2/lib", "deps/ngtcp2/lib/includes"),
        ("-DHAVE_ARPA_INET_H", "-DHAVE_NETINET_IN_H", "-DHAVE_UNISTD_H", "-DHAVE_ENDIAN_H"),
        written={
            "deps/ngtcp2/lib/includes/ngtcp2/version.h": f'#define NGTCP2_VERSION "{NGTCP2}"\n'
            "#define NGTCP2_VERSION_NUM 0x{:02x}{:02x}{:02x}\n".format(*map(int, NGTCP2.split(".")))
        },
    ),
    "picoquic": Stack(
        "https://files.pythonhosted.org/packages/98/78/"
        "dae8c33a82db069f80a442e38f4037258c53d38f01e3da35481bd1261abc/aiopquic-0.6.1.tar.gz",
        "72579146e0f22859a5a7c197246604fef460b9e1b578a2910156dff7679efd29",
        (
            "third_party/picoquic/picoquic/*.c",
            *(f"third_party/picotls/lib/{name}.c" for name in PICOTLS.split()),
            *(f"third_party/picotls/deps/cifra/src/{name}.c" for name in CIFRA.split()),
            "third_party/picotls/deps/micro-ecc/uECC.c",
        ),
        (
            "third_party/picoquic/picoquic",
            "third_party/picotls/include",
            "third_party/picotls/deps/cifra/src",
            "third_party/picotls/deps/cifra/src/ext",
            "third_party/picotls/deps/micro-ecc",
        ),
        ("-DPTLS_WITHOUT_FUSION", "-DPTLS_WITHOUT_OPENSSL", "-DDISABLE_DEBUG_PRINTF"),
        tuple(
            f"third_party/picoquic/picoquic/{name}.c"
            for name in ("picoquic_mbedtls", "sockloop", "winsockloop")
        ),
    ),
}


def fetch(stack: Stack, work: Path) -> Path:
    """Return the folder with the sources of a stack."""
    name = stack.url.rpartition("/")[2]
    archive = work / name
    if not archive.exists():
        with urllib.request.urlopen(stack.url, timeout=120) as answer:
            content = answer.read()
        partial = archive.with_suffix(".partial")
        partial.write_bytes(content)
        partial.replace(archive)
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != stack.sha256:
        archive.unlink()
        raise ValueError(f"{stack.url} has SHA-256 {found}, not {stack.sha256}: nothing is built")
    with tarfile.open(archive) as tar:
        folder = work / tar.getnames()[0].partition("/")[0]
        tar.extractall(work, filter="data")
    for path, text in stack.written.items():
        (folder / path).write_text(text)
    return folder


def build(name: str, work: Path, library: Path) -> None:
    """Make the library of a guest."""
    stack = STACKS[name]
    work.mkdir(parents=True, exist_ok=True)
    root = fetch(stack, work)
    found = [path for pattern in stack.sources for path in sorted(root.glob(pattern))]
    theirs = [path for path in found if str(path.relative_to(root)) not in stack.without]
    compiler = os.environ.get("CC", "cc")
    folders = [
        HERE.parent / "crates" / "capi" / "include",
        HERE,
        *(root / folder for folder in stack.include),
    ]
    flags = ["-std=gnu11", "-O2", "-g1", "-fPIC", "-fvisibility=hidden", *stack.flags]
    flags += [f"-I{folder}" for folder in folders]

    def compiled(source: Path) -> Path:
        strict = ["-Wall", "-Wextra", "-Werror"] if HERE in source.parents else ["-w"]
        where = source.relative_to(HERE if HERE in source.parents else root)
        out = work / ("-".join(where.parts) + ".o")
        subprocess.run([compiler, "-c", *flags, *strict, source, "-o", out], check=True)
        return out

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compiled, [HERE / name / "guest.c", *theirs]))
    library.parent.mkdir(parents=True, exist_ok=True)
    # Beside its place and then renamed, as a process may have it loaded.
    partial = library.with_suffix(".partial")
    link = ["-shared", "-Wl,--no-undefined", "-Wl,-Bsymbolic", *objects, "-lm", "-lpthread"]
    subprocess.run([compiler, *link, "-o", partial], check=True)
    partial.replace(library)


if __name__ == "__main__":
    try:
        build(sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve())
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {sys.argv[1]}: {error}")
