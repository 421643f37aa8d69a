"""The networks that the scripts of this folder measure, where their data lie, and how qwb is run."""
import dataclasses, glob, json, os, shutil, subprocess, sys, tempfile
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
    "vww": Network(TINY + "vww_96_float.onnx", *SYNTHETIC),
    "kws": Network(TINY + "kws_dequant_fp32.onnx", *SYNTHETIC),
    "str_ww": Network(TINY + "str_ww_dequant_fp32.onnx", "work/wake", "work/wake"),
    "ad01": Network(TINY + "ad01_fp32.onnx", *SYNTHETIC),
    "mnist-8": Network("models/mnist/mnist-8.onnx", *DIGITS, samples=200),
    "mnist-pytorch": Network("models/mnist/cnn_mnist_pytorch.onnx", *DIGITS, preprocess="work/mnist.yaml", samples=200),
    "demo": Network("work/demo/glyphs.onnx", "work/demo/data/calibration", "work/demo/data/eval", "work/demo/data/eval.tsv"),
}


class Workplace:
    """A folder in which qwb is run, with what has to be made before."""

    def __init__(self, qwb, data, work=None):
        self.qwb, self.data = os.path.abspath(qwb), os.path.abspath(data)
        self.work = os.path.abspath(work or tempfile.mkdtemp(prefix="evidence-"))
        os.makedirs(os.path.join(self.work, "wake"), exist_ok=True)
        with open(self.path("mnist.yaml"), "w") as f: f.write("scale: 0.00392156862745098\nmean: [0.1307]\nstd: [0.3081]\n")
        specs = np.load(os.path.join(self.data, TINY + "training__streaming_wakeword__calibration_samples.npz"))["specs"]  # sample, time, 1, band
        for i, x in enumerate(specs): np.save(self.path(f"wake/{i:02}.npy"), x.transpose(2, 0, 1)[None].astype(np.float32))

    def path(self, name):
        return os.path.join(self.work, name)

    def networks(self, only=""):
        """The networks by name, their paths resolved."""
        for name, n in NETWORKS.items():
            if only and name not in only.split(","): continue
            if name == "demo": self.call("demo", "-o", "demo")
            yield name, dataclasses.replace(n, **{k: self.located(getattr(n, k)) for k in ("model", "calibration", "evaluation", "labels", "preprocess")})

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
