"""Reads a safetensors file with nothing but the format's description, as a reference for what
Ferrite writes: one JSON line a tensor, in the header's order, after one with the metadata. Fails
where the file breaks the format, or where a checksum of Ferrite's (docs/checkpoints.md) is wrong.
Where Python's safetensors package is installed it must read the same bytes.

    python3 read_safetensors.py FILE
"""

import json
import math
import struct
import sys
import zlib

SIZES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "U8": 1, "BOOL": 1}
FORMS = {"F64": "d", "I64": "q", "F32": "f", "I32": "i", "F16": "e", "BF16": "H", "U8": "B", "BOOL": "?"}


def values_of(dtype, raw):
    values = struct.unpack(f"<{len(raw) // SIZES[dtype]}{FORMS[dtype]}", raw)
    if dtype == "BF16":
        values = [struct.unpack("<f", struct.pack("<I", v << 16))[0] for v in values]
    return list(values)


def main(path):
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    assert length % 8 == 0, "the data is not aligned"
    header = json.loads(content[8 : 8 + length].decode("utf-8"))
    data = content[8 + length :]
    metadata = header.pop("__metadata__", {})
    known = json.loads(metadata.get("ferrite.tensors", "{}"))
    sums = 0

    end = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = entry["data_offsets"]
        size = SIZES[entry["dtype"]]
        assert begin == end and begin % size == 0, f"{name} is not where it must be"
        assert stop - begin == math.prod(entry["shape"]) * size, f"{name} has a wrong size"
        end = stop
    assert end == len(data), "the tensors do not end with the file"

    text = "".join(f"{n}\n{e['dtype']}\n{e['shape']}\n" for n, e in sorted(header.items()))
    rest = {k: v for k, v in metadata.items() if k != "ferrite.header_crc32"}
    text += "".join(f"{k}\n{v}\n" for k, v in sorted(rest.items()))
    if "ferrite.header_crc32" in metadata:
        assert metadata["ferrite.header_crc32"] == f"{zlib.crc32(text.encode()):08x}", "header"
        sums += 1

    print(json.dumps({k: v for k, v in sorted(metadata.items()) if not k.startswith("ferrite.")}))
    for name, entry in header.items():
        begin, stop = entry["data_offsets"]
        raw = data[begin:stop]
        mine = known.get(name, {})
        if "crc32" in mine:
            assert mine["crc32"] == f"{zlib.crc32(raw):08x}", f"{name} has another checksum"
            sums += 1
        print(json.dumps([name, entry["dtype"], entry["shape"], values_of(entry["dtype"], raw)]))
    print(json.dumps({"checksums": sums}))

    try:
        import safetensors
    except ImportError:
        return
    theirs = {name: bytes(tensor["data"]) for name, tensor in safetensors.deserialize(content)}
    assert theirs == {n: data[slice(*e["data_offsets"])] for n, e in header.items()}, "the package"


main(sys.argv[1])
