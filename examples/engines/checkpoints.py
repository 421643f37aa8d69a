"""Opens checkpoints that qwb has written in the programs they are for, and writes a table: perplexity of both on the same tokens, the largest
difference of log-probabilities, and greedy tokens.

    python checkpoints.py QWB TOKENIZER.bin TEXT NAME=PATH[=ARGUMENTS]... > measured/checkpoints.md

A PATH that is a folder is opened by transformers with compressed-tensors in float32, or by gptqmodel, whose own weights of each matrix are
then multiplied in float32; .gguf by llama.cpp with a cache of float32; .onnx by ONNX Runtime; .bin by run.c or runq.c of llama2.c, whose
folder the environment variable LLAMA2C names, compiled with a main of our own that writes logits; .inferllm.bin, .kuiper.bin and .mllm by
the programs that INFERLLM, KUIPERLLAMA and MLLM name, built as programs/ says. SENTENCEPIECE is any tokenizer.model. ARGUMENTS are what qwb opens instead:
"q8_0.gguf --mode sim". Of an .onnx they are the checkpoint that it was made of, which gives the tokens; the graph is then run by qwb run.

qwb writes the log-probabilities of its first 4 chunks of 128 tokens as llama-perplexity does, in 65535 steps of at most 16: differences are
those of tokens above e^-16, up to half a step of 2.4e-4. Greedy tokens are those of qwb; the engine is shown all of them at once, and agrees
up to the first that it would not have chosen."""
import json, os, shlex, struct, subprocess, sys, tempfile

import numpy as np

QWB, TOKENIZER, TEXT = sys.argv[1:4]
PROMPT, CONTEXT, CHUNKS, TOKENS = "Once upon a time", 128, 4, int(os.environ.get("TOKENS", 200))


def qwb(*args):
    return subprocess.run([QWB, *args], check=True, capture_output=True, text=True).stdout


def recorded(model):
    """Chunks of tokens, and of each the log-probabilities of qwb behind positions from the middle on."""
    with tempfile.TemporaryDirectory() as d:
        e = json.loads(qwb("eval", *model, "--tokenizer", TOKENIZER, "--text", TEXT, "--context", str(CONTEXT), "--chunks", str(CHUNKS),
                           "--logprobs", d + "/f", "--json"))
        b = open(d + "/f", "rb").read()
    n, v, chunks = struct.unpack_from("<3i", b, 8)
    tokens = np.frombuffer(b, "<i4", n * chunks, 20).reshape(chunks, n).copy()
    tokens[:, 0] = 1
    rows = np.frombuffer(b[20 + 4 * n * chunks:], "<u2").reshape(chunks, n - 1 - n // 2, -1)
    head = np.ascontiguousarray(rows[..., :4]).view("<f4")
    return tokens, rows[..., 4:4 + v] * head[..., :1] + head[..., 1:], e["perplexity"]


def run(path):
    """Logits of a graph, by qwb."""
    def logits(ids):
        with tempfile.TemporaryDirectory() as d:
            np.save(d + "/x.npy", np.array([ids], np.int64))
            qwb("run", path, "--input", f"input_ids={d}/x.npy", "--output", d)
            return np.load(d + "/logits.npy")[0]
    return logits


def log_softmax(x):
    x = x.astype(np.float64) - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


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
        floats(model, path)

    def logits(ids):
        with torch.no_grad():
            return model(torch.tensor([ids])).logits[0].float().numpy()
    return logits


def floats(model, path):
    """Gives back the precision that gptqmodel takes from what is not quantized."""
    from safetensors.torch import load_file
    state = model.state_dict()
    for name, x in load_file(path + "/model.safetensors").items():
        if name in state and x.is_floating_point() and x.shape == state[name].shape:
            state[name].copy_(x)


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
    model = llama_cpp.Llama(path, n_ctx=256, logits_all=True, verbose=False, n_threads=1, type_k=0, type_v=0)

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


MAIN = """#define main its_main
#include "%s"
#undef main
int main(int n, char **v) {
    Transformer t;
    build_transformer(&t, v[1]);
    for (int i = 2; i < n; i++) fwrite(forward(&t, atoi(v[i]), i - 2), 4, t.config.vocab_size, stdout);
    return 0;
}
"""


def llama2c(path):
    d = tempfile.mkdtemp()
    quantized = open(path, "rb").read(8) == b"24ka\x02\0\0\0"
    open(d + "/main.c", "w").write(MAIN % os.path.abspath(os.path.join(os.environ["LLAMA2C"], "runq.c" if quantized else "run.c")))
    subprocess.run(["cc", "-O3", "-march=native", "-o", d + "/main", d + "/main.c", "-lm"], check=True, capture_output=True)
    return program(d + "/main", path)


def program(*command):
    """Logits that a program writes behind the ids that end its command."""
    return lambda ids: np.frombuffer(subprocess.run([*command, *map(str, ids)], check=True, capture_output=True).stdout,
                                     "<f4").reshape(len(ids), -1)


def inferllm(path):
    return program(os.environ["INFERLLM"], path)


def kuiperllama(path):
    return program(os.environ["KUIPERLLAMA"], path, os.environ["SENTENCEPIECE"])


def mllm(path):
    c = json.load(open(os.path.splitext(path)[0] + ".config.json"))
    return program(os.environ["MLLM"], path, *(str(c[k]) for k in ("hidden_size", "intermediate_size", "num_hidden_layers",
                                                                   "num_attention_heads", "num_key_value_heads", "vocab_size")))


ENGINES = {".gguf": llama, ".onnx": ort, ".inferllm.bin": inferllm, ".mllm": mllm, ".kuiper.bin": kuiperllama, ".bin": llama2c, "": folder}


def greedy(logits, model, graph=None):
    g = json.loads(qwb("generate", *model, "--tokenizer", TOKENIZER, "--prompt", PROMPT, "--tokens", str(TOKENS), "--temperature", "0",
                       "--json"))
    ids, begin = g["ids"], g["prompt"]
    x = logits(ids[:-1])
    if graph:
        same = x.argmax(-1) == graph(ids[:-1]).argmax(-1)
        return f"{same.sum()} of {len(same)} equal"
    for t in range(begin - 1, len(ids) - 1):
        if x[t].argmax() != ids[t + 1]:
            best = np.sort(x[t])[-2:]
            return f"{t + 1 - begin} equal, then logits {best[1] - best[0]:.2g} apart"
    return f"all {len(ids) - begin} equal"


def row(name, path, *model):
    logits = next(e for end, e in ENGINES.items() if path.endswith(end))(path)
    model = shlex.split(model[0]) if model else [path]
    tokens, ours, ppl = recorded(model)
    nll, mine, far, half = [], [], 0, CONTEXT // 2
    graph = run(path) if path.endswith(".onnx") else None
    for ids, want in zip(tokens, ours):
        x = log_softmax(logits([int(i) for i in ids]))
        if graph:
            y = log_softmax(graph(ids))
            want = y[half:CONTEXT - 1]
            mine += [-y[t, ids[t + 1]] for t in range(half, CONTEXT - 1)]
        nll += [-x[t, ids[t + 1]] for t in range(half, CONTEXT - 1)]
        far = max(far, np.abs(x[half:CONTEXT - 1] - want)[want > -15.9].max())
    ppl = np.exp(np.mean(mine)) if graph else ppl
    print(f"| {name} | {size(path) / 1e6:.1f} | {np.exp(np.mean(nll)):.4f} | {ppl:.4f} | {far:.2g} | {greedy(logits, model, graph)} |", flush=True)


def size(path):
    files = [path] if os.path.isfile(path) else [e.path for e in os.scandir(path)]
    return sum(os.path.getsize(f) for f in files)


print("| file | MB | perplexity, engine | perplexity, qwb | largest difference of log-probabilities | greedy tokens |\n|---|---|---|---|---|---|")
for arg in sys.argv[4:]:
    row(*arg.split("=", 2))
