"""What mnn_int8.py, ncnn_int8.py and trt.py share: networks with few samples each, and how qwb is run. The first argument of a script is qwb."""
import subprocess, sys

PETS = ("data/pets/calibration", 8, "data/pets/eval")
CIFAR = ("data/cifar10/calibration_500.bin", 32, "data/cifar10/eval_2000.bin")
MNIST = ("data/mnist/t10k-images-idx3-ubyte.gz", 16, "data/mnist/t10k-images-idx3-ubyte.gz")
RANDOM = ("synthetic:8", 8, "synthetic:16")
WORDS = "models/mlperf-tiny/training__streaming_wakeword__calibration_samples.npz"

# model, data to calibrate on, its number of samples, other data, preprocessing
NETWORKS = {
    "mobilenet_v1": ("classifiers/mobilenet_v1_1.0_224.onnx", *PETS, "imagenet-inception"),
    "mobilenetv2_catdog": ("classifiers/mobilenetv2_0.35_catdog.onnx", *PETS, "imagenet-inception"),
    "squeezenet": ("classifiers/squeezenet1.0.onnx", *PETS, "imagenet-caffe"),
    "resnet8": ("mlperf-tiny/pretrainedResnet.onnx", *CIFAR, "none"),
    "resnet_large": ("mlperf-tiny/pretrainedResnet_large_float.onnx", *CIFAR, "none"),
    "kws": ("mlperf-tiny/kws_dequant_fp32.onnx", *RANDOM, "none"),
    "vww": ("mlperf-tiny/vww_96_float.onnx", *RANDOM, "none"),
    "ad01": ("mlperf-tiny/ad01_fp32.onnx", *RANDOM, "none"),
    "str_ww": ("mlperf-tiny/str_ww_dequant_fp32.onnx", WORDS, 16, WORDS, "none"),
    "mnist8": ("mnist/mnist-8.onnx", *MNIST, "none"),
    "cnn_mnist": ("mnist/cnn_mnist_pytorch.onnx", *MNIST, "none"),
}


def qwb(*args, check=True):
    r = subprocess.run([sys.argv[1], *map(str, args)], capture_output=True, text=True)
    if check and r.returncode:
        raise RuntimeError(f"qwb {' '.join(map(str, args))}: {r.stderr.strip().splitlines()[-1]}")
    return r
