"""Hold qwb's generated C to TFLite's reference kernels, and measure it next to them and to CMSIS-NN's C fallback.

    pip install tflite-runtime==2.14.0 "numpy<2"              # its python runs this script
    pip install ai-edge-litert==2.3.0                         # in another environment: LITERT_PYTHON=.../python (may be missing)
    pip install ziglang==0.17.1 unicorn==2.1.4 pyelftools     # in another environment: ZIG_PYTHON=.../python (may be missing)
    git clone https://github.com/mlcommons/tiny; git clone https://github.com/ARM-software/CMSIS-NN
    python c_program.py QWB TESTDATA TINY CMSIS_NN [NETWORK ...]

For each .tflite file of MLPerf Tiny: import its Q/DQ twin (TESTDATA/models/mlperf-tiny/*.qdq.onnx), write it as C with integers at the borders,
compile it with gcc, with sanitizers, with clang (zig cc) and for 32 bits, run all on the same int8 inputs and compare every integer of the
output with BUILTIN_REF. CMSIS-NN gets the same network as a sequence of its calls, made here from the .tflite file. Times are minima over
rounds in which all take turns on one thread. The Cortex-M4 is emulated: what is counted are instructions, and integers are compared there, too.
Prints Markdown tables.
"""
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

NETWORKS = {  # .tflite below TINY/benchmark/training, Q/DQ file, data (None: random codes)
    "ResNet-8": ("image_classification/trained_models/pretrainedResnet_quant.tflite", "pretrainedResnet_quant.qdq.onnx", "cifar"),
    "large ResNet": ("image_classification/trained_models/pretrainedResnet_large_int8.tflite", "pretrainedResnet_large_int8.qdq.onnx", "cifar"),
    "kws": ("keyword_spotting/trained_models/kws_ref_model.tflite", "kws_ref_model.qdq.onnx", None),
    "vww": ("visual_wake_words/trained_models/vww_96_int8.tflite", "vww_96_int8.qdq.onnx", None),
    "ad01": ("anomaly_detection/trained_models/ad01_int8.tflite", "ad01_int8.qdq.onnx", None),
    "str_ww": ("streaming_wakeword/trained_models/str_ww_ref_model.tflite", "str_ww_ref_model.qdq.onnx", "str_ww"),
}
SAMPLES, ROUNDS = 100, 5

DRIVER = """
#define _POSIX_C_SOURCE 199309L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
void call(const int8_t *in, int8_t *out);
static int8_t in[IN * SAMPLES], out[OUT * SAMPLES];
int main(int argc, char **argv) {
    double best = 1e30;
    FILE *f = fopen(argv[1], "rb");
    if (!f || fread(in, IN, SAMPLES, f) != SAMPLES)
        return 1;
    fclose(f);
    for (int i = 0; i < SAMPLES; i++) {
        struct timespec a, b;
        double t;
        clock_gettime(CLOCK_MONOTONIC, &a);
        call(in + i * IN, out + i * OUT);
        clock_gettime(CLOCK_MONOTONIC, &b);
        t = (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3;
        best = t < best ? t : best;
    }
    printf("%.1f\\n", best);
    f = fopen(argv[2], "wb");
    return !f || fwrite(out, OUT, SAMPLES, f) != SAMPLES || fclose(f);
}
"""
OURS = """
#define QWB_INTERFACE_ONLY
#include "qwb.c"
static uint64_t arena[(QWB_ARENA_BYTES + 7) / 8];
void call(const int8_t *in, int8_t *out) {
    const void *ins[1] = {in};
    void *outs[1] = {out};
    qwb_run_in(arena, ins, outs);
}
"""


def multiplier(real):
    """The factor as m * 2^(shift - 31), as TFLite's QuantizeMultiplier."""
    if real == 0:
        return 0, 0
    m, shift = math.frexp(real)
    q = int(math.floor(m * (1 << 31) + 0.5))
    if q == 1 << 31:
        q, shift = q // 2, shift + 1
    return (0, 0) if shift < -31 else (q, shift)


class Cmsis:
    """A .tflite file as C that calls CMSIS-NN."""

    def __init__(self, interpreter):
        self.it, self.lines, self.tables, self.n = interpreter, [], [], 0
        self.tensor = {d["index"]: d for d in interpreter.get_tensor_details()}
        ops = [o for o in interpreter._get_ops_details() if o["op_name"] != "DELEGATE"]
        self.alias, made = {}, set()
        for o in ops:
            if o["op_name"] == "RESHAPE":
                self.alias[int(o["outputs"][0])] = self.root(int(o["inputs"][0]))
            made.add(int(o["outputs"][0]))
        last = {}
        for t, o in enumerate(ops):
            for i in o["inputs"]:
                last[self.root(int(i))] = t
        self.inputs = {int(d["index"]) for d in interpreter.get_input_details()}
        self.output = self.root(int(interpreter.get_output_details()[0]["index"]))
        placed, self.arena = [], 0
        life = [(self.size(i), i, t, last.get(i, t)) for t, o in enumerate(ops) for i in [int(o["outputs"][0])] if i not in self.alias and i != self.output]
        self.at = {}
        for size, i, first, end in sorted(life, reverse=True):
            at = 0
            for a, b, f, e in sorted(placed):
                if not (e < first or end < f) and at + size > a:
                    at = max(at, (b + 15) // 16 * 16)
            placed.append((at, at + size, first, end))
            self.at[i] = at
            self.arena = max(self.arena, at + size)
        for o in ops:
            if o["op_name"] != "RESHAPE":
                getattr(self, o["op_name"].lower())([int(i) for i in o["inputs"]], int(o["outputs"][0]))

    def root(self, i):
        return self.alias.get(i, i)

    def size(self, i):
        return int(np.prod(self.tensor[i]["shape"]))

    def q(self, i):
        p = self.tensor[i]["quantization_parameters"]
        return [float(s) for s in p["scales"]], int(p["zero_points"][0])

    def pointer(self, i):
        i = self.root(i)
        return "(int8_t *)in" if i in self.inputs else "out" if i == self.output else f"arena + {self.at[i]}"

    def constant(self, kind, data):
        self.n += 1
        self.tables.append(f"static const {kind} k{self.n}[] = {{{','.join(str(int(v)) for v in np.ravel(data))}}};")
        return f"k{self.n}"

    def dims(self, i):
        s = [1] * (4 - len(self.tensor[i]["shape"])) + [int(v) for v in self.tensor[i]["shape"]]
        return "{%d, %d, %d, %d}" % tuple(s)

    def channels(self, i, w, y):
        (sx,), sw, (sy,) = self.q(i)[0], self.q(w)[0], self.q(y)[0]
        pairs = [multiplier(sx * s / sy) for s in sw]
        return self.constant("int32_t", [p[0] for p in pairs]), self.constant("int32_t", [p[1] for p in pairs])

    def window(self, x, y, k):
        """Stride and padding in front of (height, width): what gives the shape, SAME before VALID."""
        a, b = self.tensor[x]["shape"][1:3], self.tensor[y]["shape"][1:3]
        for s in range(1, 9):
            if all(-(-int(n) // s) == m for n, m in zip(a, b)):
                return s, [max((int(m) - 1) * s + int(t) - int(n), 0) // 2 for n, m, t in zip(a, b, k)]
            if all((int(n) - int(t)) // s + 1 == m for n, m, t in zip(a, b, k)):
                return s, [0, 0]
        raise ValueError(f"no stride for {a} to {b} by {k}")

    def conv(self, ins, y, depthwise):
        x, w, b = ins
        k = self.tensor[w]["shape"][1:3]
        s, pad = self.window(x, y, k)
        m, shift = self.channels(x, w, y)
        weights, bias = self.constant("int8_t", self.it.get_tensor(w)), self.constant("int32_t", self.it.get_tensor(b))
        name, mult = ("depthwise_conv", f"{self.tensor[y]['shape'][3] // self.tensor[x]['shape'][3]}, ") if depthwise else ("convolve", "")
        self.lines.append(f"""    {{
        static const cmsis_nn_{'dw_' if depthwise else ''}conv_params p = {{{-self.q(x)[1]}, {self.q(y)[1]}, {mult}{{{s}, {s}}}, {{{pad[1]}, {pad[0]}}}, {{1, 1}}, {{-128, 127}}}};
        static const cmsis_nn_per_channel_quant_params q = {{(int32_t *){m}, (int32_t *){shift}}};
        static const cmsis_nn_dims a = {self.dims(x)}, f = {self.dims(w)}, b = {{1, 1, 1, {self.size(b)}}}, y = {self.dims(y)};
        const cmsis_nn_context c = {{scratch, arm_{name}_wrapper_s8_get_buffer_size(&p, &a, &f, &y)}};
        need(c.size);
        fail |= arm_{name}_wrapper_s8(&c, &p, &q, &a, {self.pointer(x)}, &f, {weights}, &b, {bias}, &y, {self.pointer(y)});
    }}""")

    def conv_2d(self, ins, y):
        self.conv(ins, y, False)

    def depthwise_conv_2d(self, ins, y):
        self.conv(ins, y, True)

    def fully_connected(self, ins, y):
        x, w, b = ins
        sx, sw, sy = np.float32(self.q(x)[0][0]), np.float32(self.q(w)[0][0]), self.q(y)[0][0]
        m, shift = multiplier(float(sx * sw) / sy)
        n, depth = (int(v) for v in self.tensor[w]["shape"])
        weights, bias = self.constant("int8_t", self.it.get_tensor(w)), self.constant("int32_t", self.it.get_tensor(b))
        self.lines.append(f"""    {{
        static const cmsis_nn_fc_params p = {{{-self.q(x)[1]}, 0, {self.q(y)[1]}, {{-128, 127}}}};
        static const cmsis_nn_per_tensor_quant_params q = {{{m}, {shift}}};
        static const cmsis_nn_dims a = {{1, 1, 1, {depth}}}, f = {{{depth}, 1, 1, {n}}}, b = {{1, 1, 1, {n}}}, y = {{1, 1, 1, {n}}};
        const cmsis_nn_context c = {{scratch, arm_fully_connected_s8_get_buffer_size(&f)}};
        need(c.size);
        if (c.size)
            arm_vector_sum_s8(c.buf, {depth}, {n}, {weights}, {-self.q(x)[1]}, 0, {bias});
        fail |= arm_fully_connected_s8(&c, &p, &q, &a, {self.pointer(x)}, &f, {weights}, &b, {bias}, &y, {self.pointer(y)});
    }}""")

    def add(self, ins, y):
        a, b = ins
        (sa,), (sb,), (sy,) = self.q(a)[0], self.q(b)[0], self.q(y)[0]
        twice = 2 * max(sa, sb)
        (ma, na), (mb, nb), (my, ny) = multiplier(sa / twice), multiplier(sb / twice), multiplier(twice / ((1 << 20) * sy))
        self.lines.append(f"    fail |= arm_elementwise_add_s8({self.pointer(a)}, {self.pointer(b)}, {-self.q(a)[1]}, {ma}, {na}, {-self.q(b)[1]}, {mb}, {nb}, 20, "
                          f"{self.pointer(y)}, {self.q(y)[1]}, {my}, {ny}, -128, 127, {self.size(y)});")

    def average_pool_2d(self, ins, y):
        x = ins[0]
        h, w = (int(v) for v in self.tensor[x]["shape"][1:3])
        assert tuple(self.tensor[y]["shape"][1:3]) == (1, 1), "a pool that is not global"
        self.lines.append(f"""    {{
        static const cmsis_nn_pool_params p = {{{{1, 1}}, {{0, 0}}, {{-128, 127}}}};
        static const cmsis_nn_dims a = {self.dims(x)}, f = {{1, {h}, {w}, 1}}, y = {self.dims(y)};
        const cmsis_nn_context c = {{scratch, arm_avgpool_s8_get_buffer_size(1, {int(self.tensor[x]['shape'][3])})}};
        need(c.size);
        fail |= arm_avgpool_s8(&c, &p, &a, {self.pointer(x)}, &f, &y, {self.pointer(y)});
    }}""")

    def softmax(self, ins, y):
        x = ins[0]
        m, shift = multiplier(min(self.q(x)[0][0] * (1 << 26), (1 << 31) - 1.0))
        diff = -math.floor(31 * (1 << 26) / (1 << shift))
        n = int(self.tensor[x]["shape"][-1])
        self.lines.append(f"    arm_softmax_s8({self.pointer(x)}, {self.size(x) // n}, {n}, {m}, {shift}, {diff}, {self.pointer(y)});")

    def text(self):
        return "\n".join(["#include <arm_nnfunctions.h>", "", *self.tables, "", f"static int8_t arena[{max(self.arena, 1)}] __attribute__((aligned(16))), scratch[65536];",
                          "int32_t needed;", "static void need(int32_t n) { needed = n > needed ? n : needed; }", "int call(const int8_t *in, int8_t *out);",
                          "int call(const int8_t *in, int8_t *out) {", "    int fail = 0;", *self.lines, "    return fail;", "}", ""])


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def reference(module, model, x):
    """Outputs of the reference kernels, and the time of one run in microseconds."""
    it = module.Interpreter(model, experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF, num_threads=1)
    it.allocate_tensors()
    i, o = it.get_input_details()[0], it.get_output_details()[0]["index"]
    outs, best = [], 1e30
    for row in x:
        it.set_tensor(i["index"], row.reshape(i["shape"]))
        t = time.perf_counter()
        it.invoke()
        best = min(best, time.perf_counter() - t)
        outs.append(it.get_tensor(o).ravel())
    return np.array(outs), best * 1e6, it


def samples(it, data, testdata):
    d = it.get_input_details()[0]
    scale, zero = d["quantization"]
    shape = (SAMPLES, *d["shape"][1:])
    if data == "cifar":
        raw = np.fromfile(f"{testdata}/data/cifar10/eval_2000.bin", np.uint8).reshape(-1, 3073)[:SAMPLES, 1:]
        x = raw.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).astype(np.float32)
    elif data == "str_ww":
        z = np.load(f"{testdata}/models/mlperf-tiny/training__streaming_wakeword__calibration_samples.npz", allow_pickle=True)
        x = max((z[k] for k in z.files), key=lambda v: v.size)
        x = np.resize(x.reshape(-1, int(np.prod(shape[1:]))), (SAMPLES, int(np.prod(shape[1:])))).astype(np.float32)
    else:
        return np.random.default_rng(18).integers(-128, 128, shape, dtype=np.int8)
    return np.clip(np.round(x / scale) + zero, -128, 127).astype(np.int8).reshape(shape)


def emulated(elf, zig, symbol, arguments, x, outs):
    """Instructions of one run on a Cortex-M4 in unicorn, and its output: zig's python does it."""
    program = f"""
import sys, struct
from elftools.elf.elffile import ELFFile
from unicorn import *
from unicorn.arm_const import *
e = ELFFile(open({elf!r}, 'rb'))
mu = Uc(UC_ARCH_ARM, UC_MODE_THUMB | UC_MODE_MCLASS)
mu.ctl_set_cpu_model(UC_CPU_ARM_CORTEX_M4)
mu.mem_map(0, 64 << 20)
for s in e.iter_segments():
    if s['p_type'] == 'PT_LOAD' and s['p_filesz']:
        mu.mem_write(s['p_vaddr'], s.data())
at = next(s['st_value'] for s in e.get_section_by_name('.symtab').iter_symbols() if s.name == {symbol!r})
IN, OUT, STACK, END = 48 << 20, 49 << 20, 60 << 20, 61 << 20
mu.mem_write(IN, open({x!r}, 'rb').read({arguments[0]}))
mu.reg_write(UC_ARM_REG_SP, STACK); mu.reg_write(UC_ARM_REG_LR, END | 1)
mu.reg_write(UC_ARM_REG_R0, IN); mu.reg_write(UC_ARM_REG_R1, OUT)
n = [0]
def block(mu, address, size, data): n[0] += data.get(address) or data.setdefault(address, count(address, size))
def count(address, size):
    code, i, k = bytes(mu.mem_read(address, size)), 0, 0
    while i < size:
        i += 4 if struct.unpack_from('<H', code, i)[0] >> 11 in (0x1d, 0x1e, 0x1f) else 2; k += 1
    return k
mu.hook_add(UC_HOOK_BLOCK, block, {{}})
mu.emu_start(at | 1, END)
open({outs!r}, 'wb').write(mu.mem_read(OUT, {arguments[1]}))
print(n[0])
"""
    return int(run(zig, "-c", program))


def main(qwb, testdata, tiny, cmsis, *names):
    import tflite_runtime.interpreter as tfl
    lite, zig = os.environ.get("LITERT_PYTHON"), os.environ.get("ZIG_PYTHON")
    clang = [zig, "-m", "ziglang", "cc"] if zig else None
    other = re.compile("flt|f16|f32|(?<!s8_)(?<!s8_to_)s16|s4|svdf|lstm|transpose|batch_matmul|lut|u8")  # what these networks do not call
    sources = sorted(os.path.join(d, f) for d, _, files in os.walk(f"{cmsis}/Source") for f in files if f.endswith(".c") and not other.search(f))
    times, sizes = [], []
    work = tempfile.mkdtemp()
    os.chdir(work)
    open("all.c", "w").write("".join(f'#include "{s}"\n' for s in sources))
    library = {}
    for name in names or NETWORKS:
        file, twin, data = NETWORKS[name]
        model = f"{tiny}/benchmark/training/{file}"
        _, _, it = reference(tfl, model, [])
        x = samples(it, data, testdata)
        want, _, it = reference(tfl, model, x)
        plan = twin.replace(".onnx", ".plan.json")
        run(qwb, "import", f"{testdata}/models/mlperf-tiny/{twin}")
        size = json.loads(run(qwb, "export", plan, "--format", "c", "--profile", "tflite2", "--inputs", "integers", "--outputs", "integers", "--unverified", "-o", "qwb.c", "--json"))
        shape = [int(v) for v in next(l for l in open("qwb.c") if "define QWB_INPUT_0_BYTES" in l).split("[")[1].split("]")[0].split(",")]
        ours = x.transpose(0, 3, 1, 2) if x.ndim == 4 and tuple(shape[1:]) != x.shape[1:] else x
        np.ascontiguousarray(ours).tofile("ours.in")
        x.tofile("nhwc.in")
        c = Cmsis(it)
        for f, text in {"driver.c": DRIVER, "ours.c": OURS, "cmsis.c": c.text()}.items():
            open(f, "w").write(text)
        flags = ["-std=c99", "-ffp-contract=off", "-DQWB_NO_MAIN", "-DQWB_NO_ARENA"]
        io = [f"-DIN={x[0].size}", f"-DOUT={want[0].size}", f"-DSAMPLES={SAMPLES}"]
        warn = ["-Wall", "-Wextra", "-pedantic", "-Wsign-conversion", "-Werror"]
        builds = {"gcc -O2": ["gcc", "-O2", *warn], "gcc -O3": ["gcc", "-O3", *warn], "gcc -Os": ["gcc", "-Os", *warn],
                  "sanitizers": ["gcc", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]}
        if clang:
            builds.update({"clang -O2": [*clang, "-O2", *warn], "32 bits": [*clang, "-O2", "-target", "x86-linux-musl", "-static", *warn]})
        for k, b in builds.items():
            run(*b, *flags, "-c", "qwb.c", "-o", "qwb.o")
            plain = [v for v in b if v not in warn]
            run(*plain, *flags, *io, "driver.c", "ours.c", "qwb.o", "-o", k.replace(" ", "_"))
        include = [f"-I{cmsis}/Include"]
        if not library:
            for o in ("-O2", "-O3", "-Os"):
                library[o] = [f"all{o}.o"]
                run("gcc", o, "-ffunction-sections", "-fdata-sections", *include, "-c", "all.c", "-o", *library[o])
        for o in library:
            run("gcc", o, "-ffunction-sections", *include, *io, "driver.c", "cmsis.c", *library[o], "-Wl,--gc-sections", "-o", "cmsis" + o)
        best = {}
        wrong = {}
        for _ in range(ROUNDS):
            for k in [*builds, *("cmsis" + o for o in library)]:
                t = float(run("./" + k.replace(" ", "_"), "nhwc.in" if k.startswith("cmsis") else "ours.in", "out.bin"))
                wrong[k] = int((np.fromfile("out.bin", np.int8).reshape(want.shape) != want).sum())
                best[k] = min(best.get(k, 1e30), t)
            _, t, _ = reference(tfl, model, x)
            best["tflite"] = min(best.get("tflite", 1e30), t)
            if lite:
                t = float(run(lite, __file__, "--time", model, "nhwc.in"))
                best["litert"] = min(best.get("litert", 1e30), t)
        print(name, {k: round(v) for k, v in best.items()}, wrong, file=sys.stderr)
        ms = lambda k: f"{best[k] / 1e3:.3f}" if k in best else "-"
        ratio = lambda k: f"{best['gcc -O2'] / best[k]:.2f}" if k in best else "-"
        exact = [k for k in builds if wrong[k] == 0]
        times.append(f"| {name} | {want.size} | {max(wrong[k] for k in builds)} ({', '.join(exact)}) | {wrong['cmsis-O2']} | {ms('gcc -O2')} | {ms('gcc -O3')} | {ms('gcc -Os')} | {ms('tflite')} | "
                     f"{ms('litert')} | {ms('cmsis-O2')} | {ms('cmsis-O3')} | {ratio('tflite')} | {ratio('litert')} | {ratio('cmsis-O2')} |")
        io_bytes = x[0].size + want[0].size
        row = [name, size.get("constant_bytes"), linked("gcc", ["-Os"], ["qwb.c", "ours.c"], [], flags), linked("gcc", ["-Os"], ["cmsis.c"], library["-Os"], include)]
        buffer = needs(include, io, library["-O2"])
        if clang:
            row += cortex(clang, zig, flags, include, x, want)
        row += [size.get("arena_bytes"), size.get("arena_bytes") + io_bytes, c.arena + buffer + io_bytes]
        sizes.append("| " + " | ".join(str(v) for v in row) + " |")
        print(times[-1], sizes[-1], sep="\n", file=sys.stderr, flush=True)
    print("| network | integers compared | different (builds with none) | CMSIS-NN different | C, gcc -O2, ms | -O3 | -Os | TFLite 2.14 reference | LiteRT 2.3 reference | CMSIS-NN -O2 | -O3 | to TFLite | to LiteRT | to CMSIS-NN |")
    print("|---" * 14 + "|")
    print("\n".join(times))
    print("\n| network | constants | x86-64 -Os, C | CMSIS-NN |" + (" Cortex-M4 -Os, C | CMSIS-NN | instructions -O2, C | CMSIS-NN | different there |" if clang else "") + " arena | RAM, C | RAM, CMSIS-NN |")
    print("|---" * (12 if clang else 7) + "|")
    print("\n".join(sizes))


def linked(cc, options, files, objects, flags):
    """Bytes of code and constants of what call needs."""
    run(cc, *options, *flags, "-fno-pic", "-no-pie", "-fno-asynchronous-unwind-tables", "-ffunction-sections", "-nostdlib", "-static", *files, *objects, "-Wl,--gc-sections", "-Wl,-e,call", "-Wl,--unresolved-symbols=ignore-all", "-Wl,--build-id=none", "-o", "linked")
    text, data = run("size", "linked").splitlines()[1].split()[:2]
    return int(text) + int(data)


def needs(include, io, objects):
    """Bytes of the scratch that CMSIS-NN asks for."""
    open("needs.c", "w").write('#include <stdint.h>\n#include <stdio.h>\nint call(const int8_t *in, int8_t *out);\nextern int32_t needed;\n'
                               "static int8_t in[IN], out[OUT];\nint main(void) { int f = call(in, out); printf(\"%d\\n\", (int)needed); return f; }\n")
    run("gcc", *include, *io, "needs.c", "cmsis.c", *objects, "-Wl,--gc-sections", "-o", "needs")
    return int(run("./needs"))


def cortex(clang, zig, flags, include, x, want):
    """Code and constants on a Cortex-M4 (-Os), and instructions of one run there (-O2), of both; how many integers differ."""
    open("mem.c", "w").write("#include <stddef.h>\nvoid *memcpy(void *t, const void *f, size_t n) { char *a = t; const char *b = f; while (n--) *a++ = *b++; return t; }\n"
                             "void *memset(void *t, int c, size_t n) { char *a = t; while (n--) *a++ = (char)c; return t; }\n")
    target = [*clang, "-target", "thumb-freestanding-eabi", "-mcpu=cortex_m4", "-ffunction-sections", "-fdata-sections", "-fno-sanitize=all"]
    run(*target, "-O2", "-fno-builtin", "-c", "mem.c", "-o", "mem.o")
    result = []
    os.makedirs("headers", exist_ok=True)
    open("headers/string.h", "w").write("#include <stddef.h>\nvoid *memcpy(void *, const void *, size_t);\nvoid *memset(void *, int, size_t);\n")
    wrong = 0
    for o in ("-Os", "-O2"):
        for which, files in (("ours", ["qwb.c", "ours.c"]), ("cmsis", ["cmsis.c"])):
            objects = []
            if which == "cmsis":
                objects = [f"m4{o}.o"]
                if not os.path.exists(objects[0]):
                    run(*target, o, "-Iheaders", *include, "-c", "all.c", "-o", objects[0])
            elf = f"{which}{o}.elf"
            run(*target, o, *flags, "-Iheaders", *include, "-static", *files, "mem.o", *objects, "-Wl,--gc-sections", "-Wl,-e,call", "-o", elf)
            text, data = run("size", elf).splitlines()[1].split()[:2]
            if o == "-Os":
                result.append(int(text) + int(data))
            else:
                result.append(emulated(elf, zig, "call", (x[0].size, want[0].size), "ours.in" if which == "ours" else "nhwc.in", "m4.out"))
                wrong += int((np.fromfile("m4.out", np.int8) != want[0]).sum())
    return [*result, wrong]


if __name__ == "__main__":
    if sys.argv[1] == "--time":
        from ai_edge_litert import interpreter
        it = interpreter.Interpreter(sys.argv[2])
        d = it.get_input_details()[0]
        print(reference(interpreter, sys.argv[2], np.fromfile(sys.argv[3], np.int8).reshape(-1, *d["shape"][1:]))[1])
    else:
        main(*(os.path.abspath(a) for a in sys.argv[1:5]), *sys.argv[5:])
