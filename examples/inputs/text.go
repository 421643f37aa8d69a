package main

import (
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"unicode"

	"qwb/graph/tensor"
)

// startText gives lines of text as input_ids, attention_mask and token_type_ids, each i64[1,length].
func startText(f *flag.FlagSet) maker {
	vocab := f.String("vocab", "", "the network's vocabulary, one token a line (vocab.txt of BERT); without one, it is made of the text")
	words := f.Int("words", 1000, "tokens of a vocabulary that is made")
	length := f.Int("length", 128, "most tokens of a sample")
	pad := f.Bool("pad", false, "fill every sample up to -length; the mask is 0 there")
	limit := f.Int("limit", 0, "samples to make, 0: all")
	return func(files []string, out *sink) error {
		var lines []string
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			for _, l := range strings.Split(string(b), "\n") {
				if len(split(l)) > 0 {
					lines = append(lines, l)
				}
			}
		}
		if *limit > 0 && len(lines) > *limit {
			lines = lines[:*limit]
		}
		var tokens []string
		if *vocab == "" {
			tokens = makeVocabulary(lines, *words)
		} else {
			b, err := os.ReadFile(*vocab)
			if err != nil {
				return fmt.Errorf("-vocab: %w", err)
			}
			tokens = strings.Split(strings.ReplaceAll(strings.TrimRight(string(b), "\r\n"), "\r\n", "\n"), "\n")
		}
		t, err := newTokenizer(tokens)
		if err != nil {
			return err
		}
		for _, l := range lines {
			ids := t.encode(l, *length)
			n := len(ids)
			if *pad {
				n = *length
			}
			sample := map[string]*tensor.Tensor{}
			for _, name := range []string{"input_ids", "attention_mask", "token_type_ids"} {
				sample[name] = tensor.New(tensor.Int64, 1, n)
			}
			for i := range n {
				sample["input_ids"].I64()[i] = t.pad
			}
			copy(sample["input_ids"].I64(), ids)
			for i := range ids {
				sample["attention_mask"].I64()[i] = 1
			}
			if err := out.arrays("text", sample); err != nil {
				return err
			}
		}
		return nil
	}
}

// tokenizer is BERT's for uncased text: lower case, words and punctuation, each word cut greedily into the longest pieces of the
// vocabulary, those that do not begin a word under a name with ## before it. Accents are kept.
type tokenizer struct {
	ids                map[string]int64
	pad, unk, cls, sep int64
}

func newTokenizer(vocabulary []string) (*tokenizer, error) {
	t := &tokenizer{ids: map[string]int64{}}
	for i, v := range vocabulary {
		t.ids[v] = int64(i)
	}
	for name, id := range map[string]*int64{"[PAD]": &t.pad, "[UNK]": &t.unk, "[CLS]": &t.cls, "[SEP]": &t.sep} {
		v, ok := t.ids[name]
		if !ok {
			return nil, fmt.Errorf("the vocabulary has no %s", name)
		}
		*id = v
	}
	return t, nil
}

// encode gives at most length tokens, [CLS] first and [SEP] last.
func (t *tokenizer) encode(line string, length int) []int64 {
	ids := []int64{t.cls}
	for _, w := range split(line) {
		ids = append(ids, t.pieces(w)...)
	}
	return append(ids[:min(len(ids), length-1)], t.sep)
}

func (t *tokenizer) pieces(word string) []int64 {
	var ids []int64
	letters := []rune(word)
	for at := 0; at < len(letters); {
		end := len(letters)
		for ; end > at; end-- {
			piece := string(letters[at:end])
			if at > 0 {
				piece = "##" + piece
			}
			if id, ok := t.ids[piece]; ok {
				ids = append(ids, id)
				break
			}
		}
		if end == at {
			return []int64{t.unk}
		}
		at = end
	}
	return ids
}

// split cuts a line into words and single punctuation marks.
func split(line string) []string {
	var out []string
	word := ""
	flush := func() {
		if word != "" {
			out = append(out, word)
		}
		word = ""
	}
	for _, r := range strings.ToLower(line) {
		switch {
		case unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r):
			word += string(r)
		case unicode.IsSpace(r) || unicode.IsControl(r):
			flush()
		default:
			flush()
			out = append(out, string(r))
		}
	}
	flush()
	return out
}

// makeVocabulary is the n most frequent words, after the special tokens.
func makeVocabulary(lines []string, n int) []string {
	count := map[string]int{}
	var words []string
	for _, l := range lines {
		for _, w := range split(l) {
			if count[w] == 0 {
				words = append(words, w)
			}
			count[w]++
		}
	}
	sort.SliceStable(words, func(i, j int) bool { return count[words[i]] > count[words[j]] })
	special := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"}
	return append(special, words[:max(0, min(len(words), n-len(special)))]...)
}
