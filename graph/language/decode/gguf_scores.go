package decode

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"qwb/graph"
)

// prefixes tell by what a tokenizer does before it joins pieces whether it puts a space in front of a text.
var prefixes = map[string]bool{
	`prepends "▁", then replaces " " by "▁"`: true,
	`replaces " " by "▁"`:                    false,
	"metaspace always":                       true,
	"metaspace first":                        true,
	"metaspace never":                        false,
}

// ggufScores are the metadata of byte-pair encoding on characters, with U+2581 for spaces and tokens for bytes, as Llama 2 has it. GGUF
// keeps no merges for it but a score for every token, and llama.cpp joins the pair whose token has the highest: the place of the first
// merge that makes the token, counted down from 0. That is the same only where every way to make a token of two others is a merge, as it
// is in what was converted from SentencePiece.
func (t *BPE) ggufScores() (map[string]any, error) {
	for b, id := range t.bytes {
		if id < 0 {
			return nil, fmt.Errorf("there is no token for the byte %s, and GGUF has no other word for what is unknown", byteName(b))
		}
	}
	var steps []string
	for _, n := range t.normalizer {
		steps = append(steps, n.does)
	}
	for _, s := range t.splitter[:min(1, len(t.splitter))] { // that it cuts before spaces then, the comparison finds where it matters
		steps = append(steps, s.does)
	}
	does := strings.Join(steps, ", then ")
	prefix, known := prefixes[does]
	if !known {
		return nil, fmt.Errorf("what it does before it joins characters (%s) has no place in GGUF", does)
	}
	tokens, types := t.ggufTokens()
	scores := make([]float32, len(tokens))
	rank := 0
	for _, pair := range t.merged() {
		if id := t.merges[pair].id; scores[id] == 0 {
			rank++
			scores[id] = -float32(rank)
		}
	}
	if err := t.everyWay(types); err != nil {
		return nil, err
	}
	out := map[string]any{
		"tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": scores,
		"tokenizer.ggml.token_type": types, "tokenizer.ggml.add_space_prefix": prefix,
	}
	if t.unknown >= 0 {
		out["tokenizer.ggml.unknown_token_id"] = uint32(t.unknown)
	}
	return out, nil
}

// everyWay reports a token that two others make without a merge.
func (t *BPE) everyWay(types []int32) error {
	normal := func(piece string) (int, bool) {
		id, ok := t.ids[piece]
		return id, ok && types[id] == ggufNormal
	}
	missing, example := 0, ""
	for id, piece := range t.pieces {
		if types[id] != ggufNormal {
			continue
		}
		for at := range piece {
			a, okA := normal(piece[:at])
			b, okB := normal(piece[at:])
			if _, merge := t.merges[[2]int{a, b}]; okA && okB && !merge {
				if missing++; missing == 1 {
					example = fmt.Sprintf("%q of %q and %q", piece, piece[:at], piece[at:])
				}
			}
		}
	}
	if missing > 0 {
		return fmt.Errorf("%d pairs make a token and are no merges, for example %s: GGUF keeps scores in place of merges, by which llama.cpp "+
			"would join them", missing, example)
	}
	return nil
}

// samples are texts on which two tokenizers are compared: what usually matters, and the tokens of t, in an order that puts others
// beside each other.
func samples(t Tokenizer, skip func(id int) bool) []string {
	list := []string{
		"Once upon a time, there was a little girl named Lily.", "I'm, YOU'RE, don't, he'll; 'Tis", "1 12 123 1234 12345678 1.5e-3",
		"two  spaces   three    four",
		"tabs\t\tand\nlines\n\nand\r\n\r\n   indented\n",
		"caf\u00e9 \u65e5\u672c\u8a9e\u306e \u041f\u0440\u0438\u0432\u0435\u0442 \u0645\u0631\u062d\u0628\u0627 \U0001f642",
		"foo_bar(baz)[0] += x->y; // #!?$%", "nbsp\u00a0here\u3000wide \u200bzero", "THE the The thethethe", "a", "\x00\x01\x7f",
	}
	const most, together, stride = 4000, 8, 7919
	size := t.Size()
	for n := 0; n < min(size, most); n += together {
		text := ""
		for i := range together {
			if id := (n + i) * stride % size; !skip(id) {
				text += t.Piece(0, id)
			}
		}
		if first, _ := utf8.DecodeRuneInString(text); utf8.ValidString(text) && first != ' ' && text != "" {
			list = append(list, text)
		}
	}
	return list
}

// compare holds what would be written against the tokenizer: another cut of ordinary text is an error, of text that begins with a space or
// stands behind a special token a warning.
func (g *GGUFTokens) compare(t, back Tokenizer) error {
	special, skip := "", func(id int) bool { return id < firstByte+256 } // of a tokenizer.bin
	if b, ok := t.(*BPE); ok {
		skip = func(id int) bool { return b.literal[id] || slices.Contains(b.bytes[:], id) || id == b.unknown }
		for _, a := range b.added {
			if a.Special && a.ID != b.unknown && special == "" {
				special = a.Content
			}
		}
	}
	same := func(text string) bool { return slices.Equal(t.Encode(text), back.Encode(text)) }
	texts := samples(t, skip)
	for _, text := range texts {
		if !same(text) {
			return fmt.Errorf("%.60q is cut into %v, and into %v by what GGUF can say of it", text, t.Encode(text), back.Encode(text))
		}
	}
	if text := " " + texts[0]; !same(text) {
		g.Warnings = append(g.Warnings, graph.Warning{Text: "text that begins with a space gets other tokens in llama.cpp, which puts another " +
			"space in front of it"})
	}
	if text := texts[1] + special + texts[0]; special != "" && !same(text) {
		g.Warnings = append(g.Warnings, graph.Warning{Text: "text behind a special token gets other tokens in llama.cpp, which puts a space in " +
			"front of it"})
	}
	return nil
}
