package decode

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Models of tokenizer.json that cut words into pieces otherwise than by merges.

// What is looked for in a text at each of its places: pieces of so many bytes, and words of so many characters.
const (
	maxUnigram = 1 << 9
	maxWord    = 1 << 10
)

// unknownPenalty is how far below the lowest score a character is that no piece has.
const unknownPenalty = 10

// parseUnigram reads pieces with the logarithms of their probabilities: a list of pairs.
func parseUnigram(raw json.RawMessage) (ids map[string]int, scores []float64, err error) {
	var list [][2]any
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, nil, fmt.Errorf("vocab: %w", err)
	}
	ids, scores = make(map[string]int, len(list)), make([]float64, len(list))
	for id, pair := range list {
		piece, isText := pair[0].(string)
		score, isNumber := pair[1].(float64)
		if len(piece) > maxUnigram {
			return nil, nil, fmt.Errorf("vocab: piece %d has %d bytes, more than %d", id, len(piece), maxUnigram)
		}
		if _, twice := ids[piece]; !isText || !isNumber || twice {
			return nil, nil, fmt.Errorf("vocab: entry %d, %.40q, is no pair of a piece and its score, or there twice", id, piece)
		}
		ids[piece], scores[id] = id, score
	}
	return ids, scores, nil
}

// lattice are the pieces of a Unigram model with their scores.
type lattice struct {
	ids     map[string]int
	scores  []float64 // by id
	longest int       // bytes of a piece
	unknown int       // id of characters that no piece has
	penalty float64   // its score
	single  bool      // sums are float32
	spell   func(ids *[]int, c string) bool
}

// newLattice puts pieces together; least is the lowest score.
func newLattice(ids map[string]int, scores []float64, least float64, unknown int, spell func(ids *[]int, c string) bool) *lattice {
	l := &lattice{ids: ids, scores: scores, unknown: unknown, penalty: least - unknownPenalty, spell: spell}
	for p := range ids {
		l.longest = max(l.longest, len(p))
	}
	return l
}

// cut cuts a word into the pieces with the largest sum of scores (Kudo, arXiv 1804.10959); of equal ones those whose last piece begins
// first. Characters that no piece has become their bytes, where there are pieces for them, or together one unknown.
func (l *lattice) cut(w string) []int {
	type node struct {
		score float64
		from  int // -1: none leads here
		id    int
	}
	best := make([]node, len(w)+1)
	for i := range best {
		best[i].from = -1
	}
	reach := func(from, to, id int, score float64) {
		if score += best[from].score; l.single {
			score = float64(float32(score))
		}
		if best[to].from < 0 || score > best[to].score {
			best[to] = node{score, from, id}
		}
	}
	for from := range w {
		_, size := utf8.DecodeRuneInString(w[from:])
		single := false
		for n := 1; n <= min(l.longest, len(w)-from); n++ {
			if id, ok := l.ids[w[from:from+n]]; ok && id < len(l.scores) {
				reach(from, from+n, id, l.scores[id])
				single = single || n == size
			}
		}
		if !single {
			reach(from, from+size, l.unknown, l.penalty)
		}
	}
	var ids []int
	for to := len(w); to > 0; {
		from, id := best[to].from, best[to].id
		for id == l.unknown && from > 0 && best[from].id == l.unknown {
			from = best[from].from
		}
		var bytes []int
		if id != l.unknown || !l.spell(&bytes, w[from:to]) {
			bytes = []int{id}
		}
		slices.Reverse(bytes)
		ids, to = append(ids, bytes...), from
	}
	slices.Reverse(ids)
	return ids
}

// wordPiece returns what cuts a word, from its beginning, into the longest pieces there are, those behind the first with a prefix; a word
// that cannot be cut so, or of more than most characters, is unknown.
func (t *BPE) wordPiece(prefix string, most int) func(word string) []int {
	return func(w string) []int {
		if utf8.RuneCountInString(w) > most {
			return []int{t.unknown}
		}
		var ids []int
		for from := 0; from < len(w); {
			front, found := "", false
			if from > 0 {
				front = prefix
			}
			for to := len(w); to > from && !found; to-- {
				var id int
				if id, found = t.ids[front+w[from:to]]; found {
					ids, from = append(ids, id), to
					break
				}
			}
			if !found {
				return []int{t.unknown}
			}
		}
		return ids
	}
}

// segmenter sets what cuts words, of a model that is not BPE.
func (t *BPE) segmenter(f *tokenizerJSON, scores []float64) error {
	m := &f.Model
	if m.Type == "Unigram" {
		if t.unknown = -1; m.UnknownID != nil {
			t.unknown = *m.UnknownID
		}
		if t.unknown < 0 || t.unknown >= len(scores) {
			return fmt.Errorf("unk_id %d is no piece: that is not supported", t.unknown)
		}
		t.cut = newLattice(t.ids, scores, slices.Min(scores), t.unknown, t.spell).cut
		return nil
	}
	if t.unknown < 0 || m.MaxChars < 0 || m.MaxChars > maxWord {
		return fmt.Errorf("there is no unk_token, or max_input_chars_per_word is %d, more than %d", m.MaxChars, maxWord)
	}
	t.prefix, t.cut = *m.Prefix, t.wordPiece(*m.Prefix, m.MaxChars)
	return nil
}

// bertNormalizer is what BERT does to a text: spaces for white space, none for control characters, spaces around Chinese characters, no
// accents, lower case.
func bertNormalizer(clean, chinese, accents, lower bool) normalizer {
	return normalizer{fmt.Sprintf("BERT's %t %t %t %t", clean, chinese, accents, lower), func(s string) string {
		var out strings.Builder
		for _, r := range s {
			switch {
			case clean && (r == 0 || r == utf8.RuneError || r != '\t' && r != '\n' && r != '\r' && isOther(r)):
			case clean && unicode.IsSpace(r):
				out.WriteByte(' ')
			case chinese && isChinese(r):
				out.WriteString(" " + string(r) + " ")
			default:
				out.WriteRune(r)
			}
		}
		s = out.String()
		if accents {
			s = without(norm.NFD.String(s), unicode.Mn)
		}
		if lower {
			s = lowerCase(s)
		}
		return s
	}}
}

// isOther reports whether a character controls, formats, or is for private use: not whether it is assigned to nothing.
func isOther(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) }

// lowerCase is each character's lower case by Unicode; that of U+0130 is two.
func lowerCase(s string) string { return strings.ToLower(strings.ReplaceAll(s, "\u0130", "i\u0307")) }

func isChinese(r rune) bool {
	for _, x := range [][2]rune{{0x4E00, 0x9FFF}, {0x3400, 0x4DBF}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
		{0x2B920, 0x2CEAF}, {0xF900, 0xFAFF}, {0x2F800, 0x2FA1F}} {
		if r >= x[0] && r <= x[1] {
			return true
		}
	}
	return false
}

// bertWords cuts at white space, and makes words of punctuation characters.
var bertWords = splitter{"BERT's words", func(words []string, _ bool) []string {
	var out []string
	for _, w := range words {
		for _, w := range strings.FieldsFunc(w, unicode.IsSpace) {
			from := 0
			for i, r := range w {
				if !unicode.IsPunct(r) && !(r < utf8.RuneSelf && unicode.IsSymbol(r)) {
					continue
				}
				if i > from {
					out = append(out, w[from:i])
				}
				from = i + utf8.RuneLen(r)
				out = append(out, w[i:from])
			}
			if from < len(w) {
				out = append(out, w[from:])
			}
		}
	}
	return out
}}

// tidy is what is done to English when words are joined by spaces.
var tidy = strings.NewReplacer(" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'", " n't", "n't", " 'm", "'m", " 's", "'s",
	" 've", "'ve", " 're", "'re")
