"""What the tests of the sources share: small sets whose right content is known, and a server on this machine."""

import gzip
import hashlib
import io
import struct
import tarfile
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import torch

from bilaw.datasets import idx
from bilaw.datasets.known import CIFAR_10, CIFAR_100, MNIST, Archive, File, Known
from bilaw.datasets.sources.offers import Patience, Watch

Contents = dict[str, bytes]
OFFLINE = ("folder", "canonical")  # the default suite asks no registry
HASTY = Patience(connect=2, read=0.3, least=2_000)


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


def small_mnist(urls: tuple[str, ...] = (), seed: int = 0) -> tuple[Known, Contents]:
    """A set as MNIST, of 30 and 20 images."""
    rng, contents = np.random.default_rng(seed), {}
    for images, labels, n in ((MNIST.files[0], MNIST.files[1], 30), (MNIST.files[2], MNIST.files[3], 20)):
        contents[images.name] = idx.encode(torch.from_numpy(rng.integers(0, 256, (n, 28, 28), np.uint8)))
        contents[labels.name] = idx.encode(torch.from_numpy(rng.integers(0, 10, n).astype(np.uint8)))
    files = tuple(File(name, len(data), md5(data)) for name, data in contents.items())
    return MNIST._replace(files=files, images=(30, 20), urls=urls, sources=OFFLINE), contents


def small_cifar(urls: tuple[str, ...] = (), hundred: bool = False) -> tuple[Known, Contents]:
    """A set as CIFAR, of 4 images a file; its archive is `packed`."""
    real, labels = (CIFAR_100, 2) if hundred else (CIFAR_10, 1)
    rng, contents = np.random.default_rng(1), {}
    for file in real.files:
        rows = rng.integers(0, 256, (4, labels + 3072), np.uint8)
        rows[:, :labels] %= 10
        contents[file.name] = rows.tobytes()
    files = tuple(File(name, len(data), None if hundred else md5(data)) for name, data in contents.items())
    archive = Archive(real.archive.name, md5(packed(real.layouts[0], contents)))
    return real._replace(files=files, archive=archive, urls=urls, sources=OFFLINE), contents


def packed(folder: str, contents: Contents) -> bytes:
    """A .tar.gz as the authors publish it: the files in a folder, with a text beside them."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as stream, tarfile.open(fileobj=stream, mode="w") as tar:
        top = tarfile.TarInfo(folder)
        top.type = tarfile.DIRTYPE
        tar.addfile(top)
        for name, data in {**contents, "readme.html": b"<p>"}.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def png(rows: np.ndarray, filters: list[int]) -> bytes:
    """The PNG of (height, width, 3) pixels, one filter a row: predictions written the other way round."""
    height, width = rows.shape[:2]
    lines, above = [], np.zeros(3 * width, int)
    for row, kind in zip(rows.reshape(height, -1).astype(int), filters, strict=True):
        left, corner = (np.concatenate([[0, 0, 0], values[:-3]]) for values in (row, above))
        p = left + above - corner
        far = np.abs(np.stack([p - left, p - above, p - corner]))
        paeth = np.choose(far.argmin(0), [left, above, corner])
        guess = [0 * row, left, above, (left + above) // 2, paeth][kind]
        lines.append(bytes([kind]) + ((row - guess) % 256).astype(np.uint8).tobytes())
        above = row
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(b"".join(lines))
    half = len(data) // 2
    parts = ((b"IHDR", header), (b"IDAT", data[:half]), (b"IDAT", data[half:]), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, part) for kind, part in parts)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def noted() -> tuple[Watch, list[str]]:
    lines: list[str] = []
    return Watch(note=lines.append), lines


Reply = Callable[[BaseHTTPRequestHandler, threading.Event], None]


def whole(data: bytes, **headers: str) -> Reply:
    return partly(data, len(data), **headers)


def partly(data: bytes, announced: int, **headers: str) -> Reply:
    """Announce `announced` bytes and send `data`."""

    def reply(handler: BaseHTTPRequestHandler, closing: threading.Event) -> None:
        handler.send_response(200)
        for name, value in {"Content-Length": str(announced), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return reply


def stalling(data: bytes, reached: threading.Event | None = None) -> Reply:
    """Send `data`, and then nothing, without hanging up."""

    def reply(handler: BaseHTTPRequestHandler, closing: threading.Event) -> None:
        partly(data, 10 * len(data) + 10_000)(handler, closing)
        if reached:
            reached.set()
        closing.wait(60)

    return reply


def endless(piece: bytes, pause: float = 0) -> Reply:
    def reply(handler: BaseHTTPRequestHandler, closing: threading.Event) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not closing.wait(pause):
            handler.wfile.write(piece)

    return reply


def redirect(to: str) -> Reply:
    def reply(handler: BaseHTTPRequestHandler, closing: threading.Event) -> None:
        handler.send_response(302)
        handler.send_header("Location", to)
        handler.end_headers()

    return reply


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that hang up are what the tests are about."""


@contextmanager
def serving(replies: Mapping[str, Reply], asked: list[str] | None = None) -> Iterator[str]:
    """Serve `replies` by path, 404 for the rest, and give the address."""
    closing = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if asked is not None:
                asked.append(self.path)
            if self.path in replies:
                replies[self.path](self, closing)
            else:
                self.send_error(404)

        def log_message(self, *args: object) -> None: ...

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


def gz_replies(contents: Contents) -> dict[str, Reply]:
    return {f"/{name}.gz": whole(gzip.compress(data)) for name, data in contents.items()}
