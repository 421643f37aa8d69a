package decode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// SentencePiece is a vocabulary of pieces with scores, as llama2.c's tokenizer.bin and GGUF files of Llama hold it: pairs whose
// joined piece has the highest score are joined first. In a tokenizer.bin id 0 stands for what is not known, 1 begins a text, 2 ends
// it, 3 to 258 are the bytes.
type SentencePiece struct {
	pieces []string
	scores []float32
	ids    map[string]int // of the pieces that a text may be cut into
	bytes  [256]int       // ids of the bytes
	byteOf map[int]byte   // the byte that an id stands for
	begin  int            // id that begins a text
	prefix bool           // a space is put in front of a text
	added  *addedTokens

	// Of a tokenizer.model:
	types    []int32 // of the pieces, those of GGUF; nil: those of a tokenizer.bin
	user     *addedTokens
	chars    *charsMap               // rewrites characters; nil: none does
	cut      func(text string) []int // in place of joining pairs; nil: pairs
	unknown  int                     // stands for characters without bytes, several in a row
	once     bool                    // the space stands in front of all of a text, not of each part between added tokens
	collapse bool                    // several spaces are one, and none stand at the ends
}

const (
	firstByte = 3 // id of the byte 0
	beginID   = 1
	maxPiece  = 1 << 16 // bytes
)

// NewSentencePiece returns a tokenizer of pieces with scores. Of pieces that occur twice the first one counts.
func NewSentencePiece(pieces []string, scores []float32) (*SentencePiece, error) {
	if len(pieces) != len(scores) || len(pieces) < firstByte+256 {
		return nil, fmt.Errorf("%d pieces with %d scores: there are at least %d", len(pieces), len(scores), firstByte+256)
	}
	s := &SentencePiece{pieces: pieces, scores: scores, ids: make(map[string]int, len(pieces)), byteOf: map[int]byte{},
		begin: beginID, prefix: true}
	for b := range s.bytes {
		s.bytes[b], s.byteOf[firstByte+b] = firstByte+b, byte(b)
	}
	for i, p := range pieces {
		if _, ok := s.ids[p]; !ok {
			s.ids[p] = i
		}
		if scores[i] != scores[i] {
			return nil, fmt.Errorf("the score of piece %d (%q) is NaN", i, p)
		}
	}
	return s, nil
}

// ParseLlama2cTokenizer reads a tokenizer.bin: the length of the longest piece, then for each piece its score (float32), its length
// (int32) and its bytes. The file does not say how many there are: it must end after the last.
func ParseLlama2cTokenizer(b []byte) (*SentencePiece, error) {
	if len(b) < 4 {
		return nil, errors.New("the file is cut off in its header")
	}
	var pieces []string
	var scores []float32
	for b = b[4:]; len(b) > 0; {
		if len(b) < 8 {
			return nil, fmt.Errorf("the file is cut off in piece %d", len(pieces))
		}
		score, n := math.Float32frombits(binary.LittleEndian.Uint32(b)), int(int32(binary.LittleEndian.Uint32(b[4:])))
		if n < 0 || n > maxPiece || n > len(b)-8 {
			return nil, fmt.Errorf("piece %d has %d bytes and the file %d more", len(pieces), n, len(b)-8)
		}
		pieces, scores = append(pieces, string(b[8:8+n])), append(scores, score)
		b = b[8+n:]
	}
	return NewSentencePiece(pieces, scores)
}

// Size is how many ids there are.
func (s *SentencePiece) Size() int { return len(s.pieces) }

// Encode returns the ids of a text: a space is put in front of it, characters that are no piece become their bytes, and then pairs
// are joined.
func (s *SentencePiece) Encode(text string) []int {
	var ids []int
	if s.once {
		text = s.normalize(text)
	}
	if s.cut != nil {
		return s.cut(text)
	}
	s.added.each(text, func(id int) { ids = append(ids, id) }, func(part string) { ids = append(ids, s.encode(part)...) })
	if s.once {
		ids = slices.CompactFunc(ids, func(a, b int) bool { return a == s.unknown && b == s.unknown })
	}
	return ids
}

func (s *SentencePiece) encode(text string) []int {
	var ids []int
	if id, ok := s.ids[" "]; ok && s.prefix && !s.once {
		ids = append(ids, id)
	}
	for len(text) > 0 {
		_, n := utf8.DecodeRuneInString(text)
		if id, ok := s.ids[text[:n]]; ok {
			ids = append(ids, id)
		} else if at := len(ids); !s.spell(&ids, text[:n]) {
			ids = append(ids[:at], s.unknown)
		}
		text = text[n:]
	}
	return merge(ids, func(a, b int) (int, float64, bool) {
		id, ok := s.ids[s.pieces[a]+s.pieces[b]]
		if !ok {
			return 0, 0, false
		}
		return id, float64(s.scores[id]), true
	})
}

// spell appends the bytes of a character, and reports whether there is a token for each.
func (s *SentencePiece) spell(ids *[]int, c string) bool {
	for _, b := range []byte(c) {
		if s.bytes[b] < 0 {
			return false
		}
		*ids = append(*ids, s.bytes[b])
	}
	return true
}

// Piece returns the text of a token. The space that Encode puts in front of a text is left out after the id that begins one.
func (s *SentencePiece) Piece(before, id int) string {
	if id < 0 || id >= len(s.pieces) {
		return ""
	}
	if b, ok := s.byteOf[id]; ok {
		return string([]byte{b})
	}
	p := s.pieces[id]
	if before == s.begin && s.prefix {
		p = strings.TrimPrefix(p, " ")
	}
	return p
}
