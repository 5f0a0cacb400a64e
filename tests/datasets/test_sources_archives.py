"""Archives nobody has to trust."""

import gzip
import io
import re
import tarfile
import zipfile

import pytest
import sources_kit as kit
from hypothesis import given, settings
from hypothesis import strategies as st

from bilaw.datasets.sources.archives import tar_members, unpacked, zip_members
from bilaw.datasets.sources.get import obtain
from bilaw.datasets.verify import UNREADABLE


def tar_of(*members):
    """A tar of (name, data, type, link target)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data, kind, target in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, target, len(data)
            tar.addfile(member, io.BytesIO(data))
    out.seek(0)
    return out


def plain(name, data=b"data"):
    return name, data, tarfile.REGTYPE, ""


def read(stream, names=("a.bin",), limit=100_000):
    return {name: content.read() for name, content in tar_members(stream, names, limit)}


def test_the_wanted_members_are_read_and_the_others_passed_over():
    stream = tar_of(plain("top/code.py"), plain("top/a.bin", b"one"), plain("top/b.bin", b"two"))
    assert read(stream, ("a.bin", "b.bin")) == {"a.bin": b"one", "b.bin": b"two"}


BAD_TARS = {
    "upwards": ((plain("../a.bin"),), "'../a.bin' is not accepted; it takes a path inside"),
    "upwards within": ((plain("top/../../a.bin"),), "a path inside the archive"),
    "absolute": ((plain("/etc/a.bin"),), "a path inside the archive"),
    "another drive": ((plain("C:\\a.bin"),), "a path inside the archive"),
    "upwards as Windows writes it": ((plain("..\\a.bin"),), "a path inside the archive"),
    "a symbolic link": ((("a.bin", b"", tarfile.SYMTYPE, "/etc/passwd"),), "a regular file, not a link"),
    "a hard link": ((("a.bin", b"", tarfile.LNKTYPE, "b.bin"),), "a regular file, not a link"),
    "a link nobody wants": ((("z", b"", tarfile.SYMTYPE, "/"), plain("z/a.bin")), "a regular file, not a link"),
    "a device": ((("a.bin", b"", tarfile.CHRTYPE, ""),), "a regular file, not a link or a device"),
    "a pipe": ((("a.bin", b"", tarfile.FIFOTYPE, ""),), "a regular file, not a link or a device"),
    "the same name twice": ((plain("one/a.bin"), plain("two/a.bin")), "one file of that name, not two"),
    "too much that is wanted": ((plain("a.bin", bytes(200_000)),), "more than 100000 bytes unpacked"),
    "too much beside it": ((plain("b.bin", bytes(200_000)), plain("a.bin")), "more than 100000 bytes unpacked"),
}


@pytest.mark.parametrize("case", BAD_TARS)
def test_a_bad_tar_is_refused(case):
    members, why = BAD_TARS[case]
    with pytest.raises(ValueError, match=re.escape(why)):
        read(tar_of(*members))


def test_a_sparse_file_which_unfolds_from_nothing_is_refused():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("a.bin")
        member.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 40)}
        tar.addfile(member)
    out.seek(0)
    with pytest.raises(ValueError, match="a regular file, not a link"):
        read(out)


def test_a_header_that_claims_a_huge_name_is_left_at_the_limit():
    claim = tarfile.TarInfo("././@LongLink")
    claim.type, claim.size = tarfile.GNUTYPE_LONGNAME, 8 << 30

    class Zeros(io.RawIOBase):
        first, given = claim.tobuf(tarfile.GNU_FORMAT), 0

        def read(self, size=-1):
            data, type(self).first = self.first or bytes(size), b""
            type(self).given += len(data)
            return data

    with pytest.raises(ValueError, match="more than 5000000 bytes unpacked"):
        read(Zeros(), limit=5_000_000)
    assert Zeros.given < 8_000_000


@given(data=st.binary(max_size=600), at=st.integers(0, 3000))
@settings(max_examples=60, deadline=None)
def test_a_damaged_tar_ends_in_an_error_that_is_understood_or_in_the_right_members_names(data, at):
    raw = bytearray(tar_of(plain("a.bin", b"x" * 700), plain("b.bin")).getvalue())
    raw[at : at + len(data)] = data
    try:
        assert set(read(io.BytesIO(bytes(raw)))) <= {"a.bin"}
    except (ValueError, *UNREADABLE):
        pass


def zip_of(path, *members, link=None):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
        if link:
            info = zipfile.ZipInfo(link)
            info.external_attr = 0o120777 << 16
            archive.writestr(info, "/etc/passwd")
    return path


def test_a_zip_gives_the_wanted_members(tmp_path):
    path = zip_of(tmp_path / "a.whl", ("pkg/code.py", "x"), ("pkg/a.csv", "1,2"))
    assert {name: content.read() for name, content in zip_members(path, {"a.csv": 3})} == {"a.csv": b"1,2"}


BAD_ZIPS = {
    "upwards": ((("../a.csv", "1"),), None, "a path inside the archive"),
    "absolute": ((("/a.csv", "1"),), None, "a path inside the archive"),
    "a link": ((), "a.csv", "a regular file, not a link"),
    "too long": ((("a.csv", "1" * 1000),), None, "'1000 bytes' is not accepted; it takes at most 100 bytes"),
    "twice": ((("x/a.csv", "1"), ("y/a.csv", "1")), None, "one file of that name, not two"),
}


@pytest.mark.parametrize("case", BAD_ZIPS)
def test_a_bad_zip_is_refused(case, tmp_path):
    members, link, why = BAD_ZIPS[case]
    path = zip_of(tmp_path / "a.whl", *members, link=link)
    with pytest.raises(ValueError, match=re.escape(why)):
        list(zip_members(path, {"a.csv": 100}))


def test_a_zip_that_understates_a_member_yields_no_more_than_it_says(tmp_path):
    path = zip_of(tmp_path / "a.whl", ("a.csv", "1" * 1_000_000))
    raw = path.read_bytes().replace((1_000_000).to_bytes(4, "little"), (50).to_bytes(4, "little"))
    path.write_bytes(raw)
    members = zip_members(path, {"a.csv": 100})
    _, content = next(members)
    with pytest.raises(zipfile.BadZipFile, match="Bad CRC"):
        content.read(1000)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_is_told_gzipped_or_plain_by_its_first_bytes(pack, tmp_path):
    path = tmp_path / "whatever"
    path.write_bytes(pack(b"\0\0\x08\x01 and so on"))
    assert b"".join(unpacked(path)) == b"\0\0\x08\x01 and so on"


@pytest.mark.parametrize("broken", ["cut", "not gzip", "not tar", "bomb"])
def test_a_broken_archive_leaves_the_cache_as_it_was(broken, tmp_path):
    known, contents = kit.small_cifar()
    good = kit.packed(known.layouts[0], contents)
    (tmp_path / "mine").mkdir()
    path = tmp_path / "mine" / known.archive.name
    bomb = tar_of(plain("zeros", bytes(30_000_000))).getvalue()
    path.write_bytes(
        {
            "cut": good[: len(good) // 6],
            "not gzip": b"PK" + good,
            "not tar": gzip.compress(b"hello" * 999),
            "bomb": gzip.compress(bomb),
        }[broken]
    )
    with pytest.raises(ValueError, match=str(path)):
        obtain(known, tmp_path / "cache", folder=tmp_path / "mine", source="folder")
    assert not (tmp_path / "cache" / "cifar-10").exists()
