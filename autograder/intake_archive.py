"""The files of a folder or of a zip archive, each with the time that intake itself saw, or with what is wrong with it.

Nothing is unpacked to disk and no link is followed.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from autograder.intake_names import SUFFIX, bad_path
from autograder.reading import MAX_BYTES, Refused, bytes_of

MIB = 1 << 20
MAX_FILES = 50_000
MAX_TOTAL = 4 << 30
MAX_RATIO = 200
MAX_DIRECTORY = 32 * MIB
NEVER = datetime(1980, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Incoming:
    """One file as it came: its path inside the source, its time, what is wrong with it; the bytes of a notebook."""

    path: PurePosixPath
    when: datetime
    problem: str
    data: bytes = b""


def files_of(source: Path) -> Iterator[Incoming]:
    """Never raises for a bad file; a source that is neither a folder nor an archive is one bad file."""
    if source.is_dir():
        yield from _folder(source)
    elif source.is_file() and zipfile.is_zipfile(source):
        yield from _archive(source)
    else:
        what = "there is no such file" if not source.exists() else "it is neither"
        yield Incoming(PurePosixPath(source.name or "."), NEVER, f"expected a folder or a zip archive; {what}.")


def is_notebook(path: PurePosixPath) -> bool:
    return path.name.lower().endswith(SUFFIX)


# -- a folder ----------------------------------------------------------------------------------------------------------


def _folder(source: Path) -> Iterator[Incoming]:
    number = 0
    unreadable: list[OSError] = []
    for folder, folders, names in os.walk(source, onerror=unreadable.append):
        folders.sort()
        linked = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted([*names, *linked]):
            number += 1
            path = Path(folder, name)
            inside = PurePosixPath(*path.relative_to(source).parts)
            if number > MAX_FILES:
                yield Incoming(inside, NEVER, f"the folder holds more than {MAX_FILES} files.")
                return
            yield _file(path, inside)
    for error in unreadable:
        inside = PurePosixPath(os.path.relpath(error.filename, source))
        yield Incoming(inside, NEVER, f"the folder can't be read ({error.strerror}).")


def _file(path: Path, inside: PurePosixPath) -> Incoming:
    try:
        status = path.lstat()
        when = datetime.fromtimestamp(int(status.st_mtime), UTC)
    except OSError as error:
        return Incoming(inside, NEVER, f"it can't be read ({error.strerror}).")
    except (OverflowError, ValueError):
        when = NEVER
    problem = bad_path(str(inside)) or _kind_problem(status.st_mode, status.st_nlink) or _size_problem(status.st_size)
    if problem or not is_notebook(inside):
        return Incoming(inside, when, problem)
    try:
        return Incoming(inside, when, "", bytes_of(path))
    except Refused as error:
        return Incoming(inside, when, str(error))


def _kind_problem(mode: int, links: int) -> str:
    if stat.S_ISLNK(mode):
        return "it is a symbolic link; expected a file."
    if not stat.S_ISREG(mode):
        return "it is a pipe, a socket or a device; expected a file."
    return "it is a hard link to another file; expected a file of its own." if links > 1 else ""


def _size_problem(size: int) -> str:
    return f"it has {size / MIB:.0f} MiB; a submission may have {MAX_BYTES >> 20} MiB." if size > MAX_BYTES else ""


# -- a zip archive -----------------------------------------------------------------------------------------------------


def _archive(source: Path) -> Iterator[Incoming]:
    whole = PurePosixPath(source.name)
    if _directory_size(source) > MAX_DIRECTORY:
        yield Incoming(whole, NEVER, f"the archive's list of files is larger than {MAX_DIRECTORY // MIB} MiB.")
        return
    try:
        archive = zipfile.ZipFile(source)
    except Exception as error:  # whatever a damaged archive makes of zipfile
        yield Incoming(whole, NEVER, f"the archive can't be opened ({type(error).__name__}). Download it again.")
        return
    total = 0
    with archive:
        for number, info in enumerate(archive.infolist()):
            if info.is_dir():
                continue
            total += info.file_size if is_notebook(_inside(info)) else 0  # nothing else is read
            if number >= MAX_FILES or total > MAX_TOTAL:
                text = f"the archive holds more than {MAX_FILES} files or {MAX_TOTAL >> 30} GiB; the rest was not read."
                yield Incoming(_inside(info), NEVER, text)
                return
            yield _member(archive, info)


def _directory_size(source: Path) -> int:
    """The size of an archive's list of files as its last record states it, before anything builds that list."""
    with source.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - 66_000))
        tail = file.read()
    place, large = tail.rfind(b"PK\x05\x06", 0, max(0, len(tail) - 18)), tail.rfind(b"PK\x06\x06")
    size = struct.unpack_from("<I", tail, place + 12)[0] if place >= 0 else 0
    if size == 0xFFFFFFFF and 0 <= large <= len(tail) - 48:
        size = struct.unpack_from("<Q", tail, large + 40)[0]
    return int(size)


def _inside(info: zipfile.ZipInfo) -> PurePosixPath:
    return PurePosixPath(info.filename.replace("\\", "/"))


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Incoming:
    path, when = _inside(info), _time_of(info)
    problem = bad_path(str(path)) or _member_problem(info)
    if problem or not is_notebook(path):
        return Incoming(path, when, problem)
    try:
        with archive.open(info) as member:
            data = member.read(MAX_BYTES + 1)
    except Exception as error:  # a damaged member is that member's problem alone
        return Incoming(path, when, f"it can't be unpacked ({type(error).__name__}).")
    return Incoming(path, when, _size_problem(len(data)), data)


def _member_problem(info: zipfile.ZipInfo) -> str:
    mode = info.external_attr >> 16
    if stat.S_IFMT(mode) and not stat.S_ISREG(mode):
        return _kind_problem(mode, 1)
    if info.flag_bits & 1:
        return "it is encrypted."
    if info.file_size > MIB and info.file_size > MAX_RATIO * max(1, info.compress_size):
        return f"it unpacks to more than {MAX_RATIO} times its size."
    return _size_problem(info.file_size)


def _time_of(info: zipfile.ZipInfo) -> datetime:
    """When the file was last changed: the archive's UTC time where it has one, else its own clock read as UTC."""
    try:
        extra = info.extra
        while len(extra) >= 4:
            kind, size = struct.unpack_from("<HH", extra)
            if kind == 0x5455 and size >= 5 and extra[4] & 1:
                return datetime.fromtimestamp(struct.unpack_from("<i", extra, 5)[0], UTC)
            extra = extra[4 + size :]
        return datetime(*info.date_time, tzinfo=UTC)
    except (ValueError, struct.error, OverflowError, OSError, IndexError):
        return NEVER
