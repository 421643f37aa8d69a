"""Commands, results, errors: with the standard library alone."""

import os
import re
import stat
import subprocess
import sys
import unittest

import qwb
from qwb import _process, results
from tests.support import DATA, LABELS, MODEL, InFolder


class Commands(InFolder):
    def calibrated(self, **options):
        return qwb.calibrate(MODEL, data=DATA, output="m.plan.json", progress=False, **options)

    def test_a_plan_goes_all_the_way(self):
        plan = self.calibrated(platform="trt_int8", observer="kl")
        self.assertEqual(plan.calibration.samples, 48)
        self.assertEqual(plan.show().platform, "trt_int8")
        analysis = plan.analyze(layerwise=True, samples=4)
        self.assertIsNone(analysis.graphwise)
        self.assertIsInstance(analysis.layerwise[0], qwb.NodeError)
        worst = analysis.worst(3)
        self.assertEqual(worst[0].nsr, max(e.nsr for e in analysis.layerwise))
        self.assertAlmostEqual(worst[0].local, worst[0].clip + worst[0].round, places=6)
        self.assertEqual(plan.dispatch(fp32=worst[0].node).fp32, [worst[0].node])
        self.assertEqual(plan.show().domains["FP32"] > 0, True)
        verified = plan.verify(samples=2)
        self.assertIn(verified.verdict, ("equal", "ties"))
        right = plan.eval(labels=LABELS, mode="sim")
        self.assertEqual((right.n, right.mode), (48, "sim"))
        self.assertEqual(right.drop, 100 * (right.float_top1 - right.top1) / 48)
        export = plan.export("out.onnx")
        self.assertEqual(export.platform, "trt_int8")
        self.assertTrue(os.path.exists("out.onnx"))
        self.assertEqual(qwb.inspect("out.onnx").unsupported, [])
        self.assertEqual(plan.export("out.c", format="c", unverified=True).format, "c")
        self.assertEqual(self.left(), [])

    def test_decisions(self):
        plan = self.calibrated()
        plan.set("stem", observer="percentile(0.999)")
        plan.set("stem:weight", per_tensor=True)
        self.assertEqual([d["observer"] for d in plan.log().decisions if d.by == "user" and "observer" in d.extra], ["percentile(0.999)"])
        self.assertTrue(plan.log().decisions[-1]["per_tensor"])
        plan.undo()
        self.assertEqual(plan.log().redo, 1)
        plan.redo()
        plan.unset(plan.log().decisions[-1].number)
        self.assertEqual(plan.explain("stem").op, "Conv")
        self.assertIn("percentile(0.999)", plan.recipe())
        other = qwb.calibrate(MODEL, output="other.plan.json", data=DATA, platform="trt_int8", progress=False)
        self.assertFalse(plan.diff(other).equal)

    def test_errors_by_exit_code(self):
        plan = self.calibrated()
        with self.assertRaises(qwb.InputError) as e:
            qwb.inspect("none.onnx")
        self.assertEqual((e.exception.code, str(e.exception)), (1, "load: none.onnx: no such file or directory"))
        self.assertEqual((e.exception.details["kind"], e.exception.details["file"]), ("input", "none.onnx"))
        with self.assertRaisesRegex(qwb.UsageError, "did you mean --platform"):
            qwb.run_command(["calibrate", MODEL, "--platfrom", "trt_int8"], progress=False)
        with self.assertRaisesRegex(qwb.UsageError, "unknown flag: --nonsense"):
            plan.verify(nonsense=1)
        with self.assertRaises(qwb.VerdictError) as e:
            plan.dispatch(auto=True, max_drop=-100, data=DATA, labels=LABELS, force=True)
        self.assertIsInstance(e.exception.result, qwb.Dispatch)
        self.assertGreater(e.exception.result.evaluations, 0)
        with self.assertRaisesRegex(qwb.InputError, "label file"):
            plan.eval(labels=[1, 2, 3])
        with self.assertRaisesRegex(qwb.InputError, "int is no path"):
            plan.analyze(data=3)

    def test_progress(self):
        lines = []
        qwb.calibrate(MODEL, data="synthetic:2", output="s.plan.json", progress=lines.append)
        self.assertTrue(any(line.startswith("warning: ") for line in lines), lines)

        def refuses(line):
            raise KeyError(line)

        with self.assertRaises(KeyError):
            qwb.calibrate(MODEL, data="synthetic:2", output="t.plan.json", progress=refuses)

    def test_imported(self):
        self.calibrated().export("q.onnx")
        plan = qwb.import_model("q.onnx", output="q.plan.json", progress=False)
        self.assertEqual(plan.imported.platform, "onnxruntime")
        self.assertTrue(os.path.exists("q.float.onnx"))
        self.assertIn(plan.verify(data=DATA, samples=2).verdict, ("equal", "ties"))

    def test_report(self):
        report = self.calibrated().analyze(samples=2, html="r.html")._repr_html_()
        self.assertRegex(report, r'^<iframe srcdoc="&lt;!doctype html&gt;'.replace("doctype", "(?i:doctype)"))
        self.assertIn('sandbox="allow-scripts"', report)
        self.assertEqual(report.count('"') % 2, 0)
        with open("r.html", encoding="utf-8") as f:
            page = f.read()
        qwb.Report(page).save("again.html")
        with open("r.html", "rb") as a, open("again.html", "rb") as b:
            self.assertEqual(a.read(), b.read())


class EveryCommand(unittest.TestCase):
    """The program's own help says which commands there are and which have --json."""

    def below(self, *command):
        text = subprocess.run([qwb.binary(), *command, "--help"], capture_output=True, encoding="utf-8", check=True).stdout
        usage = text[text.index("Usage:"):]
        if " COMMAND [flags]" not in usage:
            return [(" ".join(command), "--json" in usage)]
        names = re.findall(r"(?m)^  (\w+)  ", usage)
        self.assertTrue(names)
        return [found for name in names for found in self.below(*command, name)]

    def test_json(self):
        found = self.below()
        self.assertGreater(len(found), 25)
        for command, has_json in found:
            plain = command in _process.PLAIN or command.split(" ")[0] in _process.PLAIN
            self.assertEqual(has_json, not plain, command)
            self.assertEqual(_process.command_of(command.split(" ") + ["x"]), command if command.split(" ")[0] in _process.NESTED else command.split(" ")[0])
        have = {c for c, _ in found}
        self.assertEqual([c for c in results.OF if c not in have], [])

    def test_text_of_commands_without_json(self):
        self.assertIn("complete", qwb.run_command(["completion", "bash"]))
        self.assertEqual([type(t).__name__ for t in qwb.run_command(["target", "list"])[:1]], ["Result"])


class Results(unittest.TestCase):
    def test_keys_without_a_field_are_kept(self):
        r = results.of("eval", {"mode": "sim", "n": 3, "sim": {"top1": 2}, "drop": None})
        self.assertEqual((r.n, r.drop, r.top1, r.extra, r["sim"]["top1"]), (3, None, None, {"sim": {"top1": 2}}, 2))
        self.assertEqual(repr(r), "Evaluation(mode='sim', n=3)")
        self.assertIsInstance(results.of("eval", {"tokens": 3, "kl": 0.5}), qwb.TextEvaluation)
        self.assertEqual(results.of("bench model", {"results": [{"name": "m"}]}).results[0].name, "m")
        v = results.of("verify", {"verdict": "different", "first": {"node": "a", "expected": 1}})
        self.assertEqual((v.first.node, v.first.got), ("a", None))

    def test_flags(self):
        self.assertEqual(_process.flags({"max_drop": 0.5, "force": True, "json": False, "data": ["a", "b"], "x": None}),
                         ["--max-drop", "0.5", "--force", "--data", "a", "--data", "b"])


@unittest.skipIf(os.name == "nt", "the files of this test are scripts of the shell")
class Binary(InFolder):
    def setUp(self):
        super().setUp()
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))

    def program(self, name, text):
        with open(name, "w") as f:
            f.write(text)
        os.chmod(name, stat.S_IRWXU)
        return os.path.abspath(name)

    def test_order(self):
        own = os.environ.pop("QWB_BINARY")
        os.mkdir("bin")
        self.program("bin/qwb", "#!/usr/bin/python3\nfrom qwb.__main__ import main\nmain()\n")  # what pip makes of the package itself
        os.environ["PATH"] = os.path.abspath("bin")
        with self.assertRaisesRegex(qwb.QwbError, "was not found"):
            qwb.binary()
        os.symlink(own, "there")
        os.mkdir("second")
        os.symlink(own, "second/qwb")
        os.environ["PATH"] += os.pathsep + os.path.abspath("second")
        self.assertEqual(qwb.binary(), os.path.abspath("second/qwb"))
        os.environ["QWB_BINARY"] = os.path.abspath("there")
        self.assertEqual(qwb.binary(), os.path.abspath("there"))
        os.environ["QWB_BINARY"] = self.folder
        with self.assertRaisesRegex(qwb.QwbError, "no program"):
            qwb.binary()

    def test_a_program_that_dies(self):
        os.environ["QWB_BINARY"] = self.program("dies", "#!/bin/sh\necho 'qwb: a panic' >&2\nexit 7\n")
        with self.assertRaisesRegex(qwb.QwbError, "^a panic$") as e:
            qwb.inspect("m.onnx")
        self.assertEqual((type(e.exception), e.exception.code), (qwb.QwbError, 7))
        os.environ["QWB_BINARY"] = self.program("talks", "#!/bin/sh\necho hello\n")
        with self.assertRaisesRegex(qwb.QwbError, "is no JSON"):
            qwb.inspect("m.onnx")

    def test_importing_needs_nothing(self):
        code = "import sys; before = set(sys.modules); import qwb; print(sorted({m.split('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
        if sys.version_info >= (3, 10):
            out = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, encoding="utf-8", check=True,
                                 env={"PYTHONPATH": os.path.dirname(os.path.dirname(qwb.__file__))}).stdout
            self.assertEqual(out.strip(), "['qwb']")

    def test_help_lists_the_keywords(self):
        self.assertIn("    label_offset: number to add", qwb.calibrate.__doc__)
        self.assertNotIn("    platform: ", qwb.calibrate.__doc__)  # an argument of its own
        self.assertTrue(qwb.Plan.tune.__doc__.startswith("Repairs the error"))
        self.assertIn("    budget: limit", qwb.Plan.tune.__doc__)
