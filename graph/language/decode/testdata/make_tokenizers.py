"""Trains small tokenizers of the kinds that qwb reads and writes them with what they make of some texts: the expected values of
tokenizer_json_test.go. Needs the package tokenizers of Hugging Face (0.23.3 was used) and a text to train on:

    python make_tokenizers.py tinystories_valid_head.txt [COUNT]

COUNT random texts of many scripts come on top.
"""

import json, os, random, sys
from tokenizers import Tokenizer, AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers

GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
QWEN2 = LLAMA3.replace("{1,3}", "")

TEXTS = [
    "",
    " ",
    "  ",
    "a",
    "Once upon a time, there was a little girl named Lily.",
    " leading and trailing  ",
    "two  spaces   three\t\ttabs \t mixed",
    "lines\nand\n\nmore\r\n\r\n   indented\n",
    "I'm, YOU'RE, don't, he'll; 'Tis '\u017fo",
    "1 12 123 1234 12345678 1.5e-3 \u0661\u0662\u0663 \u00bd \u2167",
    "caf\u00e9 cafe\u0301 \u212b \ufb01ne \u1e9b\u0323",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3067\u3059\u3002",
    "\U0001f642 \U0001f468\u200d\U0001f469\u200d\U0001f467 ok",
    "nbsp\u00a0here\u3000wide\u0085next\u2028line \u200bzero",
    "foo_bar(baz)[0] += x->y; // #!?$%",
    "\u0645\u0631\u062d\u0628\u0627 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u041f\u0440\u0438\u0432\u0435\u0442",
    "<|begin|>user\nhi there<|end|> and <|begin|> <|end|>",
    "<|begin|><|end|>",
    "<|beg in|> <|begin",
    "a\u2581b \u2581\u2581c",
    "\x00\x01\x7f",
    "the the the thethethe The THE",
    "word<mask> after",
    "word   <mask>   after",
    "\ufb01\u0301 e\u0301\u0302 \uff21\u0301x a\r\nb \u00a0\u0301",
]


BLOCKS = [(0x20, 0x7e), (0xa0, 0x24f), (0x300, 0x36f), (0x370, 0x3ff), (0x400, 0x4ff), (0x5d0, 0x5ea), (0x620, 0x64a), (0x900, 0x97f),
          (0xe01, 0xe3a), (0x1e00, 0x1eff), (0x3041, 0x30ff), (0x4e00, 0x4fff), (0xac00, 0xad00), (0x1f600, 0x1f64f), (0x2000, 0x206f),
          (0x2581, 0x2581), (0x20, 0x20), (0, 0x1f), (0xff01, 0xff60), (0xfb00, 0xfb06)]


def random_text(words):
    out = ""
    for _ in range(random.randint(1, 9)):
        if random.random() < 0.5:
            out += random.choice(words)
        elif random.random() < 0.2:
            out += random.choice(["<|begin|>", "<mask>", "<unk>", "[UNK]", "  ", "\n", "\t", "<0x41>", "don't", "##ing"])
        else:
            low, high = random.choice(BLOCKS)
            out += "".join(chr(random.randint(low, high)) for _ in range(random.randint(1, 4)))
        if random.random() < 0.6:
            out += " " * random.choice([1, 1, 1, 2, 3])
    return out


def train(tok, corpus, size, alphabet):
    special = [AddedToken("<unk>", special=True), AddedToken("<|begin|>", special=True), AddedToken("<|end|>", special=True)]
    tok.train_from_iterator(
        corpus, trainers.BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    )
    tok.add_tokens([AddedToken("<mask>", lstrip=True, rstrip=True, normalized=tok.normalizer is None)])
    return tok


def kinds(corpus):
    level = pre_tokenizers.ByteLevel.alphabet()
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=True), decoders.ByteLevel()
    yield "gpt2", train(t, corpus, 420, level)
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    t.decoder = decoders.ByteLevel()
    yield "llama3", train(t, corpus, 420, level)
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(QWEN2), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    t.decoder = decoders.ByteLevel()
    yield "qwen2", train(t, corpus, 420, level)
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    t.decoder = decoders.ByteLevel()
    yield "smollm", train(t, corpus, 400, level)
    for name, split in ("llama2", False), ("metaspace", True):
        t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=not split))
        if split:
            t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
            t.decoder = decoders.Metaspace(prepend_scheme="first", split=True)
        else:
            t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
            t.decoder = decoders.Sequence(
                [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
            )
        train(t, [line.replace(" ", "\u2581") for line in corpus] if not split else corpus, 300, [])
        if not split:  # pieces for the bytes, which training does not make
            d = json.loads(t.to_str())
            for b in range(256):
                d["model"]["vocab"][f"<0x{b:02X}>"] = len(d["model"]["vocab"])
            d["added_tokens"][-1]["id"] = len(d["model"]["vocab"])
            t = Tokenizer.from_str(json.dumps(d))
        yield name, t


    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(corpus, trainers.WordPieceTrainer(vocab_size=300, special_tokens=["[UNK]", "<|begin|>"], show_progress=False))
    yield "wordpiece", t
    for name, fallback in ("unigram", False), ("unigram-bytes", True):
        t = Tokenizer(models.Unigram())
        t.normalizer = normalizers.NFKC()
        t.pre_tokenizer, t.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        t.train_from_iterator(corpus, trainers.UnigramTrainer(vocab_size=250, special_tokens=["<unk>", "<|begin|>"], unk_token="<unk>",
                                                              show_progress=False))
        if fallback:
            d = json.loads(t.to_str())
            d["model"]["vocab"] += [[f"<0x{b:02X}>", -20.0] for b in range(256)]
            d["model"]["byte_fallback"] = True
            d["decoder"] = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, d["decoder"]]}
            t = Tokenizer.from_str(json.dumps(d))
        yield name, t
    # As transformers makes one of a model of SentencePiece; QWB_SENTENCEPIECE is one with a larger table.
    from sentencepiece import sentencepiece_model_pb2
    m = sentencepiece_model_pb2.ModelProto()
    m.ParseFromString(open(os.environ.get("QWB_SENTENCEPIECE", os.path.dirname(os.path.abspath(__file__)) + "/sentencepiece-unigram-nfkc.model"), "rb").read())
    t = Tokenizer(models.Unigram([(p.piece, p.score) for p in m.pieces], unk_id=0, byte_fallback=False))
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(m.normalizer_spec.precompiled_charsmap), normalizers.StripAccents(),
                                         normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.decoder = decoders.Metaspace()
    yield "unigram-table", t


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    corpus = open(sys.argv[1], encoding="utf-8").read()[:200000].split("\n")
    expected = {}
    random.seed(7)
    words = [w for line in corpus for w in line.split()]
    TEXTS.extend(random_text(words) for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 0))
    for name, tok in kinds(corpus):
        tok.save(os.path.join(here, f"tokenizer-{name}.json"), pretty=False)
        tok = Tokenizer.from_file(os.path.join(here, f"tokenizer-{name}.json"))
        expected[name] = {
            "size": tok.get_vocab_size(),
            "texts": [
                {
                    "text": s,
                    "ids": (ids := tok.encode(s, add_special_tokens=False).ids),
                    "decoded": tok.decode(ids, skip_special_tokens=False),
                }
                for s in TEXTS
            ],
        }
    json.dump(expected, open(os.path.join(here, "tokenizers-expected.json"), "w"), indent=0)


main()
