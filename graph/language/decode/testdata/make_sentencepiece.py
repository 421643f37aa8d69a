"""Trains small models of SentencePiece and writes what the library makes of texts: python make_sentencepiece.py TEXT [COUNT]. sentencepiece
0.2.x."""
import io, json, random, sys, unicodedata
import sentencepiece as spm
lines = [l.strip() for l in open(sys.argv[1], encoding="utf-8") if l.strip()]
count = int(sys.argv[2]) if len(sys.argv) > 2 else 300
random.seed(7)
blocks = [(0x20, 0x7e), (0xa0, 0x24f), (0x370, 0x3ff), (0x400, 0x4ff), (0x5d0, 0x5ea), (0x620, 0x64a), (0x900, 0x97f), (0xe01, 0xe3a),
          (0x3041, 0x3096), (0x4e00, 0x4fff), (0xac00, 0xad00), (0x1f600, 0x1f64f), (0x2000, 0x206f), (0x2581, 0x2581), (0x20, 0x20), (0x300, 0x36f), (0xff01, 0xff60), (0xfb00, 0xfb06), (0x3000, 0x3000), (0xac00, 0xac20)]
words = [w for l in lines for w in l.split()]
def text():
    out = ""
    for _ in range(random.randint(1, 9)):
        k = random.random()
        if k < 0.5:
            out += random.choice(words)
        elif k < 0.6:
            out += random.choice(["<sep>", "<s>", "</s>", "<unk>", "  ", "\n", "\t", "<0x41>", "\u2581", "<se"])
        else:
            lo, hi = random.choice(blocks)
            out += "".join(chr(random.randint(lo, hi)) for _ in range(random.randint(1, 4)))
        if random.random() < 0.6:
            out += " " * random.choice([1, 1, 1, 2, 3])
    return out
# A small table, or with many texts the library's own.
rules = "nmt_nfkc" if count > 1000 else ""
if not rules:
    table = [(chr(c), unicodedata.normalize("NFKC", chr(c))) for c in [*range(0xa0, 0x180), *range(0xff01, 0xff20), *range(0xfb00, 0xfb07), 0x3000, 9, 10]]
    table += [("e\u0301", "\u00e9"), ("\t", " "), ("\n", " ")]
    open("rules.tsv", "w").writelines(" ".join(f"{ord(x):X}" for x in a) + "\t" + " ".join(f"{ord(x):X}" for x in b) + "\n" for a, b in table if a != b)
result = {}
bpe = dict(model_type="bpe", vocab_size=420, byte_fallback=True, user_defined_symbols=["<sep>", "  ", "\u2581\u2581\u2581"])
rewrite = dict(normalization_rule_name=rules) if rules else dict(normalization_rule_tsv="rules.tsv")
unigram = dict(bpe, model_type="unigram", vocab_size=420)
for name, options in {
    "llama": dict(bpe, normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True),
    "gemma": dict(bpe, normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=False),
    "collapse": dict(bpe, normalization_rule_name="identity", user_defined_symbols=["<sep>"]),
    "nfkc": dict(bpe, **rewrite, byte_fallback=False, vocab_size=160),
    "unigram": dict(unigram, normalization_rule_name="identity", remove_extra_whitespaces=False),
    "unigram-nfkc": dict(unigram, **rewrite, byte_fallback=False, vocab_size=200),
}.items():
    f = io.BytesIO()
    spm.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=f, character_coverage=1.0, num_threads=1, minloglevel=2,
                                   **options)
    open(f"sentencepiece-{name}.model", "wb").write(f.getvalue())
    p = spm.SentencePieceProcessor(model_proto=f.getvalue())
    texts = ["", " ", "  ", "a", " a ", "<sep>", "a<sep>b", "<sep> a", "<s>", "Once upon a time", "\u2581x\u2581\u2581y", "\ufb01 \uff21 e\u0301"]
    texts += [text() for _ in range(count)]
    result[name] = [[t, p.encode(t)] for t in texts]
json.dump(result, open("sentencepiece-expected.json", "w"), ensure_ascii=True, separators=(",", ":"))
