package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// tokenizerJSON is what is read of a tokenizer.json (github.com/huggingface/tokenizers). Encode gives a text's own ids, without those that
// post_processor puts around them.
type tokenizerJSON struct {
	Added        []addedToken    `json:"added_tokens"`
	Normalizer   json.RawMessage `json:"normalizer"`
	PreTokenizer json.RawMessage `json:"pre_tokenizer"`
	Decoder      json.RawMessage `json:"decoder"`
	Processor    json.RawMessage `json:"post_processor"`
	Model        struct {
		Type         string
		Dropout      *float64
		Unknown      *string `json:"unk_token"`
		Prefix       *string `json:"continuing_subword_prefix"`
		Suffix       *string `json:"end_of_word_suffix"`
		UnknownID    *int    `json:"unk_id"`
		MaxChars     int     `json:"max_input_chars_per_word"`
		FuseUnknown  bool    `json:"fuse_unk"`
		ByteFallback bool    `json:"byte_fallback"`
		IgnoreMerges bool    `json:"ignore_merges"`
		Vocab        json.RawMessage
		Merges       []bpeMerge
	}
}

// bpeMerge is written as "a b" or, in newer files, as ["a", "b"].
type bpeMerge [2]string

func (m *bpeMerge) UnmarshalJSON(b []byte) error {
	var one string
	if err := json.Unmarshal(b, &one); err == nil {
		a, z, ok := strings.Cut(one, " ")
		if !ok || a == "" || z == "" || strings.Contains(z, " ") {
			return fmt.Errorf("the merge %q has not two parts", one)
		}
		*m = bpeMerge{a, z}
		return nil
	}
	var two []string
	if err := json.Unmarshal(b, &two); err != nil || len(two) != 2 {
		return fmt.Errorf("the merge %.40s has not two parts", b)
	}
	*m = bpeMerge{two[0], two[1]}
	return nil
}

// ParseTokenizerJSON reads a tokenizer.json: byte-pair encoding, on bytes, as GPT-2, Qwen2 and Llama 3 have it, or on characters
// with U+2581 for spaces, as Llama 2 has it; Unigram; or WordPiece. begin is the id that begins a text. What it does not know is an error.
func ParseTokenizerJSON(b []byte, begin int) (*BPE, error) {
	var f tokenizerJSON
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, err
	}
	m := &f.Model
	switch {
	case m.Type != "BPE" && m.Type != "Unigram" && m.Type != "WordPiece" && (m.Type != "" || m.Merges == nil):
		return nil, fmt.Errorf("a model of type %q; BPE, Unigram and WordPiece are read", m.Type)
	case m.Type == "WordPiece" && m.Prefix == nil:
		return nil, errors.New("there is no continuing_subword_prefix")
	case m.Dropout != nil && *m.Dropout != 0:
		return nil, errors.New("merges that are left out by chance (dropout) are not supported")
	case m.Prefix != nil && *m.Prefix != "" && m.Type != "WordPiece", m.Suffix != nil && *m.Suffix != "":
		return nil, errors.New("continuing_subword_prefix and end_of_word_suffix are not supported")
	}
	v := bpeVocabulary{added: f.Added}
	var scores []float64
	var err error
	if m.Type == "Unigram" {
		v.ids, scores, err = parseUnigram(m.Vocab)
	} else if err = json.Unmarshal(m.Vocab, &v.ids); err != nil {
		err = fmt.Errorf("vocab: %w", err)
	}
	if err != nil {
		return nil, err
	}
	for _, merge := range m.Merges {
		v.merges = append(v.merges, merge)
	}
	normalizers, err := parseNormalizer(f.Normalizer)
	if err != nil {
		return nil, err
	}
	t, err := newBPE(v, normalizers)
	if err != nil {
		return nil, err
	}
	t.begin, t.whole, t.fused = begin, m.IgnoreMerges, m.FuseUnknown
	if m.ByteFallback {
		t.fallBack()
	}
	if m.Unknown != nil {
		id, ok := v.ids[*m.Unknown]
		if !ok {
			return nil, fmt.Errorf("unk_token %q is no token", *m.Unknown)
		}
		t.unknown = id
	}
	if m.Type == "Unigram" || m.Type == "WordPiece" {
		if err := t.segmenter(&f, scores); err != nil {
			return nil, err
		}
	}
	if t.splitter, t.byteLevel, err = parsePreTokenizer(f.PreTokenizer); err != nil {
		return nil, err
	}
	if err := t.parseDecoder(f.Decoder); err != nil {
		return nil, err
	}
	if err := t.parseTemplate(f.Processor); err != nil {
		return nil, err
	}
	return t, t.complete()
}

// parseDecoder reads how tokens become a text again.
func (t *BPE) parseDecoder(raw json.RawMessage) error {
	if isNull(raw) {
		if !t.byteLevel {
			return errors.New("there is no decoder")
		}
		return nil
	}
	var d struct {
		Type     string
		Decoders []json.RawMessage
		Pattern  textPattern
		Content  string
		Start    int
		Stop     int
		Prepend  string `json:"prepend_scheme"`
		Prefix   *bool  `json:"add_prefix_space"`
		Cleanup  bool
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return fmt.Errorf("decoder: %w", err)
	}
	switch {
	case d.Type == "Sequence":
		for _, r := range d.Decoders {
			if err := t.parseDecoder(r); err != nil {
				return err
			}
		}
	case d.Type == "ByteLevel" && t.byteLevel, d.Type == "ByteFallback", d.Type == "Fuse":
	case d.Type == "WordPiece" && t.prefix != "":
		t.spaced, t.cleanup = true, d.Cleanup
	case d.Type == "Replace" && d.Pattern.String != nil && *d.Pattern.String == metaspace && d.Content == " ":
		t.metaspace = true
	case d.Type == "Metaspace":
		t.metaspace, t.stripFirst = true, d.Prepend != "never" && (d.Prefix == nil || *d.Prefix)
	case d.Type == "Strip" && d.Content == " " && d.Start <= 1 && d.Stop == 0:
		t.stripFirst = d.Start == 1
	default:
		return fmt.Errorf("the decoder %q is not supported here", d.Type)
	}
	return nil
}
