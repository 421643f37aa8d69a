#!/usr/bin/env python3
"""Golden numbers for the metrics of analysis/task: random answers of two networks, scored by scikit-learn, SciPy, pycocotools, jiwer and
mean-average-precision (VOC's rules), with the standard error of the difference by leaving out one sample at a time.

    pip install numpy scipy scikit-learn pycocotools jiwer mean-average-precision
    python3 examples/evidence/metrics.py > analysis/task/testdata/golden.json
"""
import contextlib
import io
import json
import sys

import jiwer
import numpy as np
from mean_average_precision.mean_average_precision_2d import MeanAveragePrecision2d
from mean_average_precision.utils import compute_average_precision, compute_average_precision_with_recall_thresholds
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from scipy import stats
from sklearn import metrics

R = np.random.default_rng(16)
N = 24  # samples of a case


def case(score, n, sign):
    """Scores of both networks, and the jackknife's standard error of how much worse the second is. score takes a network (0, 1) and samples."""
    everything = list(range(n))
    values = [score(k, everything) for k in (0, 1)]
    pseudo = np.zeros(n)
    for k, s in ((0, sign), (1, -sign)):
        for i in everything:
            rest = score(k, [j for j in everything if j != i])
            pseudo[i] += s * (n * values[k] - (n - 1) * rest)
    return {"before": values[0], "after": values[1], "drop": sign * (values[0] - values[1]), "error": pseudo.std(ddof=1) / np.sqrt(n)}


def classes():
    n, k = 60, 7
    labels = R.integers(0, k, n)
    labels[:k] = np.arange(k)  # every class is there
    labels[k : 2 * k] = np.arange(k)  # and leaving out one sample leaves it there
    scores = []
    for noise in (1.0, 1.6):
        z = R.normal(0, noise, (n, k))
        z[np.arange(n), labels] += 2
        p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        scores.append(p.astype(np.float32).astype(float))
    normal = [s / s.sum(1, keepdims=True) for s in scores]
    out = {"labels": labels.tolist(), "scores": [s.tolist() for s in scores]}
    out["top1"] = case(lambda k, i: metrics.accuracy_score(labels[i], scores[k][i].argmax(1)), n, 100)
    out["top3"] = case(lambda k, i: metrics.top_k_accuracy_score(labels[i], scores[k][i], k=3, labels=range(7)), n, 100)
    out["f1"] = case(lambda k, i: metrics.f1_score(labels[i], scores[k][i].argmax(1), average="macro"), n, 100)
    out["auc"] = case(lambda k, i: metrics.roc_auc_score(labels[i], normal[k][i], multi_class="ovr"), n, 100)
    return out


def binary():
    n = 40
    labels = R.integers(0, 2, n)
    scores = [np.round(labels + R.normal(0, s, n), 1).astype(np.float32).astype(float) for s in (0.7, 1.1)]  # rounded: there are ties
    out = {"labels": labels.tolist(), "scores": [s.tolist() for s in scores]}
    out["auc"] = case(lambda k, i: metrics.roc_auc_score(labels[i], scores[k][i]), n, 100)
    return out


def maps():
    k, h, w = 5, 6, 7
    masks = R.integers(0, k - 1, (N, h, w))  # class 4 is answered and never right
    answers = []
    for noise in (0.2, 0.3):
        a = np.where(R.random((N, h, w)) < noise, R.integers(0, k, (N, h, w)), masks)
        answers.append(a)
    masks[R.random((N, h, w)) < 0.1] = 255

    def score(net, i):
        right, answer = masks[i].ravel(), answers[net][i].ravel()
        return metrics.jaccard_score(right[right != 255], answer[right != 255], average="macro")

    return {"classes": k, "masks": masks.tolist(), "answers": [a.tolist() for a in answers], "miou": case(score, N, 100)}


def texts():
    words = "the quick brown fox jumps over a lazy dog and runs away".split()
    labels = [" ".join(R.choice(words, R.integers(2, 7))) for _ in range(N)]

    def spoil(text, rate):
        out = ""
        for c in text:
            x = R.random()
            out += "" if x < rate / 3 else c + R.choice(list("abc ")) if x < 2 * rate / 3 else R.choice(list("xyz")) if x < rate else c
        return out

    answers = [[spoil(t, rate) for t in labels] for rate in (0.03, 0.12)]
    of = lambda f: lambda k, i: f([labels[j] for j in i], [answers[k][j] for j in i])
    out = {"labels": labels, "answers": answers, "cer": case(of(jiwer.cer), N, -100), "wer": case(of(jiwer.wer), N, -100)}
    out["em"] = case(of(lambda a, b: float(np.mean([x.strip() == y.strip() for x, y in zip(a, b)]))), N, 100)
    return out


def numbers():
    labels = np.round(R.uniform(0, 5, N), 0)  # ties
    answers = [(labels + R.normal(0, s, N)).astype(np.float32).astype(float) for s in (0.8, 1.6)]
    out = {"labels": labels.tolist(), "answers": [a.tolist() for a in answers]}
    out["spearman"] = case(lambda k, i: stats.spearmanr(labels[i], answers[k][i]).statistic, N, 1)
    return out


def embeddings():
    labels = R.normal(size=(N, 8)).astype(np.float32).astype(float)
    answers = [(labels + R.normal(0, s, (N, 8))).astype(np.float32).astype(float) for s in (0.3, 0.6)]
    out = {"labels": labels.tolist(), "answers": [a.tolist() for a in answers]}
    pair = lambda k, j: metrics.pairwise.cosine_similarity(labels[j : j + 1], answers[k][j : j + 1])[0, 0]
    out["cosine"] = case(lambda k, i: float(np.mean([pair(k, j) for j in i])), N, 1)
    return out


def boxes(apart):
    """Boxes of three classes; apart: some labels are crowds (COCO) or difficult (VOC)."""
    images, annotations, found = [], [], ([], [])
    for i in range(N):
        images.append({"id": 3 * i + 1, "file_name": f"{i:03d}.png"})
        rows = ([], [])
        for _ in range(R.integers(1, 5)):
            x, y = R.uniform(0, 60, 2).round(1)
            w, h = R.uniform(10, 40, 2).round(1)
            c = int(R.integers(1, 4))
            annotations.append({"id": len(annotations) + 1, "image_id": 3 * i + 1, "category_id": c, "bbox": [x, y, w, h], "area": w * h,
                                "iscrowd": int(apart and R.random() < 0.25)})
            for k, noise in ((0, 2), (1, 4)):
                for _ in range(R.integers(0, 3)):
                    d = R.normal(0, noise, 4)
                    rows[k].append([x + d[0], y + d[1], x + w + d[2], y + h + d[3], R.uniform(0.2, 1), c if R.random() < 0.85 else int(R.integers(1, 4))])
        for k in (0, 1):
            for _ in range(R.integers(0, 2)):
                x, y = R.uniform(0, 60, 2)
                rows[k].append([x, y, x + 20, y + 15, R.uniform(0.1, 0.7), int(R.integers(1, 5))])  # class 4 has no labels
            found[k].append(np.array(rows[k], np.float32).reshape(-1, 6).astype(float))
    labels = {"images": images, "annotations": annotations, "categories": [{"id": c, "name": str(c)} for c in (1, 2, 3, 4)]}

    def coco(k, i):
        with contextlib.redirect_stdout(io.StringIO()):
            truth = COCO()
            truth.dataset = labels
            truth.createIndex()
            dets = [{"image_id": images[j]["id"], "category_id": int(r[5]), "bbox": [r[0], r[1], r[2] - r[0], r[3] - r[1]], "score": r[4]} for j in i for r in found[k][j]]
            e = COCOeval(truth, truth.loadRes(dets), "bbox")
            e.params.imgIds = [images[j]["id"] for j in i]
            e.evaluate()
            e.accumulate()
            e.summarize()
        return e.stats

    def voc(k, i, recalls):
        m = MeanAveragePrecision2d(num_classes=4)
        for at, j in enumerate(i):
            mine = [a for a in annotations if a["image_id"] == images[j]["id"]]
            right = np.array([[*a["bbox"][:2], a["bbox"][0] + a["bbox"][2], a["bbox"][1] + a["bbox"][3], a["category_id"] - 1, a["iscrowd"], 0] for a in mine], float).reshape(-1, 7)
            r = found[k][j]
            m.add(np.concatenate([r[:, :4], r[:, 5:] - 1, r[:, 4:5]], 1), right)
            for c, t in enumerate(m.match_table):  # the package mixes the flags up where a picture has several labels and detections
                t["difficult"] = [right[right[:, 4] == c, 5].tolist() if p == at else d for p, d in zip(t["img_id"], t["difficult"])]
            for a in mine:
                m.class_counter[-1, a["category_id"] - 1] -= a["iscrowd"]  # VOC does not count the difficult ones; the package does
        v = m.value(iou_thresholds=0.5)[0.5]
        ap = lambda c: compute_average_precision(c["precision"], c["recall"]) if recalls is None else compute_average_precision_with_recall_thresholds(c["precision"], c["recall"], recalls)
        return float(np.mean([ap(v[c]) for c in range(4) if m.class_counter[:, c].sum() > 0]))  # the package's own figures are float32

    out = {"labels": labels, "rows": [[r.tolist() for r in f] for f in found]}
    out["map"] = case(lambda k, i: coco(k, i)[0], N, 100)
    out["map50"] = case(lambda k, i: coco(k, i)[1], N, 100)
    out["voc-map"] = case(lambda k, i: voc(k, i, None), N, 100)
    out["voc07-map"] = case(lambda k, i: voc(k, i, np.arange(0, 1.1, 0.1)), N, 100)
    return out


def spans():
    """Answers of SQuAD's form: F1 of the tokens as sets, as its script counts them where no token occurs twice."""
    n = 30
    right = [[sorted(R.integers(0, 12, 2).tolist()) for _ in range(R.integers(1, 3))] for _ in range(n)]
    scores = [R.normal(0, 1, (n, 2, 12)).astype(np.float32).astype(float) for _ in (0, 1)]
    for k, more in ((0, 3), (1, 1)):
        for j in range(n):
            scores[k][j, 0, right[j][0][0]] += more
            scores[k][j, 1, right[j][0][1]] += more

    def answer(k, j):
        s, e = scores[k][j]
        return max(((s[a] + e[b], -a, -b, (a, b)) for a in range(12) for b in range(a, 12)))[3]

    def judge(k, j, exact):
        best = 0.0
        for a, b in right[j]:
            x, y = answer(k, j)
            if exact:
                best = max(best, float((a, b) == (x, y)))
                continue
            both = len(set(range(a, b + 1)) & set(range(x, y + 1)))
            if both:
                p, r = both / (y - x + 1), both / (b - a + 1)
                best = max(best, 2 * p * r / (p + r))
        return best

    out = {"labels": right, "scores": [s.tolist() for s in scores]}
    for name, exact in (("qa-f1", False), ("qa-em", True)):
        out[name] = case(lambda k, i: float(np.mean([judge(k, j, exact) for j in i])), n, 100)
    return out


json.dump({"classes": classes(), "binary": binary(), "maps": maps(), "texts": texts(), "numbers": numbers(), "embeddings": embeddings(),
           "boxes": boxes(False), "boxes apart": boxes(True), "spans": spans()}, sys.stdout, separators=(",", ":"))
print()
