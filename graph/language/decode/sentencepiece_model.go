package decode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
)

// What a tokenizer.model of SentencePiece (its sentencepiece_model.proto) may say of how it was trained.
var modelTypes = map[uint64]string{1: "unigram", 2: "byte-pair encoding", 3: "words", 4: "characters"}

const bpeModel = 2

// spModel is what is read of a tokenizer.model.
type spModel struct {
	pieces []string
	scores []float32
	types  []int32 // those of GGUF, which took them over
	kind   uint64  // of modelTypes

	chars    bool // a table rewrites characters (NFKC, for one)
	prefix   bool // add_dummy_prefix
	collapse bool // remove_extra_whitespaces
	escape   bool // escape_whitespaces
	suffix   bool // treat_whitespace_as_suffix
}

// ParseSentencePieceModel reads the tokenizer.model of SentencePiece. Byte-pair encoding with tokens for bytes is known, as models of
// Llama's kind have it; other kinds, and normalizers that rewrite characters, are errors that say so. begin is the id that begins a text.
func ParseSentencePieceModel(b []byte, begin int) (*SentencePiece, error) {
	m := spModel{kind: 1, prefix: true, collapse: true, escape: true} // what the format's fields are where they are absent
	if err := m.read(b); err != nil {
		return nil, fmt.Errorf("it is no model of SentencePiece: %w", err)
	}
	switch {
	case len(m.pieces) == 0:
		return nil, errors.New("it is no model of SentencePiece: there are no pieces")
	case m.kind != bpeModel:
		return nil, fmt.Errorf("SentencePiece by %s is not supported: byte-pair encoding is", modelTypes[m.kind])
	case m.chars:
		return nil, errors.New("its normalizer rewrites characters: that is not supported")
	case m.suffix || !m.escape:
		return nil, errors.New("spaces at the end of words, or that are not escaped, are not supported")
	}
	for id, text := range m.pieces {
		if strings.Contains(text, " ") {
			m.types[id] = ggufUnused // no text has a space, but U+2581
		}
	}
	s, err := ggufPieces(m.pieces, m.scores, m.types, begin, m.prefix)
	if err != nil {
		return nil, err
	}
	// SentencePiece finds tokens that were defined by users in texts, and no control tokens.
	var user []addedToken
	for id, kind := range m.types {
		if kind == ggufUser && s.pieces[id] != "" {
			user = append(user, addedToken{ID: id, Content: s.pieces[id]})
		}
	}
	s.types, s.once, s.collapse = m.types, true, m.collapse
	s.added, err = newAddedTokens(user)
	return s, err
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
					m.chars = len(data) > 0
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

// normalize is what SentencePiece does before it cuts a text: U+2581 is a space to it.
func (s *SentencePiece) normalize(text string) string {
	if s.collapse {
		text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ' ' }), " ")
	}
	if text != "" && s.prefix {
		text = " " + text
	}
	text = strings.ReplaceAll(text, metaspace, " ")
	if s.collapse {
		text = strings.TrimRight(text, " ")
	}
	return text
}
