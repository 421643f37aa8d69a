package decode

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// normalizer changes a text before it is cut into words.
type normalizer struct {
	does  string // which one it is: those that do the same have the same name
	apply func(text string) string
}

// textPattern is what a file looks for: a text or a regular expression.
type textPattern struct {
	String *string
	Regex  *string
}

// expression returns the pattern as a regular expression.
func (p textPattern) expression() (*wordRegexp, error) {
	switch {
	case p.String != nil:
		return newWordRegexp(regexp.QuoteMeta(*p.String))
	case p.Regex != nil:
		return newWordRegexp(*p.Regex)
	}
	return nil, fmt.Errorf("a pattern is neither a String nor a Regex")
}

// text is the pattern as a regular expression.
func (p textPattern) text() string {
	switch {
	case p.String != nil:
		return regexp.QuoteMeta(*p.String)
	case p.Regex != nil:
		return *p.Regex
	}
	return ""
}

var unicodeForms = map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}

// parseNormalizer reads the member "normalizer" of a tokenizer.json; null is none.
func parseNormalizer(raw json.RawMessage) ([]normalizer, error) {
	if isNull(raw) {
		return nil, nil
	}
	var n struct {
		Type        string
		Normalizers []json.RawMessage
		Prepend     string
		Pattern     textPattern
		Content     string
		Left        bool   `json:"strip_left"`
		Right       bool   `json:"strip_right"`
		Clean       bool   `json:"clean_text"`
		Chinese     bool   `json:"handle_chinese_chars"`
		Accents     *bool  `json:"strip_accents"`
		Lower       bool   `json:"lowercase"`
		Table       []byte `json:"precompiled_charsmap"`
	}
	if err := json.Unmarshal(raw, &n); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	one := func(does string, f func(string) string) ([]normalizer, error) { return []normalizer{{does, f}}, nil }
	if form, ok := unicodeForms[n.Type]; ok {
		return one(n.Type, form.String)
	}
	switch n.Type {
	case "Sequence":
		var all []normalizer
		for _, r := range n.Normalizers {
			more, err := parseNormalizer(r)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
		return all, nil
	case "Prepend":
		return one(fmt.Sprintf("prepends %q", n.Prepend), func(s string) string { return n.Prepend + s })
	case "Replace":
		w, err := n.Pattern.expression()
		if err != nil {
			return nil, fmt.Errorf("normalizer: %w", err)
		}
		return one(fmt.Sprintf("replaces %q by %q", n.Pattern.text(), n.Content), func(s string) string {
			var out strings.Builder
			w.each(s, func(string) { out.WriteString(n.Content) }, func(gap string) { out.WriteString(gap) })
			return out.String()
		})
	case "BertNormalizer":
		accents := n.Lower
		if n.Accents != nil {
			accents = *n.Accents
		}
		return []normalizer{bertNormalizer(n.Clean, n.Chinese, accents, n.Lower)}, nil
	case "Precompiled":
		table, err := parseCharsMap(n.Table)
		if err != nil {
			return nil, fmt.Errorf("normalizer: %w", err)
		}
		return one("SentencePiece's table", table.byCluster)
	case "StripAccents":
		return one("no accents", func(s string) string { return without(s, unicode.M) })
	case "Lowercase":
		return one("lower case", lowerCase)
	case "Strip":
		return one("strips", func(s string) string {
			if n.Left {
				s = strings.TrimLeftFunc(s, unicode.IsSpace)
			}
			if n.Right {
				s = strings.TrimRightFunc(s, unicode.IsSpace)
			}
			return s
		})
	}
	return nil, fmt.Errorf("the normalizer %q is not supported", n.Type)
}

// without leaves out the characters of a class.
func without(s string, class *unicode.RangeTable) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(class, r) {
			return -1
		}
		return r
	}, s)
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
