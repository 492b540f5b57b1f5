"""Every codec both ways, the framings Java uses, damaged input, and the hard bound on output."""

import gzip
import os
import subprocess
import sys
import textwrap

import cramjam
import pytest

from tidelog.codec.compression import CompressionType, DecompressionError, compress, decompress

CODECS = [codec for codec in CompressionType if codec]
SAMPLES = {"empty": b"", "one": b"x", "text": b"hello tidelog " * 20_000, "noise": os.urandom(200_000)}


@pytest.mark.parametrize("codec", list(CompressionType))
@pytest.mark.parametrize("sample", SAMPLES)
def test_round_trip_at_the_exact_limit(codec: CompressionType, sample: str) -> None:
    data = SAMPLES[sample]
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    assert decompress(codec, memoryview(packed), len(data) + 1) == data


@pytest.mark.parametrize("codec", list(CompressionType))
@pytest.mark.parametrize("sample", ["one", "text", "noise"])
def test_one_byte_over_the_limit_is_refused(codec: CompressionType, sample: str) -> None:
    data = SAMPLES[sample]
    with pytest.raises(DecompressionError, match="larger than"):
        decompress(codec, compress(codec, data), len(data) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_damage_is_refused(codec: CompressionType) -> None:
    packed = compress(codec, SAMPLES["text"])
    for damaged in (packed[:-3], packed[: len(packed) // 2], b"\x00" * 20, os.urandom(64)):
        with pytest.raises(DecompressionError):
            decompress(codec, damaged, 1 << 20)


def test_unknown_codec_is_refused() -> None:
    with pytest.raises(DecompressionError):
        decompress(5, b"abc", 100)


def test_snappy_is_written_in_the_framing_of_java() -> None:
    packed = compress(CompressionType.SNAPPY, SAMPLES["text"])
    assert packed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    first_block = int.from_bytes(packed[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + first_block])) == SAMPLES["text"][: 32 * 1024]


def test_raw_snappy_is_read() -> None:
    packed = bytes(cramjam.snappy.compress_raw(SAMPLES["text"]))
    assert decompress(CompressionType.SNAPPY, packed, 1 << 20) == SAMPLES["text"]


def test_snappy_streams_one_after_another_are_read() -> None:
    packed = compress(CompressionType.SNAPPY, b"ab") + compress(CompressionType.SNAPPY, b"cd")
    assert decompress(CompressionType.SNAPPY, packed, 4) == b"abcd"


def test_snappy_that_claims_gigabytes_is_refused_before_anything_is_allocated() -> None:
    for block in (b"\xff\xff\xff\xff\x0f" + b"x" * 50, b"\x80\x80\x80\x02" + b"x" * 50):
        with pytest.raises(DecompressionError):
            decompress(CompressionType.SNAPPY, block, 1 << 30)


def test_lz4_frames_have_independent_blocks() -> None:
    packed = compress(CompressionType.LZ4, SAMPLES["text"])
    assert packed[:4] == b"\x04\x22\x4d\x18"
    # Version 01, blocks independent, no content size: the only descriptor Java's reader takes without a checksum quirk.
    assert packed[4] & 0b1110_1011 == 0b0110_0000


def test_lz4_with_linked_blocks_is_read() -> None:
    writer = cramjam.lz4.Compressor(block_linked=True, content_checksum=True)
    writer.compress(SAMPLES["text"])
    assert decompress(CompressionType.LZ4, bytes(writer.finish()), 1 << 20) == SAMPLES["text"]


def test_gzip_of_several_members_is_read() -> None:
    packed = gzip.compress(b"ab") + gzip.compress(b"cd" * 100_000)
    assert decompress(CompressionType.GZIP, packed, 1 << 20) == b"ab" + b"cd" * 100_000


def test_gzip_with_a_lying_size_is_read() -> None:
    packed = bytearray(gzip.compress(b"x" * 100_000))
    lying = bytes(packed[:-4]) + b"\x01\x00\x00\x00"
    with pytest.raises(DecompressionError):
        decompress(CompressionType.GZIP, lying, 1 << 20)


@pytest.mark.parametrize("level", [None, 1, 9])
@pytest.mark.parametrize("codec", CODECS)
def test_levels(codec: CompressionType, level: int | None) -> None:
    assert decompress(codec, compress(codec, SAMPLES["text"], level), 1 << 20) == SAMPLES["text"]


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_costs_no_more_memory_than_the_limit(codec: CompressionType) -> None:
    """Some kilobytes that unpack to 1 GiB, in a process of its own whose peak memory is compared with the limit."""
    script = textwrap.dedent(f"""
        import resource, zlib
        import cramjam
        from tidelog.codec.compression import DecompressionError, compress, decompress

        size, limit = 1 << 30, 8 << 20
        chunk = bytes(1 << 20)
        codec = {int(codec)}
        if codec == 1:
            packer = zlib.compressobj(9, zlib.DEFLATED, 31)
            bomb = b"".join(packer.compress(chunk) for _ in range(size >> 20)) + packer.flush()
        elif codec == 2:
            block = compress(2, chunk)
            bomb = block + block[16:] * 200
        elif codec == 3:
            bomb = compress(3, bytes(64 << 20)) * 4
        else:
            frame = compress(4, bytes(64 << 20))
            bomb = frame * (size >> 26)
        decompress(codec, compress(codec, b"warm"), 100)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # The peak so far includes building the bomb: fill it up so that any growth shows.
        held = bytearray(b"x") * ((before << 10) - (int(open("/proc/self/statm").read().split()[1]) << 12))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            decompress(codec, bomb, limit)
        except DecompressionError as error:
            assert "larger than" in str(error), error
        else:
            raise SystemExit("the bomb went through")
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
        print(len(bomb), grown)
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    bomb_bytes, grown = map(int, done.stdout.split())
    assert bomb_bytes < 12 << 20
    assert grown <= (8 << 20) + (10 << 20), f"{grown} bytes for a limit of 8 MiB"
