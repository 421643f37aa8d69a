"""Arrays and modules in, arrays and metrics out."""

import gc
import os
import unittest

import qwb
from tests.support import DATA, LABELS, MODEL, InFolder, arrays, has, labels


def accuracy(outputs, classes):
    return sum(int(row.argmax()) == c for row, c in zip(outputs, classes)) / len(outputs)


@unittest.skipUnless(has("numpy"), "no NumPy")
class Arrays(InFolder):
    def test_arrays_are_the_files_they_came_from(self):
        x = arrays()
        plan = qwb.calibrate(MODEL, data=x, output="a.plan.json", progress=False)
        files = qwb.calibrate(MODEL, data=DATA, output="b.plan.json", progress=False)
        self.assertTrue(plan.diff(files).equal)
        self.assertEqual(plan.show().data["hash"], files.show().data["hash"])
        a, b = plan.eval(labels=labels()), files.eval(labels=LABELS)
        self.assertEqual((a.top1, a.drop, a.nsr), (b.top1, b.drop, b.nsr))
        self.assertEqual(len(self.left()), 1)
        del plan, a
        gc.collect()
        self.assertEqual(self.left(), [])

    def test_the_folder_goes_with_the_plan(self):
        with qwb.calibrate(MODEL, data=list(arrays()), output="a.plan.json", progress=False) as plan:
            self.assertEqual(plan.analyze(samples=2, graphwise=True).samples, 2)
            plan.analyze(data=arrays()[:3], graphwise=True)
            self.assertEqual(len(self.left()), 1)
        self.assertEqual(self.left(), [])
        with self.assertRaises(qwb.InputError):
            plan.analyze()
        with self.assertRaisesRegex(qwb.InputError, "no such file"):
            qwb.calibrate("none.onnx", data=arrays(), progress=False)
        gc.collect()
        self.assertEqual(self.left(), [])

    def test_inputs_by_name(self):
        import numpy as np

        x = arrays()
        plan = qwb.calibrate(MODEL, data={"image": x}, output="a.plan.json", progress=False)
        self.assertEqual(plan.calibration.samples, len(x))
        out = plan.outputs("fp32")
        self.assertTrue(np.array_equal(out, plan.outputs("fp32", data=DATA)))
        with self.assertRaisesRegex(qwb.InputError, "different numbers of samples"):
            plan.analyze(data={"image": x, "other": x[:2]})
        with self.assertRaisesRegex(qwb.InputError, "no samples"):
            plan.analyze(data=[])

    def test_a_metric_of_ones_own(self):
        plan = qwb.calibrate(MODEL, data=DATA, output="m.plan.json", progress=False)
        right = plan.eval(labels=LABELS, mode="int8")
        calls = []

        def counted(outputs, classes):
            calls.append(len(outputs))
            return accuracy(outputs, classes)

        m = plan.metric(counted, labels=labels(), resamples=400)
        self.assertEqual(set(calls), {48})
        self.assertEqual(len(calls), 2 + 2 * 400)
        self.assertEqual((m.float, m.quantized, m.n), (right.float_top1 / 48, right.top1 / 48, 48))
        self.assertAlmostEqual(m.change, -right.drop / 100)
        self.assertLessEqual(m.low, m.change)
        self.assertLessEqual(m.change, m.high)
        # The bootstrap's error is the one that eval computes from the pairs, but for the draw.
        self.assertAlmostEqual(m.error, right.drop_error / 100, delta=0.2 * right.drop_error / 100 + 1e-9)
        self.assertEqual(m, plan.metric(accuracy, labels=labels(), resamples=400), "the same seed, the same error")
        same = plan.metric(accuracy, labels=labels(), mode="fp32", resamples=10)
        self.assertEqual((same.change, same.error, same.significant), (0, 0, False))
        with self.assertRaisesRegex(qwb.InputError, "3 labels for 48 samples"):
            plan.metric(accuracy, labels=[1, 2, 3])
        with self.assertRaisesRegex(qwb.InputError, "returned nan"):
            plan.metric(lambda outputs, _: float("nan"))
        with self.assertRaisesRegex(qwb.InputError, "returned str, not a number"):
            plan.metric(lambda outputs, _: "good")

    def test_a_metric_in_commands(self):
        """eval, dispatch, analyze and tune with a function: what they say is what the function says of the outputs."""
        import numpy as np

        x, y = arrays(), labels()
        plan = qwb.calibrate(MODEL, data=DATA, output="m.plan.json", progress=False)
        counted = plan.eval(data=x, labels=y)
        score = plan.eval(data=x, labels=y, metric=accuracy).metrics[0]
        self.assertEqual((score.value, score.float), (counted.top1 / 48, counted.float_top1 / 48))
        self.assertEqual(plan.eval(data=DATA, labels=LABELS, metric=accuracy).metrics[0].value, score.value)

        words = ["even" if c % 2 == 0 else "odd" for c in y]  # labels of any kind, told apart by their samples
        same = plan.eval(data=x, labels=words, metric=lambda o, w: (o.argmax(1)[0] % 2 == 0) == (w[0] == "even")).metrics[0]
        self.assertEqual(same.value, plan.metric(lambda o, w: ((o.argmax(1) % 2 == 0) == (w == "even")).mean(), data=x, labels=np.array(words)).quantized)
        with self.assertRaises(ZeroDivisionError):
            plan.eval(data=x, labels=y, metric=lambda o, c: 1 / 0)
        with self.assertRaisesRegex(qwb.InputError, "for files name a label file"):
            plan.eval(data=DATA, labels=y, metric=accuracy)
        with self.assertRaisesRegex(qwb.VerdictError, "the budget is not confirmed: 48 samples"):
            plan.dispatch(data=x, labels=y, metric=accuracy, auto=True, max_drop=0.001)
        self.assertEqual(plan.dispatch(data=x, labels=y, metric=accuracy, auto=True, max_drop=0.9).fp32, [])

        def first(outputs, _):
            return float(outputs[:, 0].mean())

        gains = plan.analyze(data=x, metric=first, nodes=2, layerwise=True).gains
        self.assertEqual(len(gains), 2)
        base = first(plan.outputs("sim", data=x), None)
        plan.set(gains[0].node, domain="fp32")
        self.assertAlmostEqual(gains[0].change, first(plan.outputs("sim", data=x), None) - base)
        plan.undo()
        self.assertIn(f"<td>{gains[0].node}</td>", gains._repr_html_())

        def near(outputs, those):
            return -float(abs(outputs - those).mean())

        wanted, before = plan.outputs("fp32", data=x), plan.outputs("sim", data=x)
        undone = plan.tune(data=DATA, metric=near, judge=x, labels=before)  # whatever changes is worse
        self.assertTrue(undone.undone and undone.overlay and undone.metric.high < 0)
        self.assertEqual(near(plan.outputs("sim", data=x), before), 0)
        kept = plan.tune(data=DATA, metric=near, judge=x, labels=wanted)
        self.assertFalse(kept.undone)
        self.assertEqual((kept.metric.float, kept.metric.quantized), (near(before, wanted), near(plan.outputs("sim", data=x), wanted)))
        self.assertGreater(kept.metric.change, 0)
        with self.assertRaisesRegex(qwb.UsageError, "needs judge="):
            plan.tune(method="bias", metric=near)
        self.assertEqual(self.left(), [])

    def test_the_error_of_a_metric_is_that_of_the_mean(self):
        """Of a metric that is a mean over samples, the error of the difference is std / sqrt(n)."""
        import numpy as np
        from qwb import _metric

        draw = np.random.default_rng(1)
        before = draw.normal(size=400)
        after = before + draw.normal(size=400) * 0.1 + 0.02
        m = _metric.measure(lambda o, _: o.mean(), before, after, None, "sim", 2000)
        want = (after - before).std(ddof=1) / 20
        self.assertAlmostEqual(m.error, want, delta=0.06 * want)
        self.assertTrue(m.low < m.change < m.high)
        self.assertAlmostEqual(m.high - m.low, 2 * 1.96 * want, delta=0.1 * want * 4)

    def test_outputs_of_several_shapes(self):
        import numpy as np
        from qwb._metric import choose, stacked

        self.assertEqual(stacked([np.zeros((1, 3)), np.ones((1, 3))]).shape, (2, 3))
        self.assertEqual(stacked([np.zeros(3), np.ones(3)]).shape, (2, 3))
        ragged = [np.zeros((2, 3)), np.zeros((1, 3))]
        self.assertIs(stacked(ragged), ragged)
        self.assertEqual(choose(stacked([{"a": np.zeros((1, 2)), "b": np.ones(1)}] * 3), [0, 0])["b"].shape, (2,))
        mixed = [{"a": np.zeros(2)}, {"a": np.zeros(3)}]
        self.assertIs(stacked(mixed), mixed)


@unittest.skipUnless(has("numpy", "torch"), "no torch")
class Torch(InFolder):
    def test_a_module(self):
        import numpy as np
        import torch

        torch.manual_seed(1)
        module = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 8 * 8, 5))
        module.train()
        x = torch.randn(40, 1, 8, 8)
        plan = qwb.calibrate(module, data=x, output="net.plan.json", progress=False)
        self.assertTrue(module.training)
        self.assertEqual(sorted(os.listdir(".")), ["net.onnx", "net.plan.json", "net.stats"])
        module.eval()
        with torch.no_grad():
            want = module(x).numpy()
        np.testing.assert_allclose(plan.outputs("fp32"), want, atol=1e-4)
        noise = ((plan.outputs("int8") - want) ** 2).sum() / (want**2).sum()
        self.assertTrue(0 < noise < 0.01, noise)
        self.assertEqual(plan.metric(lambda o, y: float((o.argmax(1) == y).mean()), labels=want.argmax(1), resamples=20).float, 1)

    def test_what_cannot_be_exported(self):
        import torch

        class Odd(torch.nn.Module):
            def forward(self, x):
                return torch.fft.fft(x).numpy()

        with self.assertRaisesRegex(qwb.InputError, "torch.onnx.export: "):
            qwb.calibrate(Odd(), data=torch.ones(2, 4), progress=False)
        with self.assertRaisesRegex(qwb.InputError, "needs example="):
            qwb.calibrate(torch.nn.Linear(2, 2), data="synthetic:4", progress=False)
        self.assertEqual(os.listdir("."), [])
