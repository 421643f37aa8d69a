"""The networks that the scripts of this folder measure, where their data lie, and how qwb is run."""
import dataclasses, glob, json, os, shutil, subprocess, sys, tempfile, time, wave
import numpy as np


@dataclasses.dataclass
class Network:
    model: str
    calibration: str
    evaluation: str
    labels: str | None = None  # "": the data have them; None: there are none
    offset: int = 0            # of the network's classes from the labels
    preprocess: str = "none"
    samples: int = 0           # that calibration uses; 0: all

    @property
    def labelled(self):
        return ("--data", self.evaluation, "--preprocess", self.preprocess) + (("--labels", self.labels, "--label-offset", self.offset) if self.labels else ())


PETS = ("data/pets/calibration", "data/pets/eval", "data/pets/eval.tsv")
CIFAR = ("data/cifar10/calibration_500.bin", "data/cifar10/eval_2000.bin", "")
DIGITS = ("data/mnist/t10k-images-idx3-ubyte.gz", "data/mnist/t10k-images-idx3-ubyte.gz", "data/mnist/t10k-labels-idx1-ubyte")
SYNTHETIC = ("synthetic:32", "synthetic:32")
TINY = "models/mlperf-tiny/"

# Paths are those below the folder of models and data; "work/..." is made by Workplace.
NETWORKS = {
    "mobilenet_v1": Network("models/classifiers/mobilenet_v1_1.0_224.onnx", *PETS, 1, "imagenet-inception"),
    "squeezenet": Network("models/classifiers/squeezenet1.0.onnx", *PETS, 0, "imagenet-caffe"),
    "catdog": Network("models/classifiers/mobilenetv2_0.35_catdog.onnx", *PETS[:2], preprocess="imagenet-inception"),
    "resnet8": Network(TINY + "pretrainedResnet.onnx", *CIFAR),
    "resnet_large": Network(TINY + "pretrainedResnet_large_float.onnx", *CIFAR),
    "vww": Network(TINY + "vww_96_float.onnx", *PETS[:2], preprocess="work/vww.yaml"),
    "kws": Network(TINY + "kws_dequant_fp32.onnx", "work/kws/calibration", "work/kws/eval"),
    "str_ww": Network(TINY + "str_ww_dequant_fp32.onnx", "work/wake", "work/wake"),
    "ad01": Network(TINY + "ad01_fp32.onnx", *SYNTHETIC),
    "mnist-8": Network("models/mnist/mnist-8.onnx", *DIGITS, samples=200),
    "mnist-pytorch": Network("models/mnist/cnn_mnist_pytorch.onnx", *DIGITS, preprocess="work/mnist.yaml", samples=200),
    "ocr": Network("models/ocr/en_PP-OCRv4_rec.onnx", "work/ocr/calibration", "work/ocr/eval"),
    "deeplab": Network("models/vision/deeplabv3_257_mobilenetv2.onnx", *PETS[:2], preprocess="work/deeplab.yaml"),
    "blazeface": Network("models/vision/blazeface_front_128.onnx", *PETS[:2], preprocess="work/blazeface.yaml"),
    "demo": Network("work/demo/glyphs.onnx", "work/demo/data/calibration", "work/demo/data/eval", "work/demo/data/eval.tsv"),
}


PREPROCESS = {
    "mnist": "scale: 0.00392156862745098\nmean: [0.1307]\nstd: [0.3081]\n",
    "vww": "resize: {size: [96, 96]}\nscale: 0.00392156862745098\n",
    "deeplab": "resize: {size: [257, 257]}\nmean: [127.5]\nstd: [127.5]\n",
    "blazeface": "resize: {size: [128, 128]}\nmean: [127.5]\nstd: [127.5]\n",
}


def mfcc(x):
    """The features of MLPerf Tiny's keyword spotting, f32[1,1,49,10], of a second at 16 kHz: windows of 30 ms every 20 ms, 40 mel bands, ten
    coefficients (its get_dataset.py)."""
    x = x / max(x.max(), 1)
    frames = np.stack([x[i * 320:i * 320 + 480] for i in range(49)]) * np.hanning(481)[:480]
    mel = lambda hz: 1127 * np.log1p(hz / 700)
    edges, at = np.linspace(mel(20), mel(4000), 42), mel(np.arange(1, 257) * 31.25)[:, None]
    bands = np.maximum(0, np.minimum((at - edges[:-2]) / (edges[1:-1] - edges[:-2]), (edges[2:] - at) / (edges[2:] - edges[1:-1])))
    logs = np.log(np.abs(np.fft.rfft(frames, 512))[:, 1:] @ bands + 1e-6)
    cosines = np.cos(np.pi / 40 * (np.arange(40)[:, None] + 0.5) * np.arange(10)) * np.sqrt(2 / 40)
    return (logs @ cosines).astype(np.float32)[None, None]


class Workplace:
    """A folder in which qwb is run, with what has to be made before."""

    def __init__(self, qwb, data, work=None):
        self.qwb, self.data = os.path.abspath(qwb), os.path.abspath(data)
        self.work = os.path.abspath(work or tempfile.mkdtemp(prefix="evidence-"))
        os.makedirs(os.path.join(self.work, "wake"), exist_ok=True)
        for name, text in PREPROCESS.items():
            with open(self.path(name + ".yaml"), "w") as f: f.write(text)
        specs = np.load(os.path.join(self.data, TINY + "training__streaming_wakeword__calibration_samples.npz"))["specs"]  # sample, time, 1, band
        for i, x in enumerate(specs): np.save(self.path(f"wake/{i:02}.npy"), x.transpose(2, 0, 1)[None].astype(np.float32))

    def path(self, name):
        return os.path.join(self.work, name)

    def networks(self, only=""):
        """The networks by name, their paths resolved."""
        for name, n in NETWORKS.items():
            if only and name not in only.split(","): continue
            if name == "demo": self.call("demo", "-o", "demo")
            if name == "ocr": self.lines()
            if name == "kws": self.speech()
            yield name, dataclasses.replace(n, **{k: self.located(getattr(n, k)) for k in ("model", "calibration", "evaluation", "labels", "preprocess")})

    def lines(self):
        """Lines of text of data/ocr, found by the detector: two of three to calibrate on."""
        if os.path.exists(self.path("ocr/eval")): return
        here = os.path.dirname(os.path.abspath(__file__))
        subprocess.run(["go", "run", "./inputs", "ocr-line", "-o", self.path("ocr/all"), "-detector", self.located("models/ocr/ch_PP-OCRv4_det_infer.onnx"),
                        self.located("data/ocr")], cwd=os.path.dirname(here), check=True, capture_output=True)
        for i, f in enumerate(sorted(glob.glob(self.path("ocr/all/*.npy")))): self.share(f, "ocr", i % 3 == 2)

    def speech(self):
        """Seconds of a recording, 0.25 s apart: the first 40 to calibrate on, the last 20 to evaluate."""
        if os.path.exists(self.path("kws/eval")): return
        with wave.open(self.located("data/speech/silero_test.wav")) as w: x = np.frombuffer(w.readframes(-1), "<i2").astype(np.float64)
        for i in range(0, len(x) - 16000, 4000):
            if 624000 < i < 640000: continue  # overlaps both
            np.save(self.path("x.npy"), mfcc(x[i:i + 16000]))
            self.share(self.path("x.npy"), "kws", i >= 640000, f"{i:07}.npy")

    def share(self, file, name, evaluation, to=None):
        folder = self.path(name + ("/eval" if evaluation else "/calibration"))
        os.makedirs(folder, exist_ok=True)
        os.replace(file, os.path.join(folder, to or os.path.basename(file)))

    def located(self, path):
        if not path or path.startswith("synthetic:") or "/" not in path: return path
        return self.path(path[5:]) if path.startswith("work/") else os.path.join(self.data, path)

    def call(self, *args, ok=(0,)):
        """Runs qwb and returns what it prints; another exit code than those of ok ends the script."""
        p = subprocess.run([self.qwb, *map(str, args)], capture_output=True, cwd=self.work)
        if p.returncode not in ok: sys.exit(f"qwb {' '.join(map(str, args))}: {p.stderr.decode()[-400:]}")
        return p.stdout

    def json(self, *args, ok=(0,)):
        return json.loads(self.call(*args, "--json", ok=ok))

    def inputs(self, name, n, samples=0):
        """The exact inputs of the evaluation data as files: all of them, or so many."""
        folder = self.path(name + ".inputs"); shutil.rmtree(folder, ignore_errors=True)
        self.call("preprocess", n.model, "--data", n.evaluation, "--preprocess", n.preprocess, "--samples", samples, "--dump", folder)
        return sorted(glob.glob(folder + "/*.np[yz]"))


def table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
    for r in rows: print("| " + " | ".join(str(c) for c in r) + " |")
    print(flush=True)


def turns(runs, x, n):
    """CPU seconds of n turns of each run on x, one after the other, after three that do not count."""
    times = [[] for _ in runs]
    for turn in range(n + 3):
        for k, run in enumerate(runs):
            start = time.process_time(); run(x); took = time.process_time() - start
            if took < 5e-3:  # a small network as often as fits into 5 ms
                often = max(2, int(5e-3 / max(took, 1e-5)))
                start = time.process_time()
                for _ in range(often): run(x)
                took = (time.process_time() - start) / often
            if turn >= 3: times[k].append(took)
    return np.array(times)
