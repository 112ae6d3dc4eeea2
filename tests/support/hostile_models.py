"""Model files that are damaged, lie, or attack the program that reads them: name, suffix, and how to make one."""

import io
import json
import os
import pickle
import struct
import warnings
import zipfile
from pathlib import Path

import h5py
import numpy as np
import onnx
from onnx import TensorProto

from support.cli_case import small_network

WIDTH = 5  # of small_spec
MARKER = "executed"


class Attack:
    """What a pickle does when it is loaded."""

    def __init__(self, folder: Path) -> None:
        self.marker = folder / MARKER

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


def saved(folder: Path, suffix: str) -> bytes:
    """A good model file of this format."""
    path = folder / f"good{suffix}"
    small_network().save(path)
    content = path.read_bytes()
    path.unlink()
    return content


def cut(suffix: str, share: float):
    return lambda folder: saved(folder, suffix)[: int(share * len(saved(folder, suffix)))]


def pickled(folder: Path) -> bytes:
    return pickle.dumps(Attack(folder))


def zipped(folder: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def pth_with_attack(folder: Path) -> bytes:
    return zipped(folder, {"archive/data.pkl": pickled(folder), "archive/version": b"3\n"})


# HDF5


def layer(name: str, units: int, **options) -> dict:
    config = {"name": name, "units": units, "activation": "linear", "use_bias": True, "dtype": "float32"}
    return {"class_name": "Dense", "config": config | options}


MODEL = {"class_name": "Sequential", "config": {"name": "s", "layers": [layer("d", 1)]}}


def h5(change, config: object = MODEL):
    """A whole-model file in which `change(group, file, folder)` makes the kernel."""

    def make(folder: Path) -> bytes:
        path = folder / "made.h5"
        with h5py.File(path, "w") as file:
            file.attrs["model_config"] = config if isinstance(config, str) else json.dumps(config)
            group = file.create_group("model_weights/d")
            group.attrs["weight_names"] = np.array([b"kernel", b"bias"])
            group["bias"] = np.zeros(1, np.float32)
            change(group, file, folder)
        content = path.read_bytes()
        path.unlink()
        return content

    return make


def kernel(values):
    def change(group, file, folder):
        group["kernel"] = values

    return change


GOOD = np.ones((WIDTH, 1), np.float32)


def external_link(group, file, folder):
    with h5py.File(folder / "secret.h5", "w") as other:
        other["kernel"] = GOOD
    group["kernel"] = h5py.ExternalLink(str(folder / "secret.h5"), "kernel")


def soft_link(group, file, folder):
    file["elsewhere"] = GOOD
    group["kernel"] = h5py.SoftLink("/elsewhere")


def soft_link_to_itself(group, file, folder):
    group["kernel"] = h5py.SoftLink("/model_weights/d/kernel")


def external_storage(group, file, folder):
    (folder / "secret.raw").write_bytes(GOOD.tobytes())
    group.create_dataset("kernel", GOOD.shape, "f4", external=[(str(folder / "secret.raw"), 0, GOOD.nbytes)])


def virtual(group, file, folder):
    with h5py.File(folder / "secret.h5", "w") as other:
        other["kernel"] = GOOD
    layout = h5py.VirtualLayout(GOOD.shape, "f4")
    layout[:] = h5py.VirtualSource(str(folder / "secret.h5"), "kernel", GOOD.shape)
    group.create_virtual_dataset("kernel", layout)


def compressed_bomb(group, file, folder):
    made = group.create_dataset("kernel", (2**18, 2**12), "f4", chunks=(2**8, 2**12), compression="gzip")
    made[: 2**8] = np.zeros((2**8, 2**12), np.float32)


def absurd_chunks(group, file, folder):
    group.create_dataset("kernel", (2**40, 2**20), "f4", chunks=(2**8, 2**8))


def absurd_shape(group, file, folder):
    group.create_dataset("kernel", (2**31, 2**20), "f4")  # never written, so nothing of it lies in the file


def reference(group, file, folder):
    group.create_dataset("kernel", data=np.array([group.ref] * WIDTH, dtype=h5py.ref_dtype))


def a_group(group, file, folder):
    group.create_group("kernel")


def in_circles(group, file, folder):
    group["kernel"] = file["model_weights"]


def nothing(group, file, folder):
    pass


LAMBDA = {
    "class_name": "Sequential",
    "config": {
        "name": "s",
        "layers": [
            {"class_name": "Lambda", "config": {"name": "l", "function": ["4wEAAAAAAAAA", None, None]}},
            layer("d", 1),
        ],
    },
}


def text_without_end(folder: Path) -> bytes:
    """Every object of the heap that holds the config claims to have size 0."""
    content = bytearray(saved(folder, ".h5"))
    heap = content.index(b"GCOL")
    content[heap + 24 : heap + 32] = struct.pack("<Q", 0)
    return bytes(content)


def endless_heap(folder: Path) -> bytes:
    """The config claims to be longer than it is, on which HDF5's own library runs forever."""
    content = bytearray(saved(folder, ".h5"))
    size = content.index(b'{"class_name"') - 8
    content[size : size + 8] = struct.pack("<Q", struct.unpack_from("<Q", content, size)[0] + 80)
    return bytes(content)


def header_of_ones(folder: Path) -> bytes:
    content = bytearray(saved(folder, ".h5"))
    content[56:96] = b"\xff" * 40  # where the root group lies
    return bytes(content)


# .keras


def keras_members(folder: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(saved(folder, ".keras"))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def keras(compression: int = zipfile.ZIP_STORED, **changed):
    names = {"config": "config.json", "weights": "model.weights.h5"}

    def make(folder: Path) -> bytes:
        members = keras_members(folder)
        for key, content in changed.items():
            members[names[key]] = content(folder) if callable(content) else content
        return zipped(folder, members, compression)

    return make


def linked_weights(folder: Path) -> bytes:
    path = folder / "made.h5"
    with h5py.File(path, "w") as file:
        for place in ("dense", "dense_1", "dense_2"):
            external_link(file.create_group(f"layers/{place}/vars"), file, folder)
    content = path.read_bytes()
    path.unlink()
    return content


def bomb(folder: Path) -> bytes:
    return b"\x89HDF\r\n\x1a\n" + bytes(2**26)


def lying_size(folder: Path) -> bytes:
    """The directory says that the weights have 4 GiB."""
    content = bytearray(saved(folder, ".keras"))
    entry = content.rindex(b"model.weights.h5") - 46
    content[entry + 24 : entry + 28] = struct.pack("<I", 2**32 - 2)
    return bytes(content)


def twice(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that is the point
        for _ in range(2):
            archive.writestr(zipfile.ZipInfo("config.json"), b"{}")
    return buffer.getvalue()


def outside(folder: Path) -> bytes:
    return zipped(folder, {f"../../{MARKER}": b"", f"/tmp/{MARKER}": b"", "config.json": b"{}"})


# .onnx


def onnx_model(change):
    def make(folder: Path) -> bytes:
        model = onnx.load_from_string(saved(folder, ".onnx"))
        change(model.graph.initializer[0], model, folder)
        return model.SerializeToString()

    return make


def external_data(location: str, **entries: object):
    """The first weights lie in another file; `{folder}` in its location is the model's own folder."""

    def change(tensor, model, folder):
        (folder / "secret.raw").write_bytes(bytes(1000))
        (folder / "below").mkdir()
        (folder / "below" / "secret.raw").write_bytes(tensor.raw_data)
        (folder / "link.raw").symlink_to("/etc/passwd")
        os.mkfifo(folder / "pipe.raw")
        length = len(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location.format(folder=folder), "length": length, **entries}.items():
            if value is not None:
                tensor.external_data.add(key=key, value=str(value))

    return onnx_model(change)


def shared_data(tensor, model, folder):
    """A thousand constants that all are the same 64 MiB of a file that has no more."""
    size = 2**26
    with (folder / "shared.raw").open("wb") as file:
        file.truncate(size)
    for i in range(1000):
        other = model.graph.initializer.add(name=f"t{i}", data_type=TensorProto.FLOAT, dims=[size // 4])
        other.data_location = TensorProto.EXTERNAL
        other.external_data.add(key="location", value="shared.raw")


def absurd_dims(tensor, model, folder):
    del tensor.dims[:]
    tensor.dims.extend([2**40, 2**20])


def negative_dims(tensor, model, folder):
    tensor.dims[0] = -1


def nan_weights(tensor, model, folder):
    tensor.raw_data = np.full(len(tensor.raw_data) // 4, np.nan, np.float32).tobytes()


def short_weights(tensor, model, folder):
    tensor.raw_data = tensor.raw_data[:-4]


def own_operator(tensor, model, folder):
    model.opset_import.add(domain="evil", version=1)
    model.graph.node[0].domain = "evil"


def circle(tensor, model, folder):
    model.graph.node[0].input[0] = model.graph.node[-1].output[0]


# .nnet and .safetensors


def nnet(old: str, new: str):
    def make(folder: Path) -> bytes:
        lines = saved(folder, ".nnet").decode().splitlines(keepends=True)
        if old == "weight":
            lines[9] = lines[9].replace(lines[9].split(",")[0], new, 1)
        else:
            assert lines[int(old)]
            lines[int(old)] = new + ",\n"
        return "".join(lines).encode()

    return make


def safetensors(header: object, length: int | None = None, body: bytes = b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return lambda folder: struct.pack("<Q", len(text) if length is None else length) + text + body


TENSOR = {"dtype": "F32", "shape": [2**30, 2**30], "data_offsets": [0, 4]}

MODELS = {
    "h5: half a file": (".h5", cut(".h5", 0.5)),
    "h5: nearly a whole file": (".h5", cut(".h5", 0.98)),
    "h5: text": (".h5", lambda folder: b"this is no model\n" * 50),
    "h5: a pickle": (".h5", pickled),
    "h5: a link to another file": (".h5", h5(external_link)),
    "h5: a soft link": (".h5", h5(soft_link)),
    "h5: a soft link to itself": (".h5", h5(soft_link_to_itself)),
    "h5: data in another file": (".h5", h5(external_storage)),
    "h5: a virtual dataset": (".h5", h5(virtual)),
    "h5: a compression bomb": (".h5", h5(compressed_bomb)),
    "h5: absurdly many chunks": (".h5", h5(absurd_chunks)),
    "h5: an absurd shape": (".h5", h5(absurd_shape)),
    "h5: object references": (".h5", h5(reference)),
    "h5: a group for an array": (".h5", h5(a_group)),
    "h5: groups in a circle": (".h5", h5(in_circles)),
    "h5: no kernel": (".h5", h5(nothing)),
    "h5: whole numbers": (".h5", h5(kernel(np.ones((WIDTH, 1), np.int32)))),
    "h5: NaN": (".h5", h5(kernel(GOOD * np.nan))),
    "h5: half precision": (".h5", h5(kernel(GOOD.astype(np.float16)))),
    "h5: a config that is no JSON": (".h5", h5(kernel(GOOD), "{'class_name': Sequential}")),
    "h5: a deep config": (".h5", h5(kernel(GOOD), '{"a":' * 100_000)),
    "h5: a config of the wrong types": (".h5", h5(kernel(GOOD), {"class_name": ["Sequential"], "config": 3})),
    "h5: a Lambda layer": (".h5", h5(kernel(GOOD), LAMBDA)),
    "h5: a text without end": (".h5", text_without_end),
    "h5: a heap without end": (".h5", endless_heap),
    "h5: a root that lies nowhere": (".h5", header_of_ones),
    "keras: half a file": (".keras", cut(".keras", 0.5)),
    "keras: a pickle": (".keras", pickled),
    "keras: weights that are a pickle": (".keras", keras(weights=pickled)),
    "keras: a zip bomb": (".keras", keras(zipfile.ZIP_DEFLATED, weights=bomb)),
    "keras: a zip bomb for a config": (".keras", keras(zipfile.ZIP_DEFLATED, config=lambda _: b"[" * 2**26)),
    "keras: a size that lies": (".keras", lying_size),
    "keras: a config twice": (".keras", twice),
    "keras: paths out of the folder": (".keras", outside),
    "keras: a Lambda layer": (".keras", keras(config=json.dumps(LAMBDA).encode())),
    "keras: a link to another file": (".keras", keras(weights=linked_weights)),
    "onnx: half a file": (".onnx", cut(".onnx", 0.5)),
    "onnx: a pickle": (".onnx", pickled),
    "onnx: data up the path": (".onnx", external_data("../secret.raw")),
    "onnx: data at an absolute path": (".onnx", external_data("/etc/passwd")),
    "onnx: data below the folder": (".onnx", external_data("below/secret.raw")),
    "onnx: data through a link": (".onnx", external_data("link.raw")),
    "onnx: data in a pipe": (".onnx", external_data("pipe.raw")),
    "onnx: data in a folder": (".onnx", external_data("below")),
    "onnx: data nowhere": (".onnx", external_data("")),
    "onnx: data in a missing file": (".onnx", external_data("lost.raw")),
    "onnx: data of another length": (".onnx", external_data("secret.raw", length=None)),
    "onnx: data beyond the file": (".onnx", external_data("secret.raw", offset=990)),
    "onnx: data before the file": (".onnx", external_data("secret.raw", offset=-4)),
    "onnx: data at no number": (".onnx", external_data("secret.raw", offset="0x10")),
    "onnx: data shared a thousand times": (".onnx", onnx_model(shared_data)),
    "onnx: absurd dimensions": (".onnx", onnx_model(absurd_dims)),
    "onnx: negative dimensions": (".onnx", onnx_model(negative_dims)),
    "onnx: NaN": (".onnx", onnx_model(nan_weights)),
    "onnx: too few weights": (".onnx", onnx_model(short_weights)),
    "onnx: an operator of one's own": (".onnx", onnx_model(own_operator)),
    "onnx: a circle": (".onnx", onnx_model(circle)),
    "nnet: half a file": (".nnet", cut(".nnet", 0.5)),
    "nnet: a pickle": (".nnet", pickled),
    "nnet: more layers than there are": (".nnet", nnet("2", "30,5,1,8")),
    "nnet: absurd layers": (".nnet", nnet("3", "5,1000000000,6,1")),
    "nnet: a negative width": (".nnet", nnet("3", "5,-8,6,1")),
    "nnet: NaN": (".nnet", nnet("weight", "nan")),
    "nnet: a weight beyond float32": (".nnet", nnet("weight", "1e300")),
    "nnet: a word": (".nnet", nnet("weight", "__import__('os')")),
    "pth: a pickle": (".pth", pickled),
    "pth: an archive with a pickle that runs": (".pth", pth_with_attack),
    "pth: half a file": (".pth", cut(".pth", 0.5)),
    "safetensors: a header without end": (".safetensors", safetensors({}, 2**62)),
    "safetensors: an absurd shape": (".safetensors", safetensors({"a.weight": TENSOR}, body=bytes(4))),
    "safetensors: a header that is no JSON": (".safetensors", safetensors(b"\xff" * 64)),
    "safetensors: half a file": (".safetensors", cut(".safetensors", 0.5)),
}
