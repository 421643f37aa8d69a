package search

import (
	"slices"
	"strings"

	"qwb/internal/work/fault"
	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
)

// numberFormat is a format that a search may give to operators, as it was asked for.
type numberFormat struct {
	name   string
	domain decision.Domain     // of floats
	wide   bool                // integers of more than eight bits
	words  decision.Properties // of what was asked for as KEY=VALUE; empty for a name
}

// ParseFormats reads the formats of a search: domains (fp32, fp16, bf16, tf32), formats of numbers (int8, int16, int4, e4m3, ...) and
// properties joined by + (weights=int4-sym-g32+activations=int16-sym-tensor).
func ParseFormats(list []string) ([]numberFormat, error) {
	var out []numberFormat
	for _, text := range list {
		f := numberFormat{name: text}
		switch {
		case slices.ContainsFunc(out, func(o numberFormat) bool { return o.name == text }):
			return nil, fault.Usagef("--formats: %s is there twice", text)
		case strings.Contains(text, "="):
			var err error
			if f.words, err = decision.ParseProperties(strings.Split(text, "+")); err != nil {
				return nil, fault.Usagef("--formats %s: %w", text, err)
			}
			rest := f.words
			rest.Domain, rest.Weights, rest.Activations = "", tqc.Scheme{}, tqc.Scheme{}
			if !rest.Empty() {
				return nil, fault.Usagef("--formats %s: only domain, weights and activations are formats", text)
			}
			f.domain = f.words.Domain
		case text != string(decision.Int) && slices.Contains(decision.Domains, decision.Domain(text)):
			f.domain = decision.Domain(text)
		default:
			s, err := tqc.ParseScheme(text + "-sym-tensor")
			if f.wide = s.Bits > 8; err != nil || s.Bits > 16 {
				return nil, fault.Usagef("--formats %s: one of fp32, fp16, bf16, tf32, int16, int8, int4, e4m3, e5m2, e2m1, nf4, "+
					"other widths of integers, or properties like weights=int4-sym-g32", text)
			}
		}
		out = append(out, f)
	}
	return out, nil
}

// mixed reports whether there are formats other than float32 to choose from.
func (s *searcher) mixed() bool {
	return len(s.formats) > 0 && (len(s.formats) > 1 || s.formats[0].name != string(decision.FP32)) || s.o.MaxCost != nil ||
		s.o.Costing.What != ""
}

// asked are the formats that operators may get beside their own.
func (s *searcher) asked() []numberFormat {
	if len(s.formats) == 0 {
		return []numberFormat{{name: string(decision.FP32), domain: decision.FP32}}
	}
	return s.formats
}

// plainName is the name of a format without its sign: uint8 is int8.
func plainName(format string) string { return strings.TrimPrefix(format, "u") }
