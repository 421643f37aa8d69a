#!/usr/bin/env python3
"""MediaPipe's networks, which come as float .tflite files, through qwb and its peers: NSR of each output and time in the engine. No network is
part of the project.

  mediapipe.py QWB DATA WORK [--only NAME,...]

QWB is the built binary, DATA a folder with data/pets. Needs: pip install ai-edge-litert==2.3.0 onnxruntime==1.32.0 openvino==2026.4.1 nncf==3.4.0
onnx numpy pillow; mediapipe 0.10.14 is downloaded by pip without what it depends on. Photos of pets stand in for faces, hands and people: 48 to
calibrate, 16 others to judge. Reference is LiteRT's float result of the file itself. qwb: as calibrated, and by preset:corrected. Peers quantize
the float ONNX file that `qwb bind --float32` makes of it. Time: median of 15 CPU times of one sample, one thread.
"""
import argparse, glob, logging, os, subprocess, sys, time, warnings, zipfile
import numpy as np
from PIL import Image
warnings.filterwarnings("ignore"); logging.disable(logging.CRITICAL)
WHEEL = "mediapipe==0.10.14"
PEERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "evidence", "peers.py")
SIGNED = ("face_detection_short_range", "face_detection_full_range_sparse", "pose_detection")  # pixels of -1 to 1, the others 0 to 1

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("work"); ap.add_argument("--only", default="")
a = ap.parse_args()


def networks():
    folder = a.work + "/models"
    if not os.path.isdir(folder):
        os.makedirs(folder)
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", WHEEL, "-d", a.work], check=True)
        with zipfile.ZipFile(glob.glob(a.work + "/mediapipe*.whl")[0]) as z:
            for n in z.namelist():
                if n.endswith(".tflite"):
                    open(f"{folder}/{os.path.basename(n)}", "wb").write(z.read(n))
    return sorted(glob.glob(folder + "/*.tflite"))


def photos(part, count, size, signed, folder):
    """Photos as arrays with the channels first, also as files in a folder."""
    os.makedirs(folder, exist_ok=True)
    files, out = sorted(glob.glob(f"{a.data}/data/pets/{part}/*.jpg")), []
    for i in range(count):
        x = np.asarray(Image.open(files[i]).convert("RGB").resize((size[1], size[0])), np.float32) / 255
        out.append((2 * x - 1 if signed else x).transpose(2, 0, 1)[None].copy())
        np.save(f"{folder}/{i:03}.npy", out[-1])
    return out


def qwb(*args):
    r = subprocess.run([a.qwb, *args], capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(" ".join(args[:2]) + ": " + r.stderr.strip().split("\n")[-1])


def runner(path):
    """A function from an array with the channels first to the outputs in the order of the file."""
    if path.endswith(".tflite"):
        from ai_edge_litert import interpreter as tfl
        it = tfl.Interpreter(path, num_threads=1)
        it.allocate_tensors()
        def f(x):
            it.set_tensor(it.get_input_details()[0]["index"], x.transpose(0, 2, 3, 1))
            it.invoke()
            return [it.get_tensor(o["index"]) for o in it.get_output_details()]
        return f
    if ".ov." in path:
        import openvino as ov
        c = ov.Core().compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": 1})
        return lambda x: list(c([x]).values())
    import onnxruntime as ort
    o = ort.SessionOptions(); o.intra_op_num_threads = 1
    s = ort.InferenceSession(path, o)
    return lambda x: s.run(None, {s.get_inputs()[0].name: x})


def outputs(path, samples):
    f = runner(path)
    last = lambda y: (y.transpose(0, 2, 3, 1) if y.ndim == 4 and not path.endswith(".tflite") else y).ravel().astype(np.float64)
    return [[last(np.array(y)) for y in f(x)] for x in samples]


def cpu(path, x):
    f, times = runner(path), []
    for _ in range(16):
        t = time.process_time(); f(x); times.append(time.process_time() - t)
    return np.median(times[1:]) * 1e3


def peer(name, src, w, out):
    subprocess.run([sys.executable, PEERS, name, "w8a8", src, w + "/calibration", out], check=True, capture_output=True)


def nncf_ov(src, cal, out):
    import nncf, openvino as ov
    ov.save_model(nncf.quantize(ov.Core().read_model(src), nncf.Dataset(cal), subset_size=len(cal)), out, compress_to_fp16=False)


def ours(model, w, platform, name, recipe):
    plan = f"{w}/{name}.plan.json"
    qwb("calibrate", model, "--data", w + "/calibration", "--platform", platform, "-o", plan, *recipe)
    qwb("export", plan, "--platform", platform, "-o", f"{w}/{name}")


def row(model):
    name = os.path.basename(model)[:-7]
    w = f"{a.work}/{name}"
    from ai_edge_litert import interpreter as tfl
    size = tfl.Interpreter(model).get_input_details()[0]["shape"][1:3]
    cal = photos("calibration", 48, size, name in SIGNED, w + "/calibration")
    test = photos("eval", 16, size, name in SIGNED, w + "/test")
    try:
        want = outputs(model, test)
    except Exception as e:
        return print(f"| {name} | LiteRT: {str(e).split(chr(10))[0][:60]} | | | |", flush=True)
    qwb("bind", model, "--float32", "-o", w + "/float.onnx")
    corrected = ["--recipe", "preset:corrected"]
    for engine, files in {
        "tflite": {"qwb": "q.tflite", "corrected": "c.tflite"},
        "onnxruntime": {"qwb": "q.onnx", "corrected": "c.onnx", "ort": "ort.onnx", "nncf": "nncf.onnx"},
        "openvino": {"qwb": "q.ov.onnx", "corrected": "c.ov.onnx", "nncf": "nncf.ov.xml"},
    }.items():
        cells = []
        for who, file in files.items():
            path = f"{w}/{file}"
            try:
                if not os.path.exists(path):
                    if who in ("qwb", "corrected"):
                        ours(model, w, {"tflite": "tflite_int8", "openvino": "openvino_int8"}.get(engine, engine), file,
                             corrected if who == "corrected" else [])
                    elif engine == "openvino":
                        nncf_ov(w + "/float.onnx", cal, path)
                    else:
                        peer({"ort": "ort-minmax"}.get(who, who), w + "/float.onnx", w, path)
                got = outputs(path, test)
            except Exception as e:
                cells.append(f"{who}: fails ({str(e).split(chr(10))[0][:40]})")
                continue
            nsr = [sum(((g[k] - v[k]) ** 2).sum() for g, v in zip(got, want)) / sum((v[k] ** 2).sum() for v in want) for k in range(len(want[0]))]
            cells.append(f"{who}: {' '.join(f'{v:.2g}' for v in nsr)}, {cpu(path, test[0]):.2f} ms")
        print(f"| {name} | {engine} | " + " | ".join(cells) + " |", flush=True)


for model in networks():
    if not a.only or os.path.basename(model)[:-7] in a.only.split(","):
        row(model)
