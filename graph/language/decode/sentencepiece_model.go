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

// What a tokenizer.model of SentencePiece (its sentencepiece_model.proto) may say of how it was trained.
var modelTypes = map[uint64]string{1: "unigram", 2: "byte-pair encoding", 3: "words", 4: "characters"}

const (
	unigramModel = 1
	bpeModel     = 2
)

// spModel is what is read of a tokenizer.model.
type spModel struct {
	pieces []string
	scores []float32
	types  []int32 // those of GGUF, which took them over
	kind   uint64  // of modelTypes

	chars    []byte // a table that rewrites characters (NFKC, for one)
	prefix   bool   // add_dummy_prefix
	collapse bool   // remove_extra_whitespaces
	escape   bool   // escape_whitespaces
	suffix   bool   // treat_whitespace_as_suffix
}

// ParseSentencePieceModel reads the tokenizer.model of SentencePiece: byte-pair encoding, as models of Llama's kind have it, or Unigram;
// words and characters are errors that say so. begin is the id that begins a text.
func ParseSentencePieceModel(b []byte, begin int) (*SentencePiece, error) {
	m := spModel{prefix: true, collapse: true, escape: true} // what the format's fields are where they are absent
	if err := m.read(b); err != nil {
		return nil, fmt.Errorf("it is no model of SentencePiece: %w", err)
	}
	switch {
	case len(m.pieces) == 0:
		return nil, errors.New("it is no model of SentencePiece: there are no pieces")
	case m.kind == 0:
		return nil, errors.New("it is cut off: nothing says how it was trained")
	case m.kind != bpeModel && m.kind != unigramModel:
		return nil, fmt.Errorf("SentencePiece by %s is not supported: byte-pair encoding and unigram are", modelTypes[m.kind])
	case !slices.Contains(m.types, ggufUnknown):
		return nil, errors.New("no piece stands for what is unknown")
	case m.suffix || !m.escape:
		return nil, errors.New("spaces at the end of words, or that are not escaped, are not supported")
	}
	// SentencePiece finds tokens that were defined by users in texts, and no control tokens: before it normalizes, which leaves them as they
	// are, and after, when they have U+2581 for spaces.
	var raw, user []addedToken
	for id, text := range m.pieces {
		if m.types[id] == ggufUser && text != "" {
			raw = append(raw, addedToken{ID: id, Content: text})
		}
		if strings.Contains(text, " ") {
			m.types[id] = ggufUnused // no normalized text has a space
		} else if m.types[id] == ggufUser && text != "" {
			user = append(user, addedToken{ID: id, Content: strings.ReplaceAll(text, metaspace, " ")})
		}
	}
	s, err := ggufPieces(m.pieces, m.scores, m.types, begin, m.prefix)
	if err != nil {
		return nil, err
	}
	s.types, s.once, s.collapse, s.unknown = m.types, true, m.collapse, slices.Index(m.types, ggufUnknown)
	if s.user, err = newAddedTokens(raw); err != nil {
		return nil, err
	}
	if s.added, err = newAddedTokens(user); err != nil {
		return nil, err
	}
	if m.kind == unigramModel {
		s.cut = m.lattice(s).cut
	}
	if len(m.chars) > 0 {
		s.chars, err = parseCharsMap(m.chars)
	}
	return s, err
}

// lattice has the scores of pieces; those that users defined have a tenth for each byte but one (measured of sentencepiece 0.2.3).
func (m *spModel) lattice(s *SentencePiece) *lattice {
	least := float32(math.MaxFloat32)
	scores := make([]float64, len(m.scores))
	for id, score := range m.scores {
		switch scores[id] = float64(score); m.types[id] {
		case ggufNormal:
			least = min(least, score)
		case ggufUser:
			scores[id] = float64(float32(0.1) * float32(len(m.pieces[id])-1))
		}
	}
	l := newLattice(s.ids, scores, float64(least), s.unknown, s.spell)
	l.single = true
	return l
}

// protoFields calls each for every field of a message: v is a number, or data what has a length. Fields of 32 bits come as numbers.
func protoFields(b []byte, each func(field int, v uint64, data []byte) error) error {
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 || key>>3 == 0 || key>>3 > math.MaxInt32 {
			return errors.New("a field is damaged")
		}
		b = b[n:]
		var v uint64
		var data []byte
		switch key & 7 {
		case 0:
			if v, n = binary.Uvarint(b); n <= 0 {
				return errors.New("a number is damaged")
			}
		case 1:
			n = 8
		case 2:
			length, head := binary.Uvarint(b)
			if head <= 0 || length > uint64(len(b)-head) {
				return errors.New("it is cut off")
			}
			n = head + int(length)
			data = b[head:n]
		case 5:
			n = 4
		default:
			return errors.New("a field is damaged")
		}
		if n > len(b) {
			return errors.New("it is cut off")
		}
		if key&7 == 5 {
			v = uint64(binary.LittleEndian.Uint32(b))
		}
		if err := each(int(key>>3), v, data); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (m *spModel) read(b []byte) error {
	const pieces, trainer, normalizer = 1, 2, 3
	return protoFields(b, func(field int, _ uint64, data []byte) error {
		switch field {
		case pieces:
			return m.piece(data)
		case trainer:
			m.kind = unigramModel // what it is where that is absent
			return protoFields(data, func(field int, v uint64, _ []byte) error {
				switch field {
				case 3:
					m.kind = v
				case 24:
					m.suffix = v != 0
				}
				return nil
			})
		case normalizer:
			return protoFields(data, func(field int, v uint64, data []byte) error {
				switch field {
				case 2:
					m.chars = data
				case 3:
					m.prefix = v != 0
				case 4:
					m.collapse = v != 0
				case 5:
					m.escape = v != 0
				}
				return nil
			})
		}
		return nil
	})
}

func (m *spModel) piece(b []byte) error {
	text, score, kind := "", float32(0), uint64(ggufNormal)
	err := protoFields(b, func(field int, v uint64, data []byte) error {
		switch field {
		case 1:
			text = string(data)
		case 2:
			score = math.Float32frombits(uint32(v))
		case 3:
			kind = v
		}
		return nil
	})
	if err == nil && (kind < ggufNormal || kind > ggufByte) {
		err = fmt.Errorf("piece %d has the type %d", len(m.pieces), kind)
	}
	m.pieces, m.scores, m.types = append(m.pieces, text), append(m.scores, score), append(m.types, int32(kind))
	return err
}

// normalize is what SentencePiece does before it cuts a text: U+2581 is a space to it, what users defined stays as it is, and a byte
// that is no character becomes U+FFFD.
func (s *SentencePiece) normalize(text string) string {
	var out strings.Builder
	space := s.collapse
	for len(text) > 0 {
		to, n := s.first(text)
		for space && strings.HasPrefix(to, " ") {
			to = to[1:]
		}
		if to != "" {
			if out.Len() == 0 && s.prefix {
				out.WriteString(metaspace)
			}
			out.WriteString(strings.ReplaceAll(to, " ", metaspace))
			space = s.collapse && strings.HasSuffix(to, " ")
		}
		text = text[n:]
	}
	text = out.String()
	for s.collapse && strings.HasSuffix(text, metaspace) {
		text = strings.TrimSuffix(text, metaspace)
	}
	return strings.ReplaceAll(text, metaspace, " ")
}

// first is what the first characters of a text become, and how many bytes they are.
func (s *SentencePiece) first(text string) (to string, n int) {
	if t, ok := s.user.at(text); ok {
		return t.Content, len(t.Content)
	}
	if s.chars != nil {
		if to, n = s.chars.find(text, true); n > 0 {
			return to, n
		}
	}
	r, n := utf8.DecodeRuneInString(text)
	return string(r), n
}
