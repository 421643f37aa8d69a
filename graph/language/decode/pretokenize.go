package decode

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// splitter cuts words into smaller ones. first says that they begin the text.
type splitter struct {
	does string // which splitter it is: those that do the same have the same name
	cut  func(words []string, first bool) []string
}

// described says in a line what splitters do.
func described(list []splitter) string {
	var names []string
	for _, s := range list {
		names = append(names, s.does)
	}
	return strings.Join(names, ", then ")
}

// Regular expressions that cut a text into words.
const (
	gpt2Words   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	llama3Words = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Words  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// preTokenizer is the member "pre_tokenizer" of a tokenizer.json.
type preTokenizer struct {
	Type          string
	PreTokenizers []json.RawMessage `json:"pretokenizers"`
	PrefixSpace   *bool             `json:"add_prefix_space"`
	UseRegex      *bool             `json:"use_regex"`
	Pattern       textPattern
	Behavior      string
	Invert        bool
	Individual    bool   `json:"individual_digits"`
	Replacement   string // of Metaspace
	Prepend       string `json:"prepend_scheme"`
	Split         *bool
}

// parsePreTokenizer reads how a text is cut; byteLevel tells whether words are then written in the alphabet of bytes.
func parsePreTokenizer(raw json.RawMessage) (list []splitter, byteLevel bool, err error) {
	if isNull(raw) {
		return nil, false, nil
	}
	var p preTokenizer
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, false, fmt.Errorf("pre_tokenizer: %w", err)
	}
	switch p.Type {
	case "Sequence":
		for _, r := range p.PreTokenizers {
			more, level, err := parsePreTokenizer(r)
			if err != nil {
				return nil, false, err
			}
			list, byteLevel = append(list, more...), byteLevel || level
		}
		return list, byteLevel, nil
	case "ByteLevel":
		list, err = byteLevelSplitters(p.PrefixSpace == nil || *p.PrefixSpace, p.UseRegex == nil || *p.UseRegex)
		return list, true, err
	case "BertPreTokenizer":
		list = []splitter{bertWords}
	case "WhitespaceSplit":
		list = []splitter{{"cuts out white space", func(words []string, _ bool) []string {
			var out []string
			for _, w := range words {
				out = append(out, strings.FieldsFunc(w, unicode.IsSpace)...)
			}
			return out
		}}}
	case "Split":
		list, err = p.split()
	case "Digits":
		pattern := `\p{N}+`
		if p.Individual {
			pattern = `\p{N}`
		}
		list, err = isolate(pattern)
	case "Metaspace":
		list, err = p.metaspace()
	default:
		err = fmt.Errorf("the pre_tokenizer %q is not supported", p.Type)
	}
	return list, false, err
}

// byteLevelSplitters cut words as GPT-2 does and write them in the alphabet of bytes.
func byteLevelSplitters(prefix, regex bool) ([]splitter, error) {
	var list []splitter
	if prefix {
		list = append(list, each("puts a space in front", func(w string) string {
			if strings.HasPrefix(w, " ") {
				return w
			}
			return " " + w
		}))
	}
	if regex {
		words, err := isolate(gpt2Words)
		if err != nil {
			return nil, err
		}
		list = append(list, words...)
	}
	return append(list, bytesOf), nil
}

// bytesOf writes words in the alphabet of bytes.
var bytesOf = each("writes bytes", toByteLevel)

// each changes every word by itself.
func each(does string, f func(word string) string) splitter {
	return splitter{does, func(words []string, _ bool) []string {
		for i, w := range words {
			words[i] = f(w)
		}
		return words
	}}
}

// isolate makes words of the matches of a regular expression, and of what lies between them.
func isolate(pattern string) ([]splitter, error) {
	w, err := newWordRegexp(pattern)
	if err != nil {
		return nil, err
	}
	return []splitter{{"cuts " + pattern, w.isolated}}, nil
}

func (w *wordRegexp) isolated(words []string, _ bool) []string {
	var out []string
	add := func(part string) { out = append(out, part) }
	for _, s := range words {
		w.each(s, add, add)
	}
	return out
}

func (w *wordRegexp) matched(words []string, _ bool) []string {
	var out []string
	for _, s := range words {
		w.each(s, func(part string) { out = append(out, part) }, func(string) {})
	}
	return out
}

func (p *preTokenizer) split() ([]splitter, error) {
	w, err := p.Pattern.expression()
	if err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	switch {
	case p.Behavior == "Isolated": // what lies between matches is isolated as well, so that invert changes nothing
		return []splitter{{"cuts " + p.Pattern.text(), w.isolated}}, nil
	case p.Behavior == "Removed" && p.Invert:
		return []splitter{{"cuts out " + p.Pattern.text(), w.matched}}, nil
	}
	return nil, fmt.Errorf("the pre_tokenizer Split with the behavior %q (invert %t) is not supported", p.Behavior, p.Invert)
}

// metaspace writes spaces as U+2581, with one in front of the text, and cuts before each.
func (p *preTokenizer) metaspace() ([]splitter, error) {
	if p.Replacement != metaspace {
		return nil, fmt.Errorf("the pre_tokenizer Metaspace with the replacement %q is not supported", p.Replacement)
	}
	scheme := p.Prepend
	if scheme == "" {
		scheme = "always"
		if p.PrefixSpace != nil && !*p.PrefixSpace {
			scheme = "never"
		}
	}
	if scheme != "always" && scheme != "first" && scheme != "never" {
		return nil, fmt.Errorf("the prepend_scheme %q is not supported", scheme)
	}
	list := []splitter{{"metaspace " + scheme, func(words []string, first bool) []string {
		for i, w := range words {
			w = strings.ReplaceAll(w, " ", metaspace)
			if (scheme == "always" || scheme == "first" && first && i == 0) && !strings.HasPrefix(w, metaspace) {
				w = metaspace + w
			}
			words[i] = w
		}
		return words
	}}}
	if p.Split != nil && !*p.Split {
		return list, nil
	}
	cut, err := isolate(metaspace + `[^` + metaspace + `]*|[^` + metaspace + `]+`)
	return append(list, cut...), err
}
