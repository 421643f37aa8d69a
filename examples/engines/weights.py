"""Networks of packages that bring weights alone (packages.py): each function reads the weights and writes an ONNX file."""
import numpy as np, onnx
from onnx import helper as h, numpy_helper


def written(file, nodes, inputs, outputs, constants):
    named = lambda vs: [h.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in vs.items()]
    g = h.make_graph(nodes, "network", named(inputs), named(outputs), [numpy_helper.from_array(np.ascontiguousarray(v, np.float32 if v.dtype.kind == "f" else v.dtype), k) for k, v in constants.items()])
    onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), file)


def from_crepe(weights, file):
    """CREPE, full: six convolutions over 1024 samples, each with Relu, BatchNormalization and MaxPool, and 360 bins of pitch."""
    import torch
    w = {k: v.numpy() for k, v in torch.load(weights, map_location="cpu", weights_only=True).items()}
    nodes, x = [h.make_node("Unsqueeze", ["audio", "axes"], ["x0"])], "x0"
    for i in range(1, 7):
        pads = [254, 254] if i == 1 else [31, 32]
        norm = [f"conv{i}_BN." + n for n in ("weight", "bias", "running_mean", "running_var")]
        nodes += [h.make_node("Conv", [x, f"conv{i}.weight", f"conv{i}.bias"], [f"c{i}"], strides=[4 if i == 1 else 1, 1], pads=[pads[0], 0, pads[1], 0]),
                  h.make_node("Relu", [f"c{i}"], [f"r{i}"]), h.make_node("BatchNormalization", [f"r{i}", *norm], [f"b{i}"], epsilon=0.001),
                  h.make_node("MaxPool", [f"b{i}"], [f"x{i}"], kernel_shape=[2, 1], strides=[2, 1])]
        x = f"x{i}"
    nodes += [h.make_node("Transpose", [x], ["t"], perm=[0, 2, 1, 3]), h.make_node("Flatten", ["t"], ["f"]),
              h.make_node("Gemm", ["f", "classifier.weight", "classifier.bias"], ["g"], transB=1), h.make_node("Sigmoid", ["g"], ["bins"])]
    written(file, nodes, {"audio": [8, 1024]}, {"bins": [8, 360]}, w | {"axes": np.array([1, 3])})


def from_voice_encoder(weights, file):
    """Resemblyzer: three LSTMs of 256 over 40 mel bands, a linear layer of the last state, Relu, length 1."""
    import torch
    w = {k: v.numpy() for k, v in torch.load(weights, map_location="cpu", weights_only=True)["model_state"].items() if hasattr(v, "numpy")}
    gates = lambda m: np.concatenate([np.split(m, 4)[i] for i in (0, 3, 1, 2)])  # torch: input, forget, cell, output; ONNX: input, output, forget, cell
    constants, nodes, x = {"none": np.array([0])}, [h.make_node("Transpose", ["mels"], ["x"], perm=[1, 0, 2])], "x"
    for i in range(3):
        of = lambda n: gates(w[f"lstm.{n}_l{i}"])
        constants |= {f"W{i}": of("weight_ih")[None], f"R{i}": of("weight_hh")[None], f"B{i}": np.concatenate([of("bias_ih"), of("bias_hh")])[None]}
        nodes += [h.make_node("LSTM", [x, f"W{i}", f"R{i}", f"B{i}"], [f"y{i}", f"h{i}"], hidden_size=256), h.make_node("Squeeze", [f"y{i}", "one"], [f"x{i}"])]
        x = f"x{i}"
    constants |= {"one": np.array([1]), "linear.weight": w["linear.weight"], "linear.bias": w["linear.bias"]}
    nodes += [h.make_node("Squeeze", ["h2", "none"], ["last"]), h.make_node("Gemm", ["last", "linear.weight", "linear.bias"], ["g"], transB=1),
              h.make_node("Relu", ["g"], ["r"]), h.make_node("LpNormalization", ["r"], ["embedding"], axis=1, p=2)]
    written(file, nodes, {"mels": [1, 160, 40]}, {"embedding": [1, 256]}, constants)


def from_realesr(weights, file):
    """realesr-animevideov3 x4 from ncnn's .bin: 17 convolutions of 64 channels with PRelu, one of 48, PixelShuffle, and the input enlarged by
    nearest Resize. Matrices are in float16 behind a tag of four bytes, vectors in float32."""
    data, at, w, nodes, x = open(weights, "rb").read(), 0, {}, [], "image"
    def take(count, dtype):
        nonlocal at
        x = np.frombuffer(data, dtype, count, at)
        at += -(-x.nbytes // 4) * 4
        return np.float32(x)
    for i in range(18):
        c, of = 3 if i == 0 else 64, 48 if i == 17 else 64
        tag = int(take(1, "<u4")[0])
        w[f"w{i}"], w[f"b{i}"] = take(of * c * 9, "<f2" if tag else "<f4").reshape(of, c, 3, 3), take(of, "<f4")
        nodes.append(h.make_node("Conv", [x, f"w{i}", f"b{i}"], [f"c{i}"], pads=[1] * 4))
        if i < 17:
            w[f"s{i}"] = take(of, "<f4").reshape(of, 1, 1)
            nodes.append(h.make_node("PRelu", [f"c{i}", f"s{i}"], [f"p{i}"]))
        x = f"p{i}"
    assert at == len(data), (at, len(data))
    w["scales"] = np.float32([1, 1, 4, 4])
    nodes += [h.make_node("DepthToSpace", ["c17"], ["d"], blocksize=4, mode="CRD"),
              h.make_node("Resize", ["image", "", "scales"], ["e"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
              h.make_node("Add", ["d", "e"], ["enlarged"])]
    written(file, nodes, {"image": [1, 3, 64, 64]}, {"enlarged": [1, 3, 256, 256]}, w)
