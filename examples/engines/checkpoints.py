"""Opens checkpoints that qwb has written in the programs they are for, and writes a table: perplexity of both on the same tokens, the largest
difference of log-probabilities, and 200 greedy tokens.

    python checkpoints.py QWB TOKENIZER.bin TEXT NAME=PATH... > measured/checkpoints.md

NAME is that of a row. A PATH that is a folder is opened by transformers with compressed-tensors in float32, or by gptqmodel, whose own weights of each matrix are then multiplied in float32, .gguf by
llama.cpp, .onnx by ONNX Runtime, .bin by RUNQ, the program that the environment variable of that name has (text alone).

qwb writes the log-probabilities of its first 4 chunks of 128 tokens as llama-perplexity does, in 65535 steps of at most 16: differences are
those of tokens above e^-16, up to half a step of 2.4e-4."""
import json, os, struct, subprocess, sys, tempfile

import numpy as np

QWB, TOKENIZER, TEXT = sys.argv[1:4]
PROMPT, CONTEXT, CHUNKS, TOKENS = "Once upon a time", 128, 4, int(os.environ.get("TOKENS", 200))


def qwb(*args):
    return subprocess.run([QWB, *args], check=True, capture_output=True, text=True).stdout


def vocabulary():
    b, out, at = open(TOKENIZER, "rb").read(), [], 4
    while at < len(b):
        n = struct.unpack_from("<i", b, at + 4)[0]
        out.append(b[at + 8:at + 8 + n])
        at += 8 + n
    return out


def text_of(ids):
    pieces = [VOCABULARY[i] for i in ids]
    return b"".join(bytes([int(p[3:5], 16)]) if p.startswith(b"<0x") else p for p in pieces).decode(errors="replace").lstrip()


def prompt_ids(path):
    with tempfile.TemporaryDirectory() as d:
        open(d + "/p.txt", "w").write(PROMPT + "\n")
        qwb("eval", path, "--tokenizer", TOKENIZER, "--text", d + "/p.txt", "--per-token", d + "/p.tsv", *MODE(path))
        return [1] + [int(l.split("\t")[2]) for l in open(d + "/p.tsv").read().splitlines()[1:]]


def recorded(path):
    """Chunks of tokens, and of each the log-probabilities of qwb behind positions from the middle on."""
    with tempfile.TemporaryDirectory() as d:
        e = json.loads(qwb("eval", path, "--tokenizer", TOKENIZER, "--text", TEXT, "--context", str(CONTEXT), "--chunks", str(CHUNKS),
                           "--logprobs", d + "/f", "--json", *MODE(path)))
        b = open(d + "/f", "rb").read()
    n, v, chunks = struct.unpack_from("<3i", b, 8)
    tokens = np.frombuffer(b, "<i4", n * chunks, 20).reshape(chunks, n).copy()
    tokens[:, 0] = 1
    rows = np.frombuffer(b[20 + 4 * n * chunks:], "<u2").reshape(chunks, n - 1 - n // 2, -1)
    head = np.ascontiguousarray(rows[..., :4]).view("<f4")
    return tokens, rows[..., 4:4 + v] * head[..., :1] + head[..., 1:], e["perplexity"]


def folder(path):
    """A folder of Hugging Face, with floats as inputs of matrices whatever it says of them."""
    import torch
    method = json.load(open(path + "/config.json"))["quantization_config"]["quant_method"]
    if method == "compressed-tensors":
        import transformers
        how = transformers.CompressedTensorsConfig(dequantize=True)
        model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, quantization_config=how).eval()
    else:
        import gptqmodel
        path = with_tokenizer(path)
        model = gptqmodel.GPTQModel.load(path, backend=gptqmodel.BACKEND[KERNEL[method]], device="cpu", dtype=torch.float16).model
        for name, m in list(model.named_modules()):
            if hasattr(m, "dequantize_weight"):
                m.scales = m.scales.float()
                linear = torch.nn.Linear(m.in_features, m.out_features, bias=False)
                linear.weight = torch.nn.Parameter(m.dequantize_weight().T.float().contiguous())
                parent, _, last = name.rpartition(".")
                setattr(model.get_submodule(parent), last, linear)
        model = model.float().eval()

    def logits(ids):
        with torch.no_grad():
            return model(torch.tensor([ids])).logits[0].float().numpy()
    return logits


def with_tokenizer(path):
    """The folder with some tokenizer, without which gptqmodel opens none; ids are given here."""
    import tokenizers
    d = tempfile.mkdtemp()
    for name in os.listdir(path):
        os.symlink(os.path.abspath(os.path.join(path, name)), os.path.join(d, name))
    tokenizers.Tokenizer(tokenizers.models.WordLevel({"<s>": 0, "</s>": 1}, "<s>")).save(d + "/tokenizer.json")
    json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"},
              open(d + "/tokenizer_config.json", "w"))
    return d


KERNEL = {"gptq": "GPTQ_TORCH", "awq": "AWQ_TORCH"}


def llama(path):
    import llama_cpp
    model = llama_cpp.Llama(path, n_ctx=256, logits_all=True, verbose=False, n_threads=1)

    def logits(ids):
        model.reset()
        model.eval(ids)
        return np.array(model.scores[:len(ids)])
    return logits


def ort(path):
    import onnxruntime
    o = onnxruntime.SessionOptions()
    o.intra_op_num_threads = 1
    s = onnxruntime.InferenceSession(path, o)
    return lambda ids: s.run(None, {s.get_inputs()[0].name: np.array([ids], np.int64)})[0][0]


ENGINES = {"": folder, ".gguf": llama, ".onnx": ort}
# What an engine computes in floats is compared with floats, what it rounds at run time with qwb's integer kernels.
MODE = lambda path: ["--mode", "sim"] if path.endswith(".gguf") and os.environ.get("QWB_SIM") else []


def greedy(logits, ids):
    out, gaps = list(ids), []
    for _ in range(TOKENS - len(ids)):
        last = logits(out)[-1]
        best = np.sort(last)[-2:]
        if last.argmax() in (1, 2):
            break
        out.append(int(last.argmax()))
        gaps.append(best[1] - best[0])
    return out, gaps


def row(name, path):
    logits = ENGINES[os.path.splitext(path)[1] if not os.path.isdir(path) else ""](path)
    tokens, ours, ppl = recorded(path)
    nll, far = [], 0
    for ids, want in zip(tokens, ours):
        x = logits([int(i) for i in ids]).astype(np.float64)
        x -= x.max(-1, keepdims=True)
        x -= np.log(np.exp(x).sum(-1, keepdims=True))
        half = CONTEXT // 2
        nll += [-x[t, ids[t + 1]] for t in range(half, CONTEXT - 1)]
        got = x[half:CONTEXT - 1]
        far = max(far, np.abs(got - want)[want > -15.9].max())
    text = json.loads(qwb("generate", path, "--tokenizer", TOKENIZER, "--prompt", PROMPT, "--tokens", str(TOKENS), "--temperature", "0",
                          "--json", *MODE(path)))["text"]
    out, gaps = greedy(logits, prompt_ids(path))
    n = len(out) - len(gaps)
    same = next((i for i in range(len(gaps)) if not text.lstrip().startswith(text_of(out[1:n + i + 1]).rstrip("\ufffd"))), len(gaps))
    where = f"all {same} equal" if same == len(gaps) else f"{same} equal, then logits {gaps[same]:.2g} apart"
    print(f"| {name} | {size(path) / 1e6:.1f} | {np.exp(np.mean(nll)):.4f} | {ppl:.4f} | {far:.2g} | {where} |", flush=True)


def size(path):
    files = [path] if os.path.isfile(path) else [e.path for e in os.scandir(path)]
    return sum(os.path.getsize(f) for f in files)


VOCABULARY = vocabulary()
print("| file | MB | perplexity, engine | perplexity, qwb | largest difference of log-probabilities | greedy tokens |\n|---|---|---|---|---|---|")
for arg in sys.argv[4:]:
    row(*arg.split("=", 1))
