"""Public addresses: whatever a server does, the cache holds the right file or none, and the next source is tried."""

import gzip
from pathlib import Path

import pytest
import sources_kit as kit

from bilaw.datasets.sources.canonical import reason
from bilaw.datasets.sources.get import obtain
from bilaw.datasets.sources.offers import Request, Watch

FIRST = "train-images-idx3-ubyte"


def held(root):
    return {path.name: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_the_right_files_come_and_are_not_fetched_twice(tmp_path):
    asked = []
    known, contents = kit.small_mnist()
    with kit.serving(kit.gz_replies(contents), asked) as url:
        known = known._replace(urls=(url,))
        folder = obtain(known, tmp_path, source="canonical")
        assert held(tmp_path) == contents
        assert folder == tmp_path / "mnist"
        watch, lines = kit.noted()
        obtain(known, tmp_path, watch=watch)
    assert len(asked) == 4
    assert lines == [f"already complete in {folder}, all checksums right"]


BODY = kit.small_mnist()[1][FIRST]
PACKED = gzip.compress(BODY)
OTHER = kit.small_mnist(seed=7)[1][FIRST]
BAD = {
    "wrong bytes": (kit.whole(gzip.compress(OTHER)), f"{FIRST} = 'md5 {kit.md5(OTHER)}' is not accepted"),
    "a web page": (kit.whole(b"<html>log in first</html>"), f"{FIRST} = '25 bytes'"),
    "too short": (kit.whole(gzip.compress(BODY[:-1])), f"'{len(BODY) - 1} bytes'"),
    "too long": (kit.whole(gzip.compress(BODY + b"x")), f"more than {len(BODY)} bytes"),
    "truncated in flight": (kit.partly(PACKED[:9000], len(PACKED)), "9000"),
    "truncated at the source": (kit.whole(PACKED[:9000]), "cannot be read: Compressed file ended"),
    "damaged": (kit.whole(PACKED[:5000] + b"\0\0\0\0" + PACKED[5004:]), FIRST),
    "404": (None, "train-images-idx3-ubyte.gz: HTTP 404 Not Found"),
    "stalled": (kit.stalling(PACKED[:9000]), "no byte for 0.3 s"),
    "silent": (lambda handler, closing: closing.wait(60), "no byte for 0.3 s"),
    "crawling": (kit.endless(b"x" * 100, pause=0.1), "bytes a second"),
    "endless": (kit.endless(b"x" * 100_000), "bytes' is not accepted; it takes at most"),
    "announced too long": (kit.partly(b"x" * 9000, 10**12), "'1000000000000 bytes' is not accepted"),
    "a bomb": (kit.whole(gzip.compress(bytes(50_000_000))), f"more than {len(BODY)} bytes"),
    "a bomb in the transfer": (
        kit.whole(gzip.compress(bytes(50_000_000)), Content_Encoding="gzip"),
        "bytes' is not accepted; it takes at most",
    ),
    "no HTTP at all": (lambda handler, closing: handler.wfile.write(b"SSH-2.0-hello\r\n"), "SSH-2.0-hello"),
    "a length that is no number": (kit.partly(b"x" * 9000, "many"), "many"),  # type: ignore[arg-type]
    "two lengths": (kit.whole(PACKED, content_length="5"), "Content-Length"),
    "not what its encoding says": (kit.whole(BODY, Content_Encoding="gzip"), "failed to decode"),
    "a circle": (kit.redirect(f"/{FIRST}.gz"), "redirects"),
    "elsewhere on this machine": (kit.redirect("file:///etc/hostname"), "No connection adapters"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_server_leaves_nothing_and_the_next_one_is_tried(case, tmp_path, monkeypatch):
    monkeypatch.setattr("bilaw.datasets.sources.canonical.PIECE", 512)
    reply, why = BAD[case]
    good, contents = kit.small_mnist()
    bad = {**kit.gz_replies(contents), f"/{FIRST}.gz": reply}
    if reply is None:
        del bad[f"/{FIRST}.gz"]
    watch, lines = kit.noted()
    with kit.serving(bad) as one, kit.serving(kit.gz_replies(contents)) as two:
        with pytest.raises(ValueError, match="mnist could not be got; what was tried:") as refused:
            obtain(good._replace(urls=(one,)), tmp_path, source="canonical", patience=kit.HASTY)
        assert why in str(refused.value)
        assert not (tmp_path / "mnist").exists()
        obtain(good._replace(urls=(one, two)), tmp_path, source="canonical", patience=kit.HASTY, watch=watch)
    assert held(tmp_path) == contents
    (failed,) = (line for line in lines if line.startswith("failed"))
    assert failed.startswith(f"failed {one}: ")
    assert why in failed
    assert "\n" not in failed


def test_redirects_and_servers_that_unpack_are_followed(tmp_path):
    known, contents = kit.small_mnist()
    elsewhere = {path.replace("/", "/new-", 1): reply for path, reply in kit.gz_replies(contents).items()}
    moved = {f"/{name}.gz": kit.redirect(f"/new-{name}.gz") for name in contents}
    moved[f"/{FIRST}.gz"] = kit.whole(PACKED, Content_Encoding="gzip")
    with kit.serving({**elsewhere, **moved}) as url:
        obtain(known, tmp_path, url=url.rstrip("/"))
    assert held(tmp_path) == contents


def test_servers_are_asked_for_the_bytes_as_they_lie_there(tmp_path):
    known, contents = kit.small_mnist()
    asked = []

    def reply(handler, closing):
        asked.append(handler.headers["Accept-Encoding"])
        kit.whole(PACKED)(handler, closing)

    with kit.serving({**kit.gz_replies(contents), f"/{FIRST}.gz": reply}) as url:
        obtain(known, tmp_path, url=url)
    assert asked == ["identity"]


def test_what_one_server_had_is_kept_and_only_the_rest_is_asked_of_the_next(tmp_path):
    known, contents = kit.small_mnist()
    asked: list[str] = []
    some = kit.gz_replies({name: data for name, data in contents.items() if name.startswith("train")})
    with kit.serving(some) as one, kit.serving(kit.gz_replies(contents), asked) as two:
        obtain(known._replace(urls=(one, two)), tmp_path, source="canonical")
    assert asked == ["/t10k-images-idx3-ubyte.gz", "/t10k-labels-idx1-ubyte.gz"]
    assert held(tmp_path) == contents


def test_a_mirror_is_tried_in_place_of_the_public_addresses(tmp_path):
    public: list[str] = []
    known, _ = kit.small_mnist()
    with kit.serving({}, public) as theirs, kit.serving({}) as mirror, pytest.raises(ValueError, match="HTTP 404"):
        obtain(known._replace(urls=(theirs,)), tmp_path, url=mirror)
    assert public == []


def test_no_server_and_no_name_give_a_reason(tmp_path):
    known, _ = kit.small_mnist(("http://127.0.0.1:9/",))
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz: Connection refused$"):
        obtain(known, tmp_path, source="canonical")


@pytest.mark.parametrize("hundred", [False, True])
def test_an_archive_comes_apart_into_the_right_files(hundred, tmp_path):
    known, contents = kit.small_cifar(hundred=hundred)
    archive = kit.packed(known.layouts[0], contents)
    with kit.serving({f"/{known.archive.name}": kit.whole(archive)}) as url:
        folder = obtain(known, tmp_path, source="canonical", url=url)
    assert {file.name: (folder / file.name).read_bytes() for file in known.files} == contents


def test_files_without_a_checksum_of_their_own_need_the_right_archive(tmp_path):
    known, contents = kit.small_cifar(hundred=True)
    other = kit.packed("another-folder", contents)
    with (
        kit.serving({f"/{known.archive.name}": kit.whole(other)}) as url,
        pytest.raises(ValueError, match=rf"cifar-100-binary.tar.gz = 'md5 {kit.md5(other)}' is not accepted"),
    ):
        obtain(known, tmp_path, source="canonical", url=url)
    assert held(tmp_path) == {}


def test_progress_is_told_of_the_download_and_of_the_file(tmp_path):
    known, contents = kit.small_mnist()
    amounts = []
    watch = Watch(amount=lambda *told: amounts.append(told))
    with kit.serving(kit.gz_replies(contents)) as url:
        obtain(known, tmp_path, url=url, watch=watch)
    assert (f"{FIRST}.gz", len(PACKED), len(PACKED)) in amounts
    assert (FIRST, len(BODY), len(BODY)) in amounts


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("HTTPPool(host='x'): Max retries exceeded (Caused by ConnectTimeoutError(<y>, 'timed out'))", "within 10 s"),
        (
            "Pool(host='x'): (Caused by SSLError(1, '[SSL: FAILED] certificate verify failed (_ssl.c:1)'))",
            "verify failed",
        ),
        ("(Caused by NewConnectionError('<z>: [Errno 101] Network is unreachable'))", "Network is unreachable"),
        ("", "OSError"),
    ],
)
def test_the_reason_is_the_innermost_one(text, why):
    kind = type("ConnectTimeout", (OSError,), {}) if "timed out" in text else OSError
    said = reason(kind(text), Request(kit.MNIST, Path()))
    assert why in said
    assert "Caused by" not in said
