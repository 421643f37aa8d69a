package export

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Kind is the type of an option's value.
type Kind uint8

const (
	Text   Kind = iota // string
	Whole              // int64
	Choice             // string, one of Choices
	Sizes              // map[string]int64, written NAME=SIZE,NAME=SIZE
)

var kindNames = [...]string{"text", "whole", "choice", "sizes"}

func (k Kind) String() string { return kindNames[k] }

// MarshalText gives the name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Option is something that a user can choose. On the command line it is the flag --NAME.
type Option struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	Doc  string `json:"doc"` // half a sentence
	// Default is the value where none is given, as users write it; of a Choice it is the first of Choices.
	Default string   `json:"default"`
	Choices []string `json:"choices,omitempty"`
	// Optional: a Choice may be left open, which is "", and a Whole not given, which is 0 whatever Min is.
	Optional bool  `json:"-"`
	Min      int64 `json:"min,omitempty"` // of Whole and Sizes
}

// Parse reads a value; the error names the flag.
func (o *Option) Parse(text string) (any, error) {
	fail := func(format string, args ...any) (any, error) {
		return nil, fmt.Errorf("--%s %s: %s", o.Name, text, fmt.Sprintf(format, args...))
	}
	least := "must be 0 or more"
	if o.Min != 0 {
		least = fmt.Sprintf("at least %d", o.Min)
	}
	switch o.Kind {
	case Whole:
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil:
			return fail("not a whole number")
		case n < o.Min:
			return fail("%s", least)
		}
		return n, nil
	case Choice:
		if !slices.Contains(o.Choices, text) && !(o.Optional && text == "") {
			return fail("one of %s", strings.Join(o.Choices, ", "))
		}
		return text, nil
	case Sizes:
		sizes := map[string]int64{}
		for _, part := range strings.Split(text, ",") {
			if text == "" {
				break
			}
			name, size, found := strings.Cut(part, "=")
			n, err := strconv.ParseInt(size, 10, 64)
			switch {
			case !found || err != nil:
				return fail("%q is not NAME=SIZE", part)
			case n < o.Min:
				return fail("%s is %s", name, least)
			}
			sizes[name] = n
		}
		return sizes, nil
	}
	return text, nil
}

// Start is the text of the value where none is given.
func (o *Option) Start() string {
	if o.Default == "" && o.Kind == Choice && !o.Optional {
		return o.Choices[0]
	}
	if o.Default == "" && o.Kind == Whole && !o.Optional {
		return "0"
	}
	return o.Default
}

// Values are the options of a format by name.
type Values map[string]any

// Text returns the value of an option of kind Text or Choice, "" if the format has no such option; Whole and Sizes are like it.
func (v Values) Text(name string) string { s, _ := v[name].(string); return s }

// Whole returns the value of an option of kind Whole.
func (v Values) Whole(name string) int64 { n, _ := v[name].(int64); return n }

// Sizes returns the value of an option of kind Sizes. It must not be changed.
func (v Values) Sizes(name string) map[string]int64 { m, _ := v[name].(map[string]int64); return m }

// Resolve reads the options that are given, by name, and fills in the others. One that the format does not have is an error that names
// those it has.
func (f *Format) Resolve(given map[string]string) (Values, error) {
	values := Values{}
	var names []string
	for _, o := range f.AllOptions() {
		names = append(names, "--"+o.Name)
		text, ok := given[o.Name]
		if !ok && o.Kind == Whole && o.Optional {
			values[o.Name] = int64(0)
			continue
		}
		if !ok {
			text = o.Start()
		}
		v, err := o.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("format %s: %w", f.Name, err)
		}
		values[o.Name] = v
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := values[name]; ok {
			continue
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("--%s is not for format %s of a %s, which has no options", name, f.Name, f.From)
		}
		return nil, fmt.Errorf("--%s is not for format %s of a %s, only %s", name, f.Name, f.From, strings.Join(names, ", "))
	}
	return values, nil
}
