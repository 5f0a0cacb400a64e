"""A file comes into the cache whole and right, or not at all."""

import pytest
import sources_kit as kit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bilaw.datasets.known import File
from bilaw.datasets.verify import check_file, place

DATA = b"0123456789" * 100
RIGHT = File("data", len(DATA), kit.md5(DATA))


def test_the_right_content_is_placed_however_it_is_cut(tmp_path):
    for cut in (1, 7, 999, 5000):
        place(tmp_path / "data", RIGHT, (DATA[at : at + cut] for at in range(0, len(DATA), cut)))
        assert (tmp_path / "data").read_bytes() == DATA
        check_file(tmp_path / "data", RIGHT)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@given(st.binary(max_size=40).filter(lambda data: data != b"right"))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
def test_nothing_else_is(tmp_path, wrong):
    target = tmp_path / "data"
    target.write_bytes(b"before")
    with pytest.raises(ValueError, match="is not accepted"):
        place(target, File("data", 5, kit.md5(b"right")), [wrong])
    assert target.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_stream_that_never_ends_is_left(tmp_path):
    def stream():
        while True:
            yield b"x" * 300

    with pytest.raises(ValueError, match="data = 'more than 1000 bytes' is not accepted; it takes 1000 bytes"):
        place(tmp_path / "data", RIGHT, stream())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [OSError("unplugged"), EOFError("cut"), KeyboardInterrupt()])
def test_a_stream_that_breaks_leaves_nothing(error, tmp_path):
    def stream():
        yield DATA[:500]
        raise error

    with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else ValueError):
        place(tmp_path / "data", RIGHT, stream())
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_a_checksum_is_believed_when_vouched_for_and_kept_to_it(tmp_path):
    unknown, target = RIGHT._replace(md5=None), tmp_path / "data"
    with pytest.raises(ValueError, match="data = 'a loose file' is not accepted"):
        place(target, unknown, [DATA])
    place(target, unknown, [DATA], vouched=True)
    check_file(target, unknown)
    assert (tmp_path / "data.md5").read_text() == f"{kit.md5(DATA)}  data\n"  # as md5sum writes it
    target.write_bytes(DATA[::-1])
    with pytest.raises(ValueError, match=f"it takes md5 {kit.md5(DATA)}"):
        check_file(target, unknown)
    (tmp_path / "data.md5").unlink()
    with pytest.raises(ValueError, match="a file whose md5 was written down beside it"):
        check_file(target, unknown)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match=r"data = 'no file' is not accepted; it takes 1000 bytes in"):
        check_file(tmp_path / "data", RIGHT)
