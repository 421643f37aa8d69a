"""Writes a table of GGUF types: size, perplexity, KL and flips against the float model, of qwb's files and of llama.cpp's.

    python quality.py QWB MODEL TOKENIZER FIT TEST FOLDER [TYPES METHODS BITS LLAMA] > TYPES.md

Weights are fitted to the text FIT and measured on TEST, one sequence a line, by qwb eval; files of llama_model_quantize (llama-cpp-python
0.3.36) are opened by qwb too, with the importance matrix that qwb wrote from FIT. A file that is in FOLDER already is not made again.
Each file is then run by llama.cpp along the 100 tokens that qwb chooses: whether it would choose the same, or how far apart the logits of
its own choice and of the first other one are. Types are those of matrices as written, the most frequent first. The lists in brackets are
separated by commas, "-" for none."""
import collections, ctypes, json, os, subprocess, sys

import gguf
import llama_cpp
import numpy as np

QWB, MODEL, TOKENIZER, FIT, TEST, FOLDER = sys.argv[1:7]
PROMPT = "Once upon a time"
LISTS = ["q4_0,iq4_nl,q4_k,q5_k", "rtn,importance,gptaq", "4.5,5.4", "q4_0,iq4_nl,q4_k_m,q5_k_m"]  # bits: as large as iq4_nl and q4_k
TYPES, METHODS, BITS, LLAMA = [[x for x in text.split(",") if x != "-"] for text in (sys.argv[7:] + LISTS[len(sys.argv) - 7:])]
LLAMA = {name: getattr(llama_cpp, "LLAMA_FTYPE_MOSTLY_" + name.upper()) for name in LLAMA}


def qwb(*args):
    return subprocess.run([QWB, *args], check=True, capture_output=True, text=True).stdout


def export(path, weights, *args):
    if not os.path.exists(path):
        qwb("export", MODEL, "--format", "gguf", "--tokenizer", TOKENIZER, "--weights", weights, *args, "-o", path)


def by_llama(source, path, kind, imatrix):
    if os.path.exists(path):
        return
    p = llama_cpp.llama_model_quantize_default_params()
    p.ftype, p.nthread = kind, 1
    if imatrix:
        entries = read_imatrix(imatrix)
        table = (llama_cpp.llama_model_imatrix_data * (len(entries) + 1))()
        for i, (name, data) in enumerate(entries.items()):
            table[i].name, table[i].size = name.encode(), len(data)
            table[i].data = data.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        p.imatrix = ctypes.cast(table, type(p.imatrix))
    if llama_cpp.llama_model_quantize(source.encode(), path.encode(), ctypes.byref(p)):
        raise SystemExit(f"llama.cpp does not quantize to {path}")


def read_imatrix(path):
    tensors = {t.name: t.data for t in gguf.GGUFReader(path).tensors}
    out = {}
    for name, sums in tensors.items():
        if name.endswith(".in_sum2"):
            key = name[: -len(".in_sum2")]
            out[key] = np.ascontiguousarray(sums.ravel() / tensors[key + ".counts"].ravel()[0], np.float32)
    return out


def greedy(path):
    """Runs llama.cpp along the tokens that qwb chooses, and says where it would have chosen another one."""
    model = llama_cpp.Llama(path, n_ctx=256, logits_all=True, verbose=False, n_threads=1)
    ids = model.tokenize(PROMPT.encode(), add_bos=True)
    own = json.loads(qwb("generate", path, "--prompt", PROMPT, "--tokens", str(len(ids) + 100), "--temperature", "0", "--json"))["ids"]
    model.eval(ids)
    for n, token in enumerate(own[len(ids):]):
        logits = np.array(model.scores[model.n_tokens - 1])
        if logits.argmax() != token:
            return f"{n} equal, then logits {logits.max() - logits[token]:.2g} apart"
        model.eval([token])
    return f"{len(own) - len(ids)} equal"


def row(path, name):
    e = json.loads(qwb("eval", path, "--text", TEST, "--against", MODEL, "--json", "--threads", "1"))
    two = lambda key, scale=1, digits=3: f"{e[key] * scale:.{digits}f} ± {e[key + '_error'] * scale:.{digits}f}"
    tensors = gguf.GGUFReader(path).tensors
    bits = 8 * sum(t.n_bytes for t in tensors) / sum(t.n_elements for t in tensors)
    kinds = collections.Counter(t.tensor_type.name for t in tensors if t.n_elements > max(t.shape))
    print(f"| {name} | {', '.join(k for k, _ in kinds.most_common())} | {os.path.getsize(path) / 1e6:.2f} | {bits:.3f} "
          f"| {e['perplexity']:.3f} | {two('nll_change', digits=4)} | {two('kl', digits=5)} | {two('flip_rate', 100, 1)} | {greedy(path)} |", flush=True)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    path = lambda *parts: os.path.join(FOLDER, "-".join(parts) + ".gguf")
    print("| file | types | MB | bits per weight | perplexity | mean NLL above float | KL | flips, % | llama.cpp's greedy tokens |")
    print("|---" * 9 + "|")
    for kind in TYPES:
        for method in METHODS:
            fit = () if method in ("rtn", "range") else ("--fit", FIT, "--imatrix-out", path("imatrix"))
            export(path(kind, method), kind, "--method", method, *fit)
            row(path(kind, method), f"{kind} {method}")
    for bits in BITS:
        export(path("bpw", bits), "q8_0", "--bpw", bits, "--method", "gptaq", "--fit", FIT)
        row(path("bpw", bits), f"--bpw {bits} gptaq")
    export(path("f32"), "f32")
    imatrix = path("imatrix")
    if LLAMA and not os.path.exists(imatrix):
        export(path("importance"), "q8_0", "--method", "importance", "--fit", FIT, "--imatrix-out", imatrix)
    for kind, number in LLAMA.items():
        by_llama(path("f32"), path("llama", kind), number, None)
        row(path("llama", kind), f"llama.cpp {kind}")
        by_llama(path("f32"), path("llama", kind, "imatrix"), number, imatrix)
        row(path("llama", kind, "imatrix"), f"llama.cpp {kind}, imatrix")


main()
