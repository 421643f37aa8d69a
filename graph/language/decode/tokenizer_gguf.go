package decode

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// Types of tokens in GGUF.
const (
	ggufNormal  = 1
	ggufUnknown = 2 // stands for what is not known
	ggufControl = 3
	ggufUser    = 4
	ggufUnused  = 5
	ggufByte    = 6
)

// ggufCutting is how texts are cut into words: a name stands for it in GGUF.
type ggufCutting struct {
	words string
	whole bool // a word that is a token is not taken apart
	nfc   bool
	digit bool // digits are cut off one by one before
}

var ggufCuttings = map[string]ggufCutting{
	"gpt-2":     {words: gpt2Words},
	"smollm":    {words: gpt2Words, digit: true},
	"llama-bpe": {words: llama3Words, whole: true},
	"llama3":    {words: llama3Words, whole: true},
	"llama-v3":  {words: llama3Words, whole: true},
	"qwen2":     {words: qwen2Words, nfc: true},
	"dbrx":      {words: llama3Words},
}

// splitters cut words so.
func (c ggufCutting) splitters() (list []splitter, err error) {
	patterns := []string{c.words}
	if c.digit {
		patterns = []string{`\p{N}`, c.words}
	}
	for _, pattern := range patterns {
		one, err := isolate(pattern)
		if err != nil {
			return nil, err
		}
		list = append(list, one...)
	}
	return append(list, bytesOf), nil
}

// GGUFTokenizer makes the tokenizer that the metadata of a GGUF file describe: pieces with scores ("llama") or byte-pair encoding
// ("gpt2"). begin is the id that begins a text.
func GGUFTokenizer(meta map[string]any, begin int) (Tokenizer, error) {
	tokens, _ := meta["tokenizer.ggml.tokens"].([]string)
	types, ok := meta["tokenizer.ggml.token_type"].([]int32)
	if len(tokens) == 0 || ok && len(types) != len(tokens) {
		return nil, fmt.Errorf("tokenizer.ggml has %d tokens and %d types", len(tokens), len(types))
	}
	switch kind := meta["tokenizer.ggml.model"]; kind {
	case "llama":
		scores, _ := meta["tokenizer.ggml.scores"].([]float32)
		s, err := ggufPieces(tokens, scores, types, begin, meta["tokenizer.ggml.add_space_prefix"] != false)
		if err != nil {
			return nil, err
		}
		return s, s.complete()
	case "gpt2":
		merges, _ := meta["tokenizer.ggml.merges"].([]string)
		pre, _ := meta["tokenizer.ggml.pre"].(string)
		return ggufBPE(tokens, merges, types, begin, pre)
	default:
		return nil, fmt.Errorf("tokenizer.ggml.model is %.40v; llama and gpt2 are known", kind)
	}
}

// ggufAdded lists the tokens that are found in a text as they are.
func ggufAdded(tokens []string, types []int32) []addedToken {
	var out []addedToken
	for id, kind := range types {
		if (kind == ggufControl || kind == ggufUser) && tokens[id] != "" {
			out = append(out, addedToken{ID: id, Content: tokens[id]})
		}
	}
	return out
}

func ggufPieces(tokens []string, scores []float32, types []int32, begin int, prefix bool) (*SentencePiece, error) {
	if types == nil {
		return nil, errors.New("tokenizer.ggml.token_type is missing")
	}
	if len(scores) != len(tokens) {
		return nil, fmt.Errorf("%d tokens with %d scores", len(tokens), len(scores))
	}
	s := &SentencePiece{pieces: make([]string, len(tokens)), scores: scores, ids: make(map[string]int, len(tokens)), byteOf: map[int]byte{},
		begin: begin, prefix: prefix}
	for b := range s.bytes {
		s.bytes[b] = -1
	}
	for id, p := range tokens {
		if scores[id] != scores[id] {
			return nil, fmt.Errorf("the score of token %d (%q) is NaN", id, p)
		}
		s.pieces[id] = strings.ReplaceAll(p, metaspace, " ")
		switch types[id] {
		case ggufNormal, ggufUser:
			if _, twice := s.ids[s.pieces[id]]; !twice {
				s.ids[s.pieces[id]] = id
			}
		case ggufByte:
			var b byte
			if _, err := fmt.Sscanf(p, "<0x%02X>", &b); err != nil || len(p) != 6 {
				return nil, fmt.Errorf("token %d is to be a byte and is called %q", id, p)
			}
			s.bytes[b], s.byteOf[id] = id, b
		}
	}
	var err error
	s.added, err = newAddedTokens(ggufAdded(tokens, types))
	return s, err
}

// complete checks that there is a token for each byte.
func (s *SentencePiece) complete() error {
	if b := slices.Index(s.bytes[:], -1); b >= 0 {
		return fmt.Errorf("there is no token for the byte %s", byteName(b))
	}
	return nil
}

func ggufBPE(tokens, merges []string, types []int32, begin int, pre string) (*BPE, error) {
	cutting, ok := ggufCuttings[pre]
	if !ok {
		return nil, fmt.Errorf("tokenizer.ggml.pre is %.40q; known are %s", pre, strings.Join(slices.Sorted(maps.Keys(ggufCuttings)), ", "))
	}
	v := bpeVocabulary{ids: make(map[string]int, len(tokens)), added: ggufAdded(tokens, types)}
	for id, p := range tokens {
		if old, twice := v.ids[p]; twice {
			return nil, fmt.Errorf("tokens %d and %d are both %q", old, id, p)
		}
		v.ids[p] = id
	}
	for _, m := range merges {
		a, b, ok := strings.Cut(m, " ")
		if !ok || a == "" || b == "" || strings.Contains(b, " ") {
			return nil, fmt.Errorf("the merge %.40q has not two parts", m)
		}
		v.merges = append(v.merges, [2]string{a, b})
	}
	var normalizers []normalizer
	if cutting.nfc {
		normalizers = []normalizer{{"NFC", norm.NFC.String}}
	}
	t, err := newBPE(v, normalizers)
	if err != nil {
		return nil, err
	}
	t.begin, t.whole, t.byteLevel = begin, cutting.whole, true
	t.splitter, err = cutting.splitters()
	if err != nil {
		return nil, err
	}
	return t, t.complete()
}
