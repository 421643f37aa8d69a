"""Trains a Llama of 10.5 million weights, width 512, hidden 1536, on text that a larger one writes, for types of GGUF that need long rows.

    python train.py TEACHER TOKENIZER WORDS OUT [MINUTES SAMPLED]

TEACHER is a llama2.c checkpoint (stories15M.bin), TOKENIZER its tokenizer.bin, WORDS that of the new one (tok512.bin). SAMPLED sequences of
256 tokens are drawn at temperature 1; then it learns on one thread for MINUTES of its time, Muon for matrices and Adam for the rest, in
bfloat16 with float32 weights. OUT is a llama2.c checkpoint of version 0, OUT.txt the text, which is not drawn again. How far it comes
depends on the machine; no other text is seen."""
import functools, os, re, struct, sys, time

import numpy as np
import torch
from torch.nn import functional as F

TEACHER, TOKENIZER, WORDS, OUT = sys.argv[1:5]
MINUTES, SAMPLED = [int(x) for x in (sys.argv[5:] + ["28", "3072"][len(sys.argv) - 5:])]
NAMES = "embed att q k v o ffn gate down up final".split()
torch.manual_seed(1)


def shapes(dim, hidden, layers, heads, kv, words, context):
    d = dim // heads * kv
    return dict(zip(NAMES, [(words, dim), (layers, dim), (layers, dim, dim), (layers, d, dim), (layers, d, dim), (layers, dim, dim),
                            (layers, dim), (layers, hidden, dim), (layers, dim, hidden), (layers, hidden, dim), (dim,)]))


def load(path):
    raw = open(path, "rb").read()
    size = struct.unpack("7i", raw[:28])
    flat, at, out = np.frombuffer(raw, np.float32, offset=28), 0, {}
    for name, shape in shapes(*size).items():
        out[name] = torch.tensor(flat[at:at + int(np.prod(shape))].reshape(shape))
        at += out[name].numel()
    return size, out


def save(path, size, w):
    with open(path, "wb") as f:
        f.write(struct.pack("7i", *size))
        for name in NAMES:
            for x in w[name] if isinstance(w[name], list) else [w[name]]:
                f.write(x.detach().float().numpy().tobytes())
        for table in angles(size):
            f.write(table.numpy().tobytes())


def angles(size):
    half = size[0] // size[3] // 2
    a = torch.arange(size[6]).float()[:, None] * 10000.0 ** (-torch.arange(half).float() / half)
    return a.cos(), a.sin()


def rope(x, cos, sin):  # neighbours are pairs
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


def forward(size, w, ids, tables, cache=None, at=0):
    """Logits of ids [rows, positions]; cache has keys and values of each layer, filled up to at."""
    norm = lambda x, gain: F.rms_norm(x.float(), gain.shape, gain.float(), 1e-5).to(x.dtype)
    n, t = ids.shape
    split = lambda x: x.view(n, t, -1, size[0] // size[3]).transpose(1, 2)
    cos, sin = [table[at:at + t].to(w["embed"].dtype) for table in tables]
    x = F.embedding(ids, w["embed"])
    for l in range(size[2]):
        y = norm(x, w["att"][l])
        q, k, v = [split(F.linear(y, w[name][l])) for name in "qkv"]
        q, k = rope(q, cos, sin), rope(k, cos, sin)
        if cache is not None:
            cache[l, 0][:, :, at:at + t], cache[l, 1][:, :, at:at + t] = k, v
            k, v = cache[l, 0][:, :, :at + t], cache[l, 1][:, :, :at + t]
        y = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=t > 1)
        x = x + F.linear(y.transpose(1, 2).reshape(n, t, -1), w["o"][l])
        y = norm(x, w["ffn"][l])
        x = x + F.linear(F.silu(F.linear(y, w["gate"][l])) * F.linear(y, w["up"][l]), w["down"][l])
    return F.linear(norm(x, w["final"]), w["embed"])


@torch.no_grad()
def sample(size, w, count, rows=256):
    w, tables = {name: x.bfloat16() for name, x in w.items()}, angles(size)
    out = []
    for _ in range(count // rows):
        ids = torch.ones(rows, 1, dtype=torch.long)
        cache = torch.empty(size[2], 2, rows, size[3], 256, size[0] // size[3], dtype=torch.bfloat16)
        for at in range(256):
            p = forward(size, w, ids[:, -1:], tables, cache, at)[:, -1].float().softmax(-1).cumsum(-1)
            ids = torch.cat([ids, torch.searchsorted(p, torch.rand(rows, 1) * p[:, -1:])], 1)
        out += ids.tolist()
        print(f"{len(out)} sequences, {time.process_time():.0f} s", flush=True)
    return out


def vocabulary(path):
    """Bytes and scores of the words of a tokenizer.bin."""
    raw, at, words = open(path, "rb").read(), 4, []
    while at < len(raw):
        score, length = struct.unpack("fi", raw[at:at + 8])
        words.append((raw[at + 8:at + 8 + length], score))
        at += 8 + length
    return words


def texts(sequences, words):
    """The stories, without the unfinished last of each sequence unless it is the first too."""
    words = [bytes([int(x[3:5], 16)]) if len(x) == 6 and x[:3] == b"<0x" else x for x, _ in words]
    for ids in sequences:
        cut = [i for i, x in enumerate(ids) if x == 1] + [len(ids)]
        for a, b in list(zip(cut, cut[1:]))[:max(1, len(cut) - 2)]:
            yield b"".join(words[x] for x in ids[a + 1:b] if x > 2).decode(errors="replace").strip()


def encoder(words):
    """Pairs are merged, that of the best score first; no word has a space but at its beginning."""
    rank = {word: (score, i) for i, (word, score) in enumerate(words) if i > 258}

    @functools.cache
    def encode(text):
        parts = [x.encode() for x in text]
        while found := [(rank[a + b][0], -i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in rank]:
            i = -max(found)[1]
            parts[i:i + 2] = [parts[i] + parts[i + 1]]
        return [x for part in parts for x in ([rank[part][1]] if part in rank else [3 + byte for byte in part])]
    return lambda text: [x for word in re.findall(" [^ ]*", " " + text) for x in encode(word)]


def learn(size, ids, rows=16):
    w = {}
    for name, shape in shapes(*size).items():
        x = torch.ones(shape) if name in ("att", "ffn", "final") else torch.randn(shape) * 0.02
        w[name] = torch.nn.Parameter(x) if len(shape) == 1 or name == "embed" else [torch.nn.Parameter(y.clone()) for y in x]
    every = [y for x in w.values() for y in (x if isinstance(x, list) else [x])]
    matrices = [x for x in every if x.dim() == 2 and x is not w["embed"]]
    optimizers = [torch.optim.Muon(matrices, lr=0.01, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
                  torch.optim.AdamW([x for x in every if x.dim() == 1 or x is w["embed"]], lr=0.003, betas=(0.9, 0.98), weight_decay=0)]
    rates, tables, begin, step, mean = [o.param_groups[0]["lr"] for o in optimizers], angles(size), time.process_time(), 0, 0
    windows = torch.tensor(ids[:len(ids) // size[6] * size[6]]).view(-1, size[6])
    while (done := (time.process_time() - begin) / 60 / MINUTES) < 1:
        if step * rows % (len(windows) // rows * rows) == 0:
            order = torch.randperm(len(windows))
        x = windows[order[step * rows % (len(windows) // rows * rows):][:rows]]
        for o, rate in zip(optimizers, rates):
            o.param_groups[0]["lr"] = rate * min(1, (step + 1) / 20, max(0.02, 1.3 * (1 - done)))
        with torch.autocast("cpu", torch.bfloat16):
            logits = forward(size, w, x, tables)
        loss = F.cross_entropy(logits[:, :-1].float().flatten(0, 1), x[:, 1:].flatten())
        loss.backward()
        for o in optimizers:
            o.step()
            o.zero_grad()
        mean += (loss.item() - mean) * max(0.02, 1 / (step + 1))
        step += 1
        if step % 20 == 0:
            print(f"step {step}, {step * rows / len(windows):.2f} epochs, {done:.0%}, loss {mean:.3f}", flush=True)
            save(OUT, size, w)
    save(OUT, size, w)


torch.set_num_threads(1)
teacher, weights = load(TEACHER)
words, encode = vocabulary(TOKENIZER), encoder(vocabulary(WORDS))
if not os.path.exists(OUT + ".txt"):
    lines = [text.replace("\n", " ") + "\n" for text in texts(sample(teacher, weights, SAMPLED), words)]
    open(OUT + ".txt", "w").writelines(lines)
stories = open(OUT + ".txt").read().splitlines()
ids = [x for text in stories for x in [1] + encode(text)]
print(f"{len(stories)} stories, {sum(map(len, stories)) / 1e6:.1f} MB, {len(ids)} tokens", flush=True)
learn((512, 1536, 3, 8, 8, 512, 512), ids)
