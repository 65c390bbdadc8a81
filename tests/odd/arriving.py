"""Odd files, names and archives, as they arrive."""

import json
import os
import zipfile
from functools import partial
from pathlib import Path

import nbformat

from tests.odd.rows import FULL, NAME, row


def put(folder: Path, notebook: dict, name: str = NAME) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook))
    return path


RENAMED = {
    "a browser's second download: scaled_dot_product (1).ipynb": "scaled_dot_product (1).ipynb",
    "upper case: Scaled_Dot_Product.IPYNB": "Scaled_Dot_Product.IPYNB",
    "Jupyter's copy: scaled_dot_product-Copy1.ipynb": "scaled_dot_product-Copy1.ipynb",
    "blanks and the topic's number: 02 scaled dot product.ipynb": "02 scaled dot product.ipynb",
    "any name in a folder of the topic": "02_scaled_dot_product/my solution.ipynb",
}
for what, file in RENAMED.items():
    row(what, "repaired", says="name was put right")(partial(put, name=file))


@row("a name that no topic has", "refused", None, says="expected one of")
def _(folder, notebook):
    put(folder, notebook, "homework.ipynb")


@row("a byte order mark", "repaired", says="byte order mark")
def _(folder, notebook):
    (folder / NAME).write_bytes(b"\xef\xbb\xbf" + json.dumps(notebook).encode())


@row("UTF-16", "repaired", says="UTF-16")
def _(folder, notebook):
    (folder / NAME).write_bytes(json.dumps(notebook).encode("utf-16"))


@row("Windows line ends in the file", "repaired", says="Line ends")
def _(folder, notebook):
    (folder / NAME).write_bytes(json.dumps(notebook, indent=1).replace("\n", "\r\n").encode())


@row("nbformat 4.0", "repaired", says="cell ids")
def _(folder, notebook):
    for cell in notebook["cells"]:
        cell.pop("id")
    put(folder, notebook | {"nbformat_minor": 0})


@row("nbformat 4.4", "repaired", says="cell ids")
def _(folder, notebook):
    for cell in notebook["cells"]:
        cell.pop("id")
    put(folder, notebook | {"nbformat_minor": 4})


@row("nbformat 3", "repaired", says="old format")
def _(folder, notebook):
    old = nbformat.convert(nbformat.from_dict(notebook), 3)
    put(folder, old)


@row("nbformat 99", "refused", None, says="not a notebook")
def _(folder, notebook):
    put(folder, notebook | {"nbformat": 99})


@row("another kernel", "repaired", says="kernel")
def _(folder, notebook):
    notebook["metadata"]["kernelspec"] = {"name": "julia-1.9", "display_name": "Julia", "language": "julia"}
    put(folder, notebook)


@row("not JSON", "refused", None, says="hand it in again")
def _(folder, notebook):
    (folder / NAME).write_text("{not json")


@row("an empty file", "refused", None, says="not a notebook")
def _(folder, notebook):
    (folder / NAME).write_text("")


@row("JSON that is no notebook", "refused", None, says="not a notebook")
def _(folder, notebook):
    (folder / NAME).write_text("[1, 2, 3]")


@row("JSON a hundred thousand deep", "refused", None, says="nested too deeply")
def _(folder, notebook):
    (folder / NAME).write_text("[" * 100_000)


@row("random bytes", "refused", None, says="not a notebook")
def _(folder, notebook):
    (folder / NAME).write_bytes(bytes(range(256)) * 40)


@row("30 MiB", "refused", None, says="20 MiB")
def _(folder, notebook):
    put(folder, notebook | {"metadata": {"padding": "x" * (30 << 20)}})


@row("a symbolic link", "refused", None, says="symbolic link")
def _(folder, notebook):
    (folder / NAME).symlink_to("/etc/passwd")


@row("a linked folder", "refused", None, says="symbolic link")
def _(folder, notebook):
    (folder / "02_scaled_dot_product").symlink_to("/etc")


@row("a hard link", "refused", None, says="hard link")
def _(folder, notebook):
    other = put(folder.parent.parent, notebook, "elsewhere.txt")
    os.link(other, folder / NAME)


@row("a pipe", "refused", None, says="pipe")
def _(folder, notebook):
    os.mkfifo(folder / NAME)


@row("a timestamp.txt of the learner's", "accepted", FULL)
def _(folder, notebook):
    put(folder, notebook)
    (folder / "timestamp.txt").write_text("1970-01-01 00:00:00 UTC")
    (folder / "02_scaled_dot_product").mkdir()
    (folder / "02_scaled_dot_product" / "timestamp.txt").write_bytes(b"\xff garbage")


@row("Python files beside the notebook", "accepted", FULL)
def _(folder, notebook):
    put(folder, notebook)
    for name in ("torch.py", "conftest.py", "sitecustomize.py", "x.pth", "nbgrader_config.py"):
        (folder / name).write_text("raise SystemExit")


@row("a checkpoint folder of Jupyter's", "accepted", FULL)
def _(folder, notebook):
    put(folder, notebook)
    put(folder, {"cells": []}, ".ipynb_checkpoints/scaled_dot_product-checkpoint.ipynb")


# -- archives ----------------------------------------------------------------------------------------------------------


def archive(folder: Path, members: dict[str, bytes | str], **info: int) -> None:
    """A zip archive instead of the folder."""
    with zipfile.ZipFile(folder.parent.parent / "archive.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            member = zipfile.ZipInfo(name, (2026, 3, 1, 12, 30, 10))
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = info.get("mode", 0o100644) << 16
            file.writestr(member, data)


@row("Canvas", "repaired", FULL)
def _(folder, notebook):
    archive(folder, {"doejane_12345_67890_scaled_dot_product-1.ipynb": json.dumps(notebook)})


@row("Canvas, late", "repaired", FULL, says="late")
def _(folder, notebook):
    archive(folder, {"doejane_LATE_12345_67890_scaled_dot_product.ipynb": json.dumps(notebook)})


@row("Canvas, handed in twice", "repaired", FULL)
def _(folder, notebook):
    old = json.dumps(notebook | {"cells": []})
    members = {
        "doejane_12345_67890_scaled_dot_product.ipynb": old,
        "doejane_12345_67999_scaled_dot_product-1.ipynb": json.dumps(notebook),
    }
    archive(folder, members)


@row("Canvas, two people of one name", "refused", None, says="two people")
def _(folder, notebook):
    text = json.dumps(notebook)
    archive(folder, {f"doejane_{n}_{n}_scaled_dot_product.ipynb": text for n in (111, 222)})


@row("Moodle, with folders", "accepted", FULL)
def _(folder, notebook):
    archive(folder, {"Jane Doe_12345_assignsubmission_file_/scaled_dot_product.ipynb": json.dumps(notebook)})


@row("Moodle, without folders", "accepted", FULL)
def _(folder, notebook):
    archive(folder, {"Jane Doe_12345_assignsubmission_file_scaled_dot_product.ipynb": json.dumps(notebook)})


@row("Moodle, a second attempt", "accepted", FULL)
def _(folder, notebook):
    members = {
        "Jane Doe_12345_assignsubmission_file_/scaled_dot_product.ipynb": json.dumps(notebook | {"cells": []}),
        "Jane Doe_12345_attempt2_assignsubmission_file_/scaled_dot_product.ipynb": json.dumps(notebook),
    }
    archive(folder, members)


@row("Moodle, a learner's folder that claims to be another's", "accepted", FULL)
def _(folder, notebook):
    own = "Jane Doe_12345_assignsubmission_file_"
    members = {
        f"{own}/John Roe_9_assignsubmission_file_/scaled_dot_product.ipynb": json.dumps(notebook | {"cells": []}),
        f"{own}/scaled_dot_product.ipynb": json.dumps(notebook),
    }
    archive(folder, dict(sorted(members.items())))


@row("an archive that climbs out", "refused", None, says="climbs out")
def _(folder, notebook):
    archive(folder, {"../../anna/scaled_dot_product.ipynb": json.dumps(notebook)})


@row("an archive with an absolute path", "refused", None, says="climbs out")
def _(folder, notebook):
    archive(folder, {"/etc/scaled_dot_product.ipynb": json.dumps(notebook)})


@row("an archive with a drive letter", "refused", None, says="climbs out")
def _(folder, notebook):
    archive(folder, {"C:\\anna\\scaled_dot_product.ipynb": json.dumps(notebook)})


@row("a symbolic link in an archive", "refused", None, says="symbolic link")
def _(folder, notebook):
    archive(folder, {f"anna/{NAME}": "/etc/passwd"}, mode=0o120777)


@row("a device in an archive", "refused", None, says="device")
def _(folder, notebook):
    archive(folder, {f"anna/{NAME}": "x"}, mode=0o020666)


@row("an archive bomb", "refused", None, says="times its size")
def _(folder, notebook):
    archive(folder, {f"anna/{NAME}": b" " * (18 << 20)})


@row("a member that is too large", "refused", None, says="MiB")
def _(folder, notebook):
    archive(folder, {f"anna/{NAME}": os.urandom(1 << 20) * 25})


REFUSED_NAMES = {
    "a name with control characters": ("anna\x1b[31m", "invisible"),
    "a name that Windows keeps for itself": ("con", "can't store"),
    "a name of 300 bytes": ("a" * 300, "longer"),
    "a student's name that begins a formula": ("=1+1", "can't be a folder"),
    "a name of 62 letters of four bytes": (chr(0x20000) * 62, "can't be a folder"),
    "a name whose letters grow when they are made uniform": (chr(0xFA6C) * 64, "can't be a folder"),
}


def archive_of(folder: Path, notebook: dict, student: str) -> None:
    archive(folder, {f"{student}/{NAME}": json.dumps(notebook)})


for what, (student, reason) in REFUSED_NAMES.items():
    row(what, "refused", None, says=reason)(partial(archive_of, student=student))


@row("a notebook that belongs to nobody", "refused", None, says="whose it is")
def _(folder, notebook):
    archive(folder, {NAME: json.dumps(notebook)})


@row("an archive cut off in the middle", "refused", None, says="expected a folder or a zip archive")
def _(folder, notebook):
    archive(folder, {f"anna/{NAME}": json.dumps(notebook)})
    path = folder.parent.parent / "archive.zip"
    path.write_bytes(path.read_bytes()[:-40])


@row("an encrypted member", "refused", None, says="encrypted")
def _(folder, notebook):
    archive(folder, {f"anna/{NAME}": json.dumps(notebook)})
    path = folder.parent.parent / "archive.zip"
    data = bytearray(path.read_bytes())
    data[data.rfind(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)


@row("a heading of nbformat 3 of level 10**12", "repaired", 0.0, says="old format")
def _(folder, notebook):
    cells = [{"cell_type": "heading", "level": 10**12, "source": "x", "metadata": {}}]
    put(folder, {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": cells}]})


@row("Moodle, a learner whose name claims to be another's", "accepted", FULL)
def _(folder, notebook):
    other = "John Roe_9_assignsubmission_file__77_assignsubmission_file_"
    members = {
        f"John Roe_9_assignsubmission_file_/{NAME}": json.dumps(notebook),
        f"{other}/{NAME}": json.dumps(notebook | {"cells": []}),
    }
    archive(folder, members)


@row("Moodle without folders, a learner whose name claims to be another's", "refused", None, says="whose it is")
def _(folder, notebook):
    archive(folder, {f"John Roe_9_assignsubmission_file__77_assignsubmission_file_{NAME}": json.dumps(notebook)})


@row("two folders whose names become the same", "refused", None, says="two people")
def _(folder, notebook):
    archive(folder, {f"{name}/{NAME}": json.dumps(notebook) for name in ("anna", chr(0xFF41) + "nna")})
