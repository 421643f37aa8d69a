"""Writes torch/NAME.bin: files of torch.save (PyTorch 2.15 was used) that the reader takes, and those that it must refuse."""
import collections, json, os, pickle, shutil, zipfile
import torch
from torch.nn import Parameter

os.chdir(os.path.dirname(os.path.abspath(__file__)))
os.makedirs("torch", exist_ok=True)
x = torch.arange(24, dtype=torch.float32).reshape(4, 6)
state = collections.OrderedDict(
    plain=x.clone(), transposed=x.t(), part=x[1:3, 2:5], shared=x, parameter=Parameter(x[2]), half=x.half(), brain=x.bfloat16(),
    double=x[:1].double(), long=torch.arange(3), int8=torch.arange(-2, 3, dtype=torch.int8), scalar=torch.tensor(7.0),
    empty=torch.zeros(0, 5), row=x[0].expand(1, 6), yes=torch.tensor([True]))
state._metadata = collections.OrderedDict(version=1)
torch.save(state, "torch/good.bin")
torch.save(dict(tensor=x.t(), other=[x, {"deep": (1, 2.5, None, True, -70000, 1 << 40)}]), "torch/nested.bin")


class Call:
    def __reduce__(self):
        return os.system, ("echo called",)


def write(name, data, compress=zipfile.ZIP_STORED, storages={"0": bytes(96)}):
    """An archive as torch.save makes it with another pickle, or with other entries."""
    with zipfile.ZipFile(f"torch/{name}.bin", "w", compress) as z:
        z.writestr("archive/data.pkl", data)
        for key, b in storages.items():
            z.writestr("archive/data/" + key, b)
        z.writestr("archive/byteorder", "little")
        z.writestr("archive/version", "3\n")


good = zipfile.ZipFile("torch/good.bin").read("good/data.pkl")
write("system", pickle.dumps({"x": Call()}, 2))
write("deep", b"\x80\x02" + b"]" * 2000 + b"a" * 1999 + b".")
write("compressed", good, zipfile.ZIP_DEFLATED)
write("cut", good[:-10])


def tensor(offset, shape, stride, count=24, kind="FloatStorage"):
    """The pickle of one tensor, whatever its numbers say."""
    def number(n):
        return b"\x8a\x08" + n.to_bytes(8, "little", signed=True)
    def text(s):
        return b"X" + len(s).to_bytes(4, "little") + s.encode()
    def numbers(list):
        return b"(" + b"".join(map(number, list)) + b"t"
    storage = b"(" + text("storage") + b"ctorch\n" + kind.encode() + b"\n" + text("0") + text("cpu") + number(count) + b"tQ"
    return (b"\x80\x02}" + text("x") + b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + number(offset) + numbers(shape) +
            numbers(stride) + b"\x89ccollections\nOrderedDict\n)RtRs.")


write("one", tensor(0, [4, 6], [6, 1]))
write("huge", tensor(0, [1 << 62, 1 << 62], [1, 1]))
write("expanded", tensor(0, [1 << 20, 1 << 20], [0, 0]))
write("outside", tensor(1, [4, 6], [6, 1]))
write("negative", tensor(-1, [4, 6], [6, 1]))
write("backwards", tensor(23, [4, 6], [-6, -1]))
write("long-stride", tensor(0, [4, 6], [1 << 61, 1]))
write("short-storage", tensor(0, [4, 6], [6, 1]), storages={"0": bytes(92)})
write("no-storage", tensor(0, [4, 6], [6, 1]), storages={})
write("unknown-storage", tensor(0, [4, 6], [6, 1], kind="QInt8Storage"))
write("itself", b"\x80\x02}q\x00X\x01\x00\x00\x00xh\x00s.")
write("no-weights", pickle.dumps([1, 2], 2))

# A model in two files, as transformers 4 wrote it.
from safetensors.torch import load_file
os.makedirs("torch/qwen3", exist_ok=True)
model = load_file("../../decode/testdata/families/qwen3/model.safetensors")
names = sorted(model)
where = {n: f"pytorch_model-0000{1 + (i % 2)}-of-00002.bin" for i, n in enumerate(names)}
for file in set(where.values()):
    torch.save({n: model[n] for n in names if where[n] == file}, "torch/qwen3/" + file)
json.dump(dict(metadata=dict(total_size=1), weight_map=where), open("torch/qwen3/pytorch_model.bin.index.json", "w"))
shutil.copy("../../decode/testdata/families/qwen3/config.json", "torch/qwen3")
