package decode

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// BPE is byte-pair encoding with a list of merges, as tokenizer.json and GGUF files of GPT-2's kind hold it: a text is normalised and cut
// into words; in each, neighbouring pieces are joined, those that stand first in the list before others.
type BPE struct {
	pieces []string // by id; "" where no token has it
	ids    map[string]int
	merges map[[2]int]ranked
	whole  bool     // a word that is a piece is not taken apart
	bytes  [256]int // ids that stand for bytes of unknown characters, -1 where there are none
	// unknown stands for characters that are no piece and have no bytes, -1 where there is none; fused: for several in a row.
	unknown int
	fused   bool

	special    *addedTokens // found in the text as it is
	ordinary   *addedTokens // found in the normalised text
	literal    map[int]bool // tokens whose piece is the text itself
	added      []addedToken // special and ordinary ones as the file has them
	normalizer []normalizer
	splitter   []splitter

	byteLevel  bool // pieces are written in the alphabet of bytes
	metaspace  bool // pieces have U+2581 for a space
	stripFirst bool // the space in front of a text is not part of it
	begin      int  // id that begins a text

	// Of Unigram and WordPiece:
	cut     func(word string) []int // in place of merges; nil: merges
	prefix  string                  // of pieces that go on a word
	spaced  bool                    // a space stands in front of other pieces, but not of a text
	cleanup bool                    // and not in front of punctuation

	around [2]int // ids that a template puts in front of a text and behind it, -1 for none; Encode does not
}

type ranked struct{ rank, id int }

const metaspace = "\u2581"

// bpeVocabulary is what a file says about pieces and how they are joined.
type bpeVocabulary struct {
	ids    map[string]int
	merges [][2]string
	added  []addedToken
}

// newBPE returns a tokenizer of a vocabulary, which does not cut a text into words yet.
func newBPE(v bpeVocabulary, n []normalizer) (*BPE, error) {
	t := &BPE{normalizer: n, ids: v.ids, added: v.added, merges: make(map[[2]int]ranked, len(v.merges)), unknown: -1, begin: -1,
		around: [2]int{-1, -1}, literal: map[int]bool{}}
	limit := 2*(len(v.ids)+len(v.added)) + 1<<16
	put := func(id int, piece string) error {
		if id < 0 || id >= limit {
			return fmt.Errorf("token %q has the id %d; there are %d tokens", piece, id, len(v.ids)+len(v.added))
		}
		for id >= len(t.pieces) {
			t.pieces = append(t.pieces, "")
		}
		if old := t.pieces[id]; old != "" && old != piece {
			return fmt.Errorf("tokens %q and %q have the same id %d", min(old, piece), max(old, piece), id)
		}
		t.pieces[id] = piece
		return nil
	}
	for _, piece := range slices.Sorted(maps.Keys(v.ids)) { // sorted for the error to be the same each time
		if err := put(v.ids[piece], piece); err != nil {
			return nil, err
		}
	}
	var special, ordinary []addedToken
	for _, a := range v.added {
		if err := put(a.ID, a.Content); err != nil {
			return nil, err
		}
		t.literal[a.ID] = true
		if a.Normalized {
			a.Content = t.normalize(a.Content)
			ordinary = append(ordinary, a)
		} else {
			special = append(special, a)
		}
	}
	var err error
	if t.special, err = newAddedTokens(special); err != nil {
		return nil, err
	}
	if t.ordinary, err = newAddedTokens(ordinary); err != nil {
		return nil, err
	}
	for rank, m := range v.merges {
		a, okA := v.ids[m[0]]
		b, okB := v.ids[m[1]]
		id, ok := v.ids[m[0]+m[1]]
		if !okA || !okB || !ok {
			return nil, fmt.Errorf("merge %d joins %q and %q: one of them, or what they make, is no token", rank, m[0], m[1])
		}
		t.merges[[2]int{a, b}] = ranked{rank, id}
	}
	for b := range t.bytes {
		t.bytes[b] = -1
	}
	return t, nil
}

// complete checks that every text has ids.
func (t *BPE) complete() error {
	if t.cut != nil {
		return nil
	}
	if t.byteLevel {
		for _, r := range byteRunes {
			if _, ok := t.ids[string(r)]; !ok && t.unknown < 0 {
				return fmt.Errorf("there is no token for the byte %q", r)
			}
		}
		return nil
	}
	for _, id := range t.bytes {
		if id < 0 && t.unknown < 0 {
			return errors.New("there is neither a token for every byte nor one for what is unknown")
		}
	}
	return nil
}

// byteName is the piece that stands for a byte.
func byteName(b int) string { return fmt.Sprintf("<0x%02X>", b) }

// fallBack makes the pieces <0x00> to <0xFF> stand for the bytes of characters that are no piece.
func (t *BPE) fallBack() {
	for b := range t.bytes {
		if id, ok := t.ids[byteName(b)]; ok {
			t.bytes[b] = id
		}
	}
}

// Size is how many ids there are.
func (t *BPE) Size() int { return len(t.pieces) }

// Encode returns the ids of a text, without those that a template puts around it.
func (t *BPE) Encode(text string) []int {
	var ids []int
	add := func(id int) { ids = append(ids, id) }
	first := true
	t.special.each(text, func(id int) { add(id); first = false }, func(part string) {
		t.ordinary.each(t.normalize(part), func(id int) { add(id); first = false }, func(part string) {
			words := []string{part}
			for _, split := range t.splitter {
				words = split.cut(words, first)
			}
			for _, w := range words {
				ids = append(ids, t.word(w)...)
			}
			first = false
		})
	})
	return ids
}

func (t *BPE) normalize(text string) string {
	for _, n := range t.normalizer {
		text = n.apply(text)
	}
	return text
}

// word joins the characters of a word.
func (t *BPE) word(w string) []int {
	if t.cut != nil {
		return t.cut(w)
	}
	if id, ok := t.ids[w]; ok && t.whole {
		return []int{id}
	}
	ids := make([]int, 0, len(w))
	unknown := false
	for _, r := range w {
		c := string(r)
		if id, ok := t.ids[c]; ok {
			ids, unknown = append(ids, id), false
			continue
		}
		if at := len(ids); !t.spell(&ids, c) {
			if ids = ids[:at]; t.unknown >= 0 && !(unknown && t.fused) {
				ids = append(ids, t.unknown)
			}
			unknown = true
			continue
		}
		unknown = false
	}
	return merge(ids, func(a, b int) (int, float64, bool) {
		m, ok := t.merges[[2]int{a, b}]
		return m.id, -float64(m.rank), ok
	})
}

// spell appends the bytes of a character, and reports whether there is a token for each.
func (t *BPE) spell(ids *[]int, c string) bool {
	for _, b := range []byte(c) {
		if t.bytes[b] < 0 {
			return false
		}
		*ids = append(*ids, t.bytes[b])
	}
	return true
}

// Piece returns the text of a token. Where the tokenizer puts a space in front of a text, it is left out after the id that begins
// one.
func (t *BPE) Piece(before, id int) string {
	if id < 0 || id >= len(t.pieces) {
		return ""
	}
	p := t.pieces[id]
	switch {
	case t.spaced:
		first := before < 0 || before == t.begin
		if on, ok := strings.CutPrefix(p, t.prefix); ok && !first {
			return on
		} else if !first {
			p = " " + p
		}
		if t.cleanup {
			p = tidy.Replace(p)
		}
		return p
	case t.literal[id]:
		return p
	case t.byteLevel:
		return fromByteLevel(p)
	case len(p) == 6 && strings.HasPrefix(p, "<0x"):
		var b byte
		if _, err := fmt.Sscanf(p, "<0x%02X>", &b); err == nil && t.bytes[b] == id {
			return string([]byte{b})
		}
	case t.metaspace:
		p = strings.ReplaceAll(p, metaspace, " ")
		if t.stripFirst && (before == t.begin || before < 0) {
			p = strings.TrimPrefix(p, " ")
		}
	}
	return p
}
