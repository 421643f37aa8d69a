"""Writes what llama-perplexity --kl-divergence-base writes, by llama.cpp's library: python llama_logprobs.py MODEL.gguf TEXT CONTEXT CHUNKS OUT
[KV type number]. Needs llama-cpp-py-sync (0.11739 was used)."""
import struct, sys, math
import numpy as np
from llama_cpp_py_sync._cffi_bindings import get_ffi, get_lib
ffi, lib = get_ffi(), get_lib()
model_file, text, context, chunks, out = sys.argv[1:6]
context, chunks = int(context), int(chunks)
kv = int(sys.argv[6]) if len(sys.argv) > 6 else 0
lib.llama_backend_init()
mp = lib.llama_model_default_params()
model = lib.llama_model_load_from_file(model_file.encode(), mp)
vocab = lib.llama_model_get_vocab(model)
n_vocab = lib.llama_vocab_n_tokens(vocab)
b = open(text, "rb").read()
buf = ffi.new("int32_t[]", len(b) + 8)
n = lib.llama_tokenize(vocab, b, len(b), buf, len(b) + 8, True, False)
tokens = list(buf[0:n])
cp = lib.llama_context_default_params()
cp.n_ctx = cp.n_batch = cp.n_ubatch = context
cp.n_threads = cp.n_threads_batch = 1
cp.type_k = cp.type_v = kv
cp.flash_attn_type = 1 if kv > 1 else 0
ctx = lib.llama_init_from_model(model, cp)
chunks = min(chunks, n // context)
add, bos = lib.llama_vocab_get_add_bos(vocab), lib.llama_vocab_bos(vocab)
first = context // 2
nll = 0.0
with open(out, "wb") as f:
    f.write(b"_logits_" + struct.pack("<3i", context, n_vocab, chunks) + np.array(tokens[:chunks * context], "<i4").tobytes())
    for c in range(chunks):
        ids = tokens[c * context:(c + 1) * context]
        if add:
            ids[0] = bos
        lib.llama_memory_clear(lib.llama_get_memory(ctx), True)
        batch = lib.llama_batch_init(context, 0, 1)
        batch.n_tokens = context
        for i, t in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = t, i, 1, 1
            batch.seq_id[i][0] = 0
        assert lib.llama_decode(ctx, batch) == 0
        for i in range(first, context - 1):
            l = np.frombuffer(ffi.buffer(lib.llama_get_logits_ith(ctx, i), 4 * n_vocab), "<f4").astype(np.float32)
            most = l.max()
            least = max(l.min(), np.float32(most - np.float32(16)))
            lse = np.float32(math.log(np.exp((l - most).astype(np.float64)).sum()))
            scale = np.float32((most - least) / np.float32(65535))
            code = np.where(l > least, np.rint(np.float32(1) / scale * (l - least)), 0).astype("<u2")
            row = np.zeros(2 * ((n_vocab + 1) // 2) + 4, "<u2")
            row[:4] = np.frombuffer(struct.pack("<2f", scale, least - most - lse), "<u2")
            row[4:4 + n_vocab] = code
            f.write(row.tobytes())
            nll += float(most + lse - l[ids[i + 1]])
        lib.llama_batch_free(batch)
print("ppl", math.exp(nll / (chunks * (context - 1 - first))), "nll", nll / (chunks * (context - 1 - first)))
