"""The build backend of pyproject.toml (PEP 517, PEP 660): a wheel is a zip file with a list of its files.

The package in the wheel names the libraries and programs of the build in this tree, if there is one ($BUILD, or build).
"""
import base64
import hashlib
import os
import re
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parent.parent


def _version() -> str:
    header = (TREE / "include" / "gpusim.h").read_text()
    found = re.search(r'^#define GPUSIM_VERSION "(.*)"$', header, re.M)
    if not found:
        raise RuntimeError(f"{TREE}/include/gpusim.h has no GPUSIM_VERSION")
    return found[1]


def _where() -> str:
    """The text of gpusim/_where.py; empty where nothing is built."""
    build = (TREE / os.environ.get("BUILD", "build")).resolve()
    if not (build / "libgpusim.so").exists():
        return ""
    return f"LIBDIR = {str(build)!r}\nBINDIR = {str(build / 'bin')!r}\n"


def _write(folder: str, files: "dict[str, bytes]") -> str:
    """Write a wheel of these files; returns its name. The same files make the same bytes."""
    info = f"gpusim-{_version()}.dist-info"
    files[f"{info}/METADATA"] = (HERE / "METADATA.in").read_text().replace("@VERSION@", _version()).encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: gpusim\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/entry_points.txt"] = (HERE / "entry_points.txt").read_bytes()
    files[f"{info}/LICENSE"] = (TREE / "LICENSE").read_bytes()
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    wheel = f"gpusim-{_version()}-py3-none-any.whl"
    with zipfile.ZipFile(Path(folder, wheel), "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)  # of 1980, as no clock is read
            entry.external_attr = 0o644 << 16
            out.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    package = HERE / "gpusim"
    files = {str(f.relative_to(HERE)): f.read_bytes() for f in sorted(package.rglob("*.py"))}
    if _where():
        files["gpusim/_where.py"] = _where().encode()
    return _write(wheel_directory, files)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _write(wheel_directory, {"gpusim.pth": f"{HERE}\n".encode()})
