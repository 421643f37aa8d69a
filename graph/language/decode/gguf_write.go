package decode

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/language/checkpoint"
)

// GGUFTokens is what a GGUF file says about tokens.
type GGUFTokens struct {
	// Metadata are the keys tokenizer.ggml.* and tokenizer.chat_template*, from which GGUFTokenizer makes a tokenizer that cuts
	// texts into the same ids.
	Metadata map[string]any
	Warnings []graph.Warning // what llama.cpp does otherwise
}

// ErrNoTokenizer says that no tokenizer was named and none lies beside the checkpoint.
var ErrNoTokenizer = errors.New("there is no tokenizer")

// TokensForGGUF transcribes a tokenizer: the one at path, or where that is empty the one beside the checkpoint. What GGUF cannot say is
// an error. The transcription is held against the original on texts.
func TokensForGGUF(path string, m *checkpoint.Model) (*GGUFTokens, error) {
	name := path
	if name == "" {
		var err error
		if name, err = tokenizerBeside(m.Path); err != nil {
			return nil, err
		}
	}
	t, err := OpenTokenizer(name, m)
	if err != nil {
		return nil, err
	}
	g := &GGUFTokens{}
	if err := g.transcribe(t, m, name); err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", name, err)
	}
	return g, nil
}

func (g *GGUFTokens) transcribe(t Tokenizer, m *checkpoint.Model, path string) (err error) {
	switch t := t.(type) {
	case *SentencePiece:
		if t.cut != nil || t.chars != nil {
			return errors.New("tokenizers of SentencePiece by Unigram, or with a table of characters, are not written to GGUF")
		}
		if err := t.complete(); err != nil {
			return err
		}
		g.Metadata = t.GGUFMetadata(append(slices.Clone(m.EOS), -1)[0])
	case *BPE:
		if t.cut != nil {
			return errors.New("tokenizers by Unigram and WordPiece are not written to GGUF")
		}
		if t.byteLevel {
			g.Metadata, err = t.ggufWords()
			if len(t.normalizer) > 0 {
				g.Warnings = append(g.Warnings, graph.Warning{Text: "the tokenizer normalises text (Unicode form C); llama.cpp does not: text in " +
					"another form gets other tokens there"})
			}
		} else {
			g.Metadata, err = t.ggufScores()
		}
		if err == nil {
			err = g.ends(t, m, path)
		}
	default:
		err = fmt.Errorf("a tokenizer of type %T is not written as GGUF", t)
	}
	if err != nil {
		return err
	}
	g.pad(m.Vocab)
	back, err := GGUFTokenizer(g.Metadata, m.BOS)
	if err != nil {
		return fmt.Errorf("what would be written cannot be read: %w", err)
	}
	return g.compare(t, back)
}

// pad adds tokens that no text has until there are as many as the vocabulary.
func (g *GGUFTokens) pad(vocab int) {
	tokens, types := g.Metadata["tokenizer.ggml.tokens"].([]string), g.Metadata["tokenizer.ggml.token_type"].([]int32)
	scores, scored := g.Metadata["tokenizer.ggml.scores"].([]float32)
	for id := len(tokens); id < vocab; id++ {
		tokens, types, scores = append(tokens, padding(id)), append(types, ggufUnused), append(scores, 0)
	}
	g.Metadata["tokenizer.ggml.tokens"], g.Metadata["tokenizer.ggml.token_type"] = tokens, types
	if scored {
		g.Metadata["tokenizer.ggml.scores"] = scores
	}
}

// padding is what llama.cpp's converter calls an id that no token has.
func padding(id int) string { return fmt.Sprintf("[PAD%d]", id) }

// ggufTokens returns the pieces by id and their types. Bytes are those of byte fallback.
func (t *BPE) ggufTokens() (tokens []string, types []int32) {
	tokens, types = slices.Clone(t.pieces), make([]int32, len(t.pieces))
	for id, p := range tokens {
		if types[id] = ggufNormal; p == "" {
			tokens[id], types[id] = padding(id), ggufUnused
		}
	}
	for _, id := range t.bytes {
		if id >= 0 {
			types[id] = ggufByte
		}
	}
	for _, a := range t.added {
		if types[a.ID] = ggufUser; a.Special {
			types[a.ID] = ggufControl
		}
	}
	if t.unknown >= 0 {
		types[t.unknown] = ggufUnknown
	}
	return tokens, types
}

// ggufWords are the metadata of byte-pair encoding on bytes.
func (t *BPE) ggufWords() (map[string]any, error) {
	pre, err := t.cutting()
	if err != nil {
		return nil, err
	}
	for _, n := range t.normalizer {
		if n.does != "NFC" {
			return nil, fmt.Errorf("its normalizer (%s) has no place in GGUF", n.does)
		}
	}
	tokens, types := t.ggufTokens()
	merges := make([]string, 0, len(t.merges))
	for _, m := range t.merged() {
		merges = append(merges, t.pieces[m[0]]+" "+t.pieces[m[1]])
	}
	return map[string]any{
		"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types,
		"tokenizer.ggml.merges": merges,
	}, nil
}

// merged lists the pairs that are joined, the first before others.
func (t *BPE) merged() [][2]int {
	return slices.SortedFunc(maps.Keys(t.merges), func(a, b [2]int) int { return t.merges[a].rank - t.merges[b].rank })
}

// cutting is what GGUF calls the way in which texts are cut into words.
func (t *BPE) cutting() (string, error) {
	want := described(t.splitter)
	for _, name := range slices.Sorted(maps.Keys(ggufCuttings)) {
		list, err := ggufCuttings[name].splitters()
		if err != nil {
			return "", err
		}
		if ggufCuttings[name].whole == t.whole && described(list) == want {
			return name, nil
		}
	}
	ignored := ""
	if t.whole {
		ignored = ", with ignore_merges"
	}
	return "", fmt.Errorf("how it cuts texts into words (%s%s) has no name in GGUF that qwb knows; known are %s", want, ignored,
		strings.Join(slices.Sorted(maps.Keys(ggufCuttings)), ", "))
}
